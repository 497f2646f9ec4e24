/// What an item is.
///
/// Fifos and sockets live on this machine only.
public enum ItemKind: Int, Sendable, CaseIterable {
    case file = 1
    case folder = 2
    case symlink = 3
    case fifo = 4
    case socket = 5

    /// Whether items of this kind exist in the cloud too.
    public var isSynced: Bool { self == .file || self == .folder || self == .symlink }
}

/// What is written on an item beside its name and content.
public struct ItemMetadata: Hashable, Sendable {
    /// Permission bits, 0 to 0o7777.
    public var permissions: UInt16
    public var userID: UInt32
    public var groupID: UInt32
    public var modified: Timestamp

    /// In place of a user or group id: whoever owns the item in the cloud keeps it.
    ///
    /// From the cloud: it does not tell. Then the item is shown as whoever's mounts the drive.
    public static let keptID = UInt32.max

    public init(permissions: UInt16, userID: UInt32, groupID: UInt32, modified: Timestamp) {
        self.permissions = permissions
        self.userID = userID
        self.groupID = groupID
        self.modified = modified
    }

    /// Leaves the owners as they are in the cloud.
    mutating func hideOwner() {
        (userID, groupID) = (Self.keptID, Self.keptID)
    }

    /// Takes over the owners that the other tells.
    mutating func takeOwner(of other: ItemMetadata) {
        if other.userID != Self.keptID { userID = other.userID }
        if other.groupID != Self.keptID { groupID = other.groupID }
    }

    /// Takes over the owners that are not told.
    mutating func fillOwner(from other: ItemMetadata) {
        if userID == Self.keptID { userID = other.userID }
        if groupID == Self.keptID { groupID = other.groupID }
    }

    /// Whether Linux takes mode bits away from a file when somebody without privileges changes it.
    var hasSetID: Bool { permissions != permissionsWithoutSetID }

    /// Without set-user-id, and without set-group-id if the group may execute it; else that bit
    /// used to mean mandatory locking.
    var permissionsWithoutSetID: UInt16 {
        permissions & ~(permissions & 0o010 != 0 ? 0o6000 : 0o4000)
    }
}

/// A file, folder or link as this machine shows it: one row of the catalog.
public struct Item: Sendable, Equatable {
    public var id: ItemID
    public var container: ContainerID
    public var documentID: DocumentID
    public var kind: ItemKind
    public var metadata: ItemMetadata
    /// Bytes of content; for a symlink the length of its target; 0 for anything else.
    public var size: Int64
    /// When content or metadata were last changed here.
    public var changed: Timestamp
    public var accessed: Timestamp
    /// Where a symlink points, as bytes.
    public var linkTarget: [UInt8]?
    public var content: ContentState
    /// Whether its content is an archive of a folder's tree, and programs see that folder.
    ///
    /// In the cloud it is one file, so that it comes, changes and goes as one.
    public var isPackage: Bool
    /// The package that it is in: it comes and goes with that, and is never sent by itself.
    public var package: ItemID?

    /// What programs see it as.
    public var shownKind: ItemKind { isPackage ? .folder : kind }
    /// Who may read a package may look into it, whatever another program that wrote it as a file
    /// thought.
    public var shownPermissions: UInt16 {
        let own = metadata.permissions
        return isPackage ? own | (own & 0o444) >> 2 : own
    }
    public var isFolder: Bool { shownKind == .folder }
    /// The package that what is in this folder belongs to.
    public var enclosingPackage: ItemID? { isPackage ? id : package }

    public init(
        id: ItemID,
        container: ContainerID,
        documentID: DocumentID,
        kind: ItemKind,
        metadata: ItemMetadata,
        size: Int64,
        changed: Timestamp,
        accessed: Timestamp,
        linkTarget: [UInt8]? = nil,
        content: ContentState,
        isPackage: Bool = false,
        package: ItemID? = nil
    ) {
        self.id = id
        self.container = container
        self.documentID = documentID
        self.kind = kind
        self.metadata = metadata
        self.size = size
        self.changed = changed
        self.accessed = accessed
        self.linkTarget = linkTarget
        self.content = content
        self.isPackage = isPackage
        self.package = package
    }
}
