import GRDB

/// A container as the catalog remembers it.
struct ContainerRecord: Sendable, Equatable {
    var id: ContainerID
    var url: String
    var root: ItemID
    var identity: String?
    var hasItems: Bool
}

extension CatalogReader {
    func containers() throws -> [ContainerRecord] {
        try DatabaseRow.all(
            compiled(
                "SELECT id, url, root, identity, has_items FROM container ORDER BY id"
            )
        ) {
            ContainerRecord(
                id: ContainerID($0[0]),
                url: $0[1],
                root: ItemID($0[2]),
                identity: $0[3],
                hasItems: $0[4]
            )
        }
    }

    func base(of id: ItemID) throws -> BaseRecord? {
        try base("item = ?", [id.rawValue])
    }

    /// Whether the cloud has the content of an item as it is here, so that it may go.
    ///
    /// To be asked in the transaction that drops it: the state of a file in use does not hear of a
    /// save that hands its place in the cloud on and leaves the bytes here the only ones.
    func isInCloud(_ record: ItemRecord) throws -> Bool {
        try !record.hasChangedContent && base(of: record.id) != nil
    }

    /// What the cloud has under a name of a folder, as last agreed.
    func base(named name: [UInt8], in parent: ItemID) throws -> BaseRecord? {
        try base("parent = ? AND name = ?", [parent.rawValue, name.asBlob])
    }

    /// What the cloud has under some names of a folder, as last agreed.
    ///
    /// The names of a page are mostly neighbours: one range is read, unless it holds far more.
    func bases(named names: [[UInt8]], in parent: ItemID) throws -> [[UInt8]: BaseRecord] {
        let bases = try neighbours(
            of: names,
            """
            SELECT \(BaseRecord.columns) FROM base
            WHERE parent = ? AND name BETWEEN ? AND ? LIMIT ?
            """,
            in: parent
        ) { BaseRecord(row: $0) }
        guard let bases else {
            let found = try names.compactMap { try base(named: $0, in: parent) }
            return Dictionary(found.map { ($0.name, $0) }) { first, _ in first }
        }
        return Dictionary(bases.map { ($0.name, $0) }) { first, _ in first }
    }

    /// Which of some names are taken in a folder on this machine.
    func taken(_ names: [[UInt8]], in parent: ItemID) throws -> Set<[UInt8]> {
        let taken = try neighbours(
            of: names,
            "SELECT name FROM name WHERE parent = ? AND name BETWEEN ? AND ? LIMIT ?",
            in: parent
        ) { $0.bytes(0) }
        return Set(try taken ?? names.filter { try child($0, of: parent) != nil })
    }

    /// All rows between the first and the last of some names; `nil` if they are too many.
    private func neighbours<Value>(
        of names: [[UInt8]],
        _ sql: String,
        in parent: ItemID,
        _ read: (DatabaseRow) throws -> Value
    ) throws -> [Value]? {
        guard let first = names.min(by: { $0.lexicographicallyPrecedes($1) }),
            let last = names.max(by: { $0.lexicographicallyPrecedes($1) })
        else { return [] }
        let limit = names.count * 2
        let rows = try DatabaseRow.all(
            compiled(sql),
            arguments: [parent.rawValue, first.asBlob, last.asBlob, limit + 1],
            read
        )
        return rows.count > limit ? nil : rows
    }

    func base(withRemoteID remoteID: RemoteID) throws -> BaseRecord? {
        try base("remote_id = ?", [remoteID.rawValue])
    }

    func hasBases(in parent: ItemID) throws -> Bool {
        try DatabaseRow.value(
            compiled("SELECT EXISTS (SELECT 1 FROM base WHERE parent = ?)"),
            arguments: [parent.rawValue]
        ) ?? false
    }

