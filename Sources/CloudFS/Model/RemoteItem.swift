/// A provider's tokens for one state of an item: one for its bytes, one for all else.
///
/// Opaque: compared for equality only. Each at most 256 bytes.
public struct ItemVersion: Hashable, Sendable {
    public var content: String
    public var metadata: String

    public init(content: String, metadata: String) {
        self.content = content
        self.metadata = metadata
    }
}

/// An item as the cloud has it.
public struct RemoteItem: Sendable, Equatable {
    public var id: RemoteID
    /// The document's identity: stored with the item, or derived so that all devices agree.
    public var documentID: DocumentID
    public var name: ItemName
    /// `file`, `folder` or `symlink`.
    public var kind: ItemKind
    public var size: Int64
    /// Permission bits 0 to 0o777, owner as the cloud knows it, time of the last change.
    public var metadata: ItemMetadata
    public var version: ItemVersion
    public var linkTarget: [UInt8]?
    /// Applications' extended attributes, with their full names (`user.…`).
    public var attributes: [String: [UInt8]]
    /// Whether those are all of them: where they may not be read, what is known of them stays.
    public var areAttributesKnown: Bool
    /// Whether only a listing is known of it: metadata, attributes, identity, and whether a file
    /// is a link, may be other than said here.
    ///
    /// Its metadata token is then the beginning of the full one.
    public var isSketch: Bool
    /// Whether the document's identity is stored with the item.
    ///
    /// If not, it is made of its place, or only unknown yet, and says nothing of an item elsewhere.
    public var isIdentified: Bool

    public init(
        id: RemoteID,
        documentID: DocumentID,
        name: ItemName,
        kind: ItemKind,
        size: Int64,
        metadata: ItemMetadata,
        version: ItemVersion,
        linkTarget: [UInt8]? = nil,
        attributes: [String: [UInt8]] = [:],
        areAttributesKnown: Bool = true,
        isSketch: Bool = false,
        isIdentified: Bool = true
    ) {
        self.id = id
        self.documentID = documentID
        self.name = name
        self.kind = kind
        self.size = size
        self.metadata = metadata
        self.version = version
        self.linkTarget = linkTarget
        self.attributes = attributes
        self.areAttributesKnown = areAttributesKnown
        self.isSketch = isSketch
        self.isIdentified = isIdentified
    }
}

extension ItemVersion {
    private static let sketchMark = "~"
    private static let staleMark = "?"

    /// The version of an item on which something else is written by now: as no listing says it.
    var asStale: ItemVersion {
        guard !isStale else { return self }
        return ItemVersion(content: content, metadata: Self.staleMark + metadata)
    }

    var isStale: Bool { metadata.hasPrefix(Self.staleMark) }

    /// The version of an item of which only a listing is known, told apart from a full one.
    var asSketch: ItemVersion {
        ItemVersion(content: content, metadata: Self.sketchMark + metadata)
    }

    var isSketch: Bool { metadata.hasPrefix(Self.sketchMark) }

    /// What a listing told of a version.
    var fromSketch: ItemVersion {
        isSketch ? ItemVersion(content: content, metadata: String(metadata.dropFirst())) : self
    }
}

extension RemoteItem {
    /// Whether the item is in the version `known`, as far as this tells.
    func isUnchanged(since known: ItemVersion) -> Bool {
        guard isSketch else { return version == known }
        let token = known.metadata.dropFirst(known.isSketch ? 1 : 0)
        return known.content == version.content && token.hasPrefix(version.metadata)
    }

    /// The version to remember once this is taken over.
    var knownVersion: ItemVersion { isSketch ? version.asSketch : version }
}

/// Where the next page of a listing begins; opaque, at most 500 bytes.
public struct PageToken: Hashable, Sendable {
    public let rawValue: String

    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }
}

/// One page of a folder's children; the listing is complete when `next` is `nil`.
public struct ListingPage: Sendable {
    public var items: [RemoteItem]
    /// Names that are there and stand for nothing of the container now, as where another file
    /// system is mounted: whatever was known by them is not gone.
    public var hidden: [ItemName]
    /// Names of items that cannot be looked at now, as where a disk is damaged.
    ///
    /// What was known by them is not gone either, and any of them may be what another name stood
    /// for before.
    public var unreadable: [ItemName]
    /// On a first page, a sketch of the folder itself, where the listing of the folder above does
    /// not tell whether what is written on it has changed.
    public var folder: RemoteItem?
    public var next: PageToken?

    public init(
        items: [RemoteItem],
        hidden: [ItemName] = [],
        unreadable: [ItemName] = [],
        folder: RemoteItem? = nil,
        next: PageToken?
    ) {
        self.items = items
        self.folder = folder
        self.hidden = hidden
        self.unreadable = unreadable
        self.next = next
    }
}

/// A position in a provider's change feed; opaque, at most 500 bytes.
public struct SyncAnchor: Hashable, Sendable {
    public let rawValue: String

    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }
}

/// Where something may have changed.
///
/// A hint is never the truth: a listing is.
public enum ChangeHint: Hashable, Sendable {
    /// The children of this folder: some appeared, changed, moved or went.
    case children(of: RemotePath)
    /// Everything below this folder; the root's path means the whole container.
    case subtree(RemotePath)
    /// What is written on this item, such as its mode or its attributes: of two changes within a
    /// moment a listing may tell one.
    case item(RemotePath)
}

/// What changed since an anchor, and the anchor to ask from next.
public struct ChangePage: Sendable {
    public var hints: [ChangeHint]
    public var anchor: SyncAnchor

    public init(hints: [ChangeHint], anchor: SyncAnchor) {
        self.hints = hints
        self.anchor = anchor
    }
}

/// SHA-256 of a file's whole content: 32 bytes.
public struct ContentDigest: Hashable, Sendable {
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }
}

/// Space at the provider, in bytes.
public struct Quota: Hashable, Sendable {
    public var total: Int64
    /// What nobody has used: with what is kept for others, where that is told.
    public var free: Int64
    public var available: Int64

    public init(total: Int64, free: Int64? = nil, available: Int64) {
        self.total = total
        self.free = free ?? available
        self.available = available
    }
}

/// Extended attributes as clouds may hold them.
enum RemoteAttribute {
    /// Where a cloud of plain files keeps the document's identity.
    static let documentID = "user.cloudfs-id"

    /// Names the sidecar that has an item's attributes if the item has no room for them.
    static let elsewhere = "user.cloudfs-attributes"

    /// That a person wants to find the item again; the only one of CloudFS's own that is synced.
    static let favorite = "user.cloudfs.favorite"

    /// Whether a cloud keeps an attribute: an application's, or the one of our own that is synced.
    static func isSynced(_ name: String) -> Bool {
        isApplications(name) || name == favorite || name == elsewhere
    }

    /// Whether an attribute is an application's: not one that a drive computes, whatever a cloud
    /// says, nor one that no program could have set.
    static func isApplications(_ name: String) -> Bool {
        name.hasPrefix("user.") && ![documentID, elsewhere, "user.cloudfs"].contains(name)
            && !name.hasPrefix("user.cloudfs.") && (6...255).contains(name.utf8.count)
            && !name.utf8.contains(0)
    }
}
