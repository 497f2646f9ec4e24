import GRDB

/// One row of the table `item` with everything the engine asks of it.
struct ItemRecord: Sendable, Equatable {
    var item: Item
    /// Bytes of content on this machine's disk, as last counted.
    var localBytes: Int64
    /// Whether mode, owner, times or attributes are newer than the base.
    var hasChangedMetadata: Bool
    /// Which of mode and time are, if so.
    var unsentFields: UnsentFields
    /// For a folder: whether all children in the cloud are known here.
    var isListed: Bool
    /// Whether the whole content was asked for and is to be brought here.
    var isWanted: Bool
    /// How long the version was that absent bytes are of, if it is gone from the cloud.
    var lostSize: Int64?
    /// When a program last opened it.
    var lastUsed: Timestamp
    /// For a package: how often its tree was changed, or opened to be.
    var treeChanges: Int64
    /// How often it had been when its content was made of it.
    var packedChanges: Int64

    /// Whether absent bytes can never come, because their version is gone from the cloud.
    var isBaseLost: Bool { lostSize != nil }
    /// Whether its bytes are newer than the base, or are to be made anew.
    var hasChangedContent: Bool { item.content.cleanliness != .clean || isTreeChanged }
    /// Whether a package's tree is newer than its content; one that is not here is not.
    var isTreeChanged: Bool { isListed && treeChanges != packedChanges }

    /// How many bytes of a file's content are not on this machine's disk.
    var missingByteCount: Int64 { max(0, item.size - localBytes) }

    /// The columns in the order `init(row:)` reads them, from a table named `item`.
    static let columns = """
        item.id, item.container, item.document, item.kind, item.permissions, item.user_id,
        item.group_id, item.size, item.modified, item.changed, item.accessed, item.link_target,
        item.residency, item.cleanliness, item.policy, item.generation, item.local_bytes,
        item.metadata_changed, item.is_listed, item.is_wanted, item.lost_size, item.last_used,
        item.is_package, item.package, item.tree_changes, item.packed_changes, item.unsent_fields
        """

    static let columnCount = 27

    init(row: DatabaseRow) throws {
        guard let kind = ItemKind(rawValue: row[3]),
            let residency = Residency(rawValue: row[12]),
            let cleanliness = Cleanliness(rawValue: row[13]),
            let policy = ContentPolicy(rawValue: row[14]),
            let document = DocumentID(blob: row.bytes(2))
        else { throw CloudFSError(.corrupt, "item \(row[0] as Int64) of the catalog is damaged") }
        item = Item(
            id: ItemID(row[0]),
            container: ContainerID(row[1]),
            documentID: document,
            kind: kind,
            metadata: ItemMetadata(
                permissions: row[4],
                userID: row[5],
                groupID: row[6],
                modified: Timestamp(nanoseconds: row[8])
            ),
            size: row[7],
            changed: Timestamp(nanoseconds: row[9]),
            accessed: Timestamp(nanoseconds: row[10]),
            linkTarget: row.blob(11),
            content: ContentState(
                residency: residency,
                cleanliness: cleanliness,
                policy: policy,
                generation: row[15]
            ),
            isPackage: row[22],
            package: (row[23] as Int64?).map { ItemID($0) }
        )
        localBytes = row[16]
        hasChangedMetadata = row[17]
        isListed = row[18]
        isWanted = row[19]
        lostSize = row[20]
        lastUsed = Timestamp(nanoseconds: row[21])
        treeChanges = row[24]
        packedChanges = row[25]
        unsentFields = UnsentFields(rawValue: row[26])
    }

    var id: ItemID { item.id }
}

/// A row of the table `base`: what this machine and the cloud last agreed on.
struct BaseRecord: Sendable, Equatable {
    var item: ItemID
    /// The folder in the cloud; `nil` for a container's root.
    var parent: ItemID?
    /// The name in the cloud as bytes; empty for a container's root.
    var name: [UInt8]
    var remoteID: RemoteID
    var version: ItemVersion
    var size: Int64
    var modified: Timestamp

    /// Whether another item has its place in the cloud, and nothing is known yet of where it is.
    var isDisplaced: Bool { DisplacedName.original(of: name, item) != nil }

    /// Whether both name the same entry of the same folder in the cloud.
    func isInPlace(of other: BaseRecord?) -> Bool {
        parent == other?.parent && name == other?.name
    }

    static let columns = """
        base.item, base.parent, base.name, base.remote_id, base.content_version,
        base.metadata_version, base.size, base.modified
        """

    init(
        item: ItemID,
        parent: ItemID?,
        name: [UInt8],
        remoteID: RemoteID,
        version: ItemVersion,
        size: Int64,
        modified: Timestamp
    ) {
        self.item = item
        self.parent = parent
        self.name = name
        self.remoteID = remoteID
        self.version = version
        self.size = size
        self.modified = modified
    }

    init(row: DatabaseRow, from first: Int = 0) {
        item = ItemID(row[first])
        parent = (row[first + 1] as Int64?).map { ItemID($0) }
        name = row.bytes(first + 2)
        remoteID = RemoteID(row[first + 3])
        version = ItemVersion(content: row[first + 4], metadata: row[first + 5])
        size = row[first + 6]
        modified = Timestamp(nanoseconds: row[first + 7])
    }
}

/// A name of the tree on this machine.
struct NameRecord: Sendable, Equatable {
    var parent: ItemID
    var name: [UInt8]
    var item: ItemID
}

extension DocumentID {
    /// The 16 bytes of the identity, most significant first.
    var blob: [UInt8] {
        [high, low].flatMap { word in
            stride(from: 56, through: 0, by: -8).map { UInt8(truncatingIfNeeded: word >> $0) }
        }
    }

    init?(blob: [UInt8]) {
        guard blob.count == 16 else { return nil }
        func word(_ bytes: ArraySlice<UInt8>) -> UInt64 {
            bytes.reduce(0) { $0 << 8 | UInt64($1) }
        }
        self.init(high: word(blob[..<8]), low: word(blob[8...]))
    }
}