    /// All that the cloud has in a folder, as last agreed.
    func bases(in parent: ItemID) throws -> [BaseRecord] {
        try DatabaseRow.all(
            compiled(
                "SELECT \(BaseRecord.columns) FROM base WHERE parent = ?"
            ),
            arguments: [parent.rawValue]
        ) { BaseRecord(row: $0) }
    }

    /// What the cloud has in a folder, as last agreed, under names that are asked for.
    func bases(
        in parent: ItemID,
        where isAskedFor: ([UInt8]) -> Bool
    ) throws -> [BaseRecord] {
        let statement = try compiled(
            "SELECT \(BaseRecord.columns) FROM base WHERE parent = ?"
        )
        var bases: [BaseRecord] = []
        try DatabaseRow.forEach(statement, arguments: [parent.rawValue]) { row in
            if isAskedFor(row.bytes(2)) { bases.append(BaseRecord(row: row)) }
            return true
        }
        return bases
    }

    /// Where the item is in the cloud; `nil` if the cloud does not have it.
    func remotePath(of id: ItemID) throws -> RemotePath? {
        try remoteLineage(of: id).map { lineage in try RemotePath(lineage: lineage) }
    }

    /// The item and the folders above it in the cloud, without the root; `nil` if the cloud does
    /// not have it.
    func remoteLineage(of id: ItemID) throws -> [BaseRecord]? {
        var lineage: [BaseRecord] = []
        var current = id
        while true {
            guard let base = try base(of: current) else { return nil }
            guard let parent = base.parent else { return lineage }
            lineage.append(base)
            current = parent
        }
    }

    /// The folder at `path` in the cloud, if this machine knows it.
    func folder(at path: RemotePath, root: ItemID) throws -> ItemID? {
        var current = root
        for name in path.names {
            guard let base = try base(named: name.bytes, in: current) else { return nil }
            current = base.item
        }
        // Something else may have had the place when this machine last looked.
        guard try current == root || item(current)?.item.kind == .folder else { return nil }
        return current
    }

    /// Whether a newer version than the one here is known; it is applied after the last close.
    func newer(of id: ItemID) throws -> ItemVersion? {
        try DatabaseRow.first(
            compiled(
                "SELECT content_version, metadata_version FROM newer WHERE item = ?"
            ),
            arguments: [id.rawValue]
        ) { ItemVersion(content: $0[0], metadata: $0[1]) }
    }

    func item(withDocument document: DocumentID) throws -> ItemRecord? {
        try DatabaseRow.first(
            compiled(
                "SELECT \(ItemRecord.columns) FROM item WHERE document = ?"
            ),
            arguments: [document.blob.asBlob]
        ) { try ItemRecord(row: $0) }
    }

    /// The item that has a document's identity here.
    func holder(of document: DocumentID) throws -> ItemID? {
        let id: Int64? = try DatabaseRow.value(
            compiled("SELECT id FROM item WHERE document = ? LIMIT 1"),
            arguments: [document.blob.asBlob]
        )
        return id.map { ItemID($0) }
    }

    /// A choice of the user that outlives the mount, such as whether uploads are paused.
    func setting(_ key: String) throws -> String? {
        try DatabaseRow.value(
            compiled("SELECT value FROM setting WHERE key = ?"),
            arguments: [key]
        )
    }

    private func base(
        _ condition: String,
        _ arguments: [any StatementBinding]
    ) throws -> BaseRecord? {
        try DatabaseRow.first(
            compiled(
                "SELECT \(BaseRecord.columns) FROM base WHERE \(condition)"
            ),
            arguments: arguments
        ) { BaseRecord(row: $0) }
    }
}

extension CatalogWriter {
    /// Adds a container whose root is `root`.
    func addContainer(url: String, root: ItemID) throws -> ContainerID {
        try execute(
            "INSERT INTO container (url, root) VALUES (?, ?)",
            [url, root.rawValue]
        )
        return ContainerID(database.lastInsertedRowID)
    }

    func setSetting(_ key: String, to value: String) throws {
        try execute("INSERT OR REPLACE INTO setting (key, value) VALUES (?, ?)", [key, value])
    }

    func removeSetting(_ key: String) throws {
        try execute("DELETE FROM setting WHERE key = ?", [key])
    }

    func setContainer(_ id: ContainerID, identity: String) throws {
        try execute(
            "UPDATE container SET identity = ? WHERE id = ?",
            [identity, id.rawValue]
        )
    }

    func setHasItems(_ id: ContainerID) throws {
        try execute("UPDATE container SET has_items = 1 WHERE id = ?", [id.rawValue])
    }

    /// Stores what this machine and the cloud now agree on.
    func setBase(_ base: BaseRecord) throws {
        try execute(
            """
            INSERT INTO base (item, parent, name, remote_id, content_version, metadata_version,
                size, modified) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (item) DO UPDATE SET parent = excluded.parent, name = excluded.name,
                remote_id = excluded.remote_id, content_version = excluded.content_version,
                metadata_version = excluded.metadata_version, size = excluded.size,
                modified = excluded.modified
            """,
            [
                base.item.rawValue, base.parent?.rawValue, base.name.asBlob,
                base.remoteID.rawValue, base.version.content, base.version.metadata, base.size,
                base.modified.nanoseconds,
            ]
        )
    }

    func removeBase(of id: ItemID) throws {
        try noteLost(of: id)
        let left = try reader.hasRefused() ? reader.base(of: id) : nil
        try execute("DELETE FROM base WHERE item = ?", [id.rawValue])
        try execute("DELETE FROM newer WHERE item = ?", [id.rawValue])
        try forgetHeir(id)
        if let left { try lookAgainAtRefused(by: left) }
    }

    /// Makes the next listing look closer at an item, whatever it says.
    ///
    /// - Parameter base: What is known of it now.
    func doubt(_ base: BaseRecord) throws {
        var doubted = base
        doubted.version = base.version.asStale
        try setBase(doubted)
    }

    /// Notes that an item is about to lose its base: what it lacks of that version never comes.
    ///
    /// Whatever base it gets later is another version, whose bytes must not be mixed with its own.
    func noteLost(of id: ItemID) throws {
        try execute(
            """
            UPDATE item SET lost_size = (SELECT size FROM base WHERE base.item = item.id)
            WHERE id = ? AND residency = 1 AND lost_size IS NULL
            """,
            [id.rawValue]
        )
    }

    func setNewer(_ remote: RemoteItem, of id: ItemID) throws {
        try execute(
            """
            INSERT OR REPLACE INTO newer (item, content_version, metadata_version, size, modified)
            VALUES (?, ?, ?, ?, ?)
            """,
            [
                id.rawValue, remote.version.content, remote.version.metadata, remote.size,
                remote.metadata.modified.nanoseconds,
            ]
        )
    }

    func clearNewer(of id: ItemID) throws {
        try execute("DELETE FROM newer WHERE item = ?", [id.rawValue])
    }

    /// Takes over what the cloud says of an item beside its content, unless some of that was
    /// changed here: then ours is sent, together with the attributes that were not.
    ///
    /// A folder keeps its own time: in the cloud it changes with everything that is sent there.
    /// The time of a file is that of its bytes, and newer ones keep theirs. What is shown already
    /// is no change, of which anybody should hear or which the item's `ctime` should tell.
    /// Attributes that may not be read there are as they were.
    ///
    /// - Parameter isSame: Whether the bytes here are the cloud's, whatever is noted of them.
    /// - Parameter isReplaced: Whether they have just given way to the cloud's.
    /// - Returns: Whether anything is shown that was not before.
    @discardableResult
    func takeOverMetadata(
        of remote: RemoteItem,
        for id: ItemID,
        isSame: Bool = false,
        isReplaced: Bool = false,
        at now: Timestamp
    ) throws -> Bool {
        let record = try reader.existing(id)
        let shown = record.item.metadata
        let keepsTime =
            record.item.kind == .folder || (record.hasChangedContent && !isSame)
        let unsent = record.unsentFields
        guard !record.hasChangedMetadata else {
            var taken = shown
            let told: UnsentFields = remote.isSketch ? [] : .all.subtracting(unsent)
            // Sent with these bytes, the time of older ones would make them pass for those.
            if isReplaced || told.contains(.modified) && !keepsTime {
                taken.modified = remote.metadata.modified
            }
            if told.contains(.permissions) {
                taken.permissions = remote.metadata.permissions | shown.permissions & ~0o777
            }
            if told.contains(.owner) { taken.takeOwner(of: remote.metadata) }
            let isOther = isReplaced || taken != shown
            if isOther { try setMetadata(of: id, to: taken, at: now) }
            return try mergeAttributes(of: remote, for: id) || isOther
        }
        let modified = keepsTime ? shown.modified : remote.metadata.modified
        // No cloud has more than these bits. A folder keeps its own; what is somebody else's file
        // by now must not.
        let kept = record.item.kind == .folder ? shown.permissions & 0o7000 : 0
        var taken = shown
        taken.takeOwner(of: remote.metadata)
        (taken.permissions, taken.modified) = (remote.metadata.permissions | kept, modified)
        let known = try reader.attributes(of: id)
        let attributes = remote.areAttributesKnown ? remote.attributes : known
        guard taken != shown || attributes != known else { return false }
        try setMetadata(of: id, to: taken, at: now)
        try replaceAttributes(with: attributes, of: id)
        return true
    }

    /// Forgets whom items belong to in the cloud.
    func hideOwnersOfCloud() throws {
        try execute(
            """
            UPDATE item SET user_id = ?, group_id = ?
            WHERE unsent_fields & ? = 0 AND id IN (SELECT item FROM base)
            """,
            [ItemMetadata.keptID, ItemMetadata.keptID, UnsentFields.owner.rawValue]
        )
    }

    private func setMetadata(
        of id: ItemID,
        to metadata: ItemMetadata,
        at now: Timestamp
    ) throws {
        try setMetadata(
            of: id,
            permissions: metadata.permissions,
            userID: metadata.userID,
            groupID: metadata.groupID,
            modified: metadata.modified,
            at: now
        )
    }

    func setSize(_ size: Int64, of id: ItemID) throws {
        try execute("UPDATE item SET size = ? WHERE id = ?", [size, id.rawValue])
    }

    func setLinkTarget(_ target: [UInt8], of id: ItemID) throws {
        try execute(
            "UPDATE item SET link_target = ?, size = ? WHERE id = ?",
            [target.asBlob, target.count, id.rawValue]
        )
    }

    /// Notes that the cloud has the item's content as it is here.
    func markClean(_ id: ItemID) throws {
        try execute("UPDATE item SET cleanliness = 0 WHERE id = ?", [id.rawValue])
        try releasePrevious(of: id)
    }

    /// Notes that the cloud has the metadata, unless they were changed after `moment`.
    func clearMetadataChanged(_ id: ItemID, unlessAfter moment: Timestamp) throws {
        try execute(
            """
            UPDATE item SET metadata_changed = 0, unsent_fields = 0 WHERE id = ? AND changed <= ?
            """,
            [id.rawValue, moment.nanoseconds]
        )
        // Nothing is left to be handed on to what only has the same bytes.
        try execute(
            """
            DELETE FROM heir WHERE original = ?1
                AND EXISTS (SELECT 1 FROM item WHERE id = ?1 AND metadata_changed = 0)
            """,
            [id.rawValue]
        )
    }
}

extension RemotePath {
    /// The path of an item, from the item and the folders above it, without the root.
    init(lineage: [BaseRecord]) throws(CloudFSError) {
        var names: [ItemName] = []
        for base in lineage.reversed() { names.append(try ItemName(base.name)) }
        self.init(names)
    }
}
