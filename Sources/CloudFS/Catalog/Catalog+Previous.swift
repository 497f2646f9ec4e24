import GRDB

/// What a file was before its content was replaced: kept until the new content is on the disk.
///
/// As on a disk that is written late, a power failure may leave a new file empty or cut off. What
/// it replaced is whole.
struct PreviousContent: Sendable, Equatable {
    /// The file that has other content now.
    var item: ItemID
    /// The content file; generation 0 where there is only what the cloud has, of that item.
    var content: ContentName
    /// Bytes.
    var size: Int64
    var modified: Timestamp
    /// Which version of the cloud it was; `nil` if it had changes, which are kept.
    var version: String?
    /// When it was replaced.
    var since: Timestamp

    static let columns = "item, holder, generation, size, modified, version, since"
}

extension PreviousContent {
    fileprivate init(row: DatabaseRow) {
        item = ItemID(row[0])
        content = ContentName(item: ItemID(row[1]), generation: row[2])
        size = row[3]
        modified = Timestamp(nanoseconds: row[4])
        version = row[5]
        since = Timestamp(nanoseconds: row[6])
    }
}

extension CatalogReader {
    func previous(of id: ItemID) throws -> PreviousContent? {
        try DatabaseRow.first(
            compiled(
                "SELECT \(PreviousContent.columns) FROM previous WHERE item = ?"
            ),
            arguments: [id.rawValue]
        ) { PreviousContent(row: $0) }
    }

    /// All that is kept, the longest kept first.
    func allPrevious() throws -> [PreviousContent] {
        try DatabaseRow.all(
            compiled(
                "SELECT \(PreviousContent.columns) FROM previous ORDER BY since, item"
            )
        ) { PreviousContent(row: $0) }
    }

    /// Those whose content took the place of what only the cloud has, of another item.
    func previous(inCloudOf id: ItemID) throws -> [PreviousContent] {
        try DatabaseRow.all(
            compiled(
                """
                SELECT \(PreviousContent.columns) FROM previous
                WHERE holder = ?1 AND generation = 0 AND item <> ?1
                """
            ),
            arguments: [id.rawValue]
        ) { PreviousContent(row: $0) }
    }

    /// Where the cloud has what was replaced by content of a file that it knows elsewhere, or not
    /// at all.
    ///
    /// - Returns: A base that the file may take, as who has it does not need it: it was removed, or
    ///   has new content.
    func replacedBase(of previous: PreviousContent) throws -> BaseRecord? {
        guard let version = previous.version, let name = try name(of: previous.item) else {
            return nil
        }
        let candidates = [
            try base(of: previous.content.item), try base(named: name.name, in: name.parent),
        ]
        return try candidates.compactMap { $0 }.first { base in
            guard base.item != previous.item, base.version.content == version else { return false }
            let holder = try existing(base.item)
            let isNew = holder.hasChangedContent && holder.item.content.residency == .resident
            return try holder.item.kind == .file && (isNew || self.name(of: base.item) == nil)
        }
    }

    /// Whether a content file is kept for whoever took its place.
    fileprivate func isKept(_ name: ContentName) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                """
                SELECT EXISTS (SELECT 1 FROM previous WHERE generation <> 0
                    AND holder = ? AND generation = ?)
                """
            ),
            arguments: [name.item.rawValue, name.generation]
        ) ?? false
    }
}

extension CatalogWriter {
    /// Keeps what a file is for the one that takes its place, or for itself, before the content of
    /// that one is on the disk.
    ///
    /// What is not on the disk either takes the place of nothing: what it replaced is kept on.
    func keepPrevious(_ old: ItemRecord, for id: ItemID, at now: Timestamp) throws {
        if old.id != id {
            guard try reader.existing(id).hasChangedContent else { return }
            try releasePrevious(of: id)
            try execute(
                "UPDATE previous SET item = ? WHERE item = ?",
                [id.rawValue, old.id.rawValue]
            )
        }
        let content = ContentName(item: old.id, generation: old.item.content.generation)
        guard old.item.kind == .file, !old.item.isPackage, old.item.size > 0,
            try reader.previous(of: id) == nil, try !reader.isKept(content)
        else { return }
        // It may have been handed on already.
        let base = try reader.base(of: old.id) ?? reader.base(of: id)
        let isHere = old.item.content.residency == .resident
        let previous = PreviousContent(
            item: id,
            content: isHere ? content : ContentName(item: old.id, generation: 0),
            size: old.item.size,
            modified: old.item.metadata.modified,
            // Of changes that are not all here the version before them is better than nothing.
            version: isHere && old.hasChangedContent ? nil : base?.version.content,
            since: now
        )
        if isHere || previous.version != nil { try insert(previous) }
    }

    /// Keeps of a file that has no changes what the cloud has, before its content is emptied.
    func keepVersion(of record: ItemRecord, at now: Timestamp) throws {
        guard record.item.size > 0, try reader.previous(of: record.id) == nil,
            let base = try reader.base(of: record.id)
        else { return }
        try insert(
            PreviousContent(
                item: record.id,
                content: ContentName(item: record.id, generation: 0),
                size: record.item.size,
                modified: record.item.metadata.modified,
                version: base.version.content,
                since: now
            )
        )
    }

    /// The cloud has a save that was replaced while it was sent: that is what there is before the
    /// content that took its place, and no longer what the save had replaced.
    ///
    /// - Parameters:
    ///   - id: The item that has its place now.
    ///   - sent: The item that was sent.
    func replacePrevious(of id: ItemID, by base: BaseRecord, of sent: ItemID) throws {
        guard var previous = try reader.previous(of: id), base.size > 0 else { return }
        // Content of the same item that the cloud never had may be newer than what was sent.
        guard previous.version != base.version.content,
            previous.version != nil || previous.content.item != sent
        else { return }
        try releasePrevious(of: id)
        previous.content = ContentName(item: id, generation: 0)
        previous.size = base.size
        previous.modified = base.modified
        previous.version = base.version.content
        try insert(previous)
    }

    /// Follows a base that another file has now.
    func passPrevious(from old: ItemID, to heir: ItemID) throws {
        try execute(
            "UPDATE previous SET holder = ? WHERE holder = ? AND generation = 0",
            [heir.rawValue, old.rawValue]
        )
    }

    private func insert(_ previous: PreviousContent) throws {
        outcome.hasLeftovers = true
        try execute(
            "INSERT INTO previous (\(PreviousContent.columns)) VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                previous.item.rawValue, previous.content.item.rawValue,
                previous.content.generation, previous.size, previous.modified.nanoseconds,
                previous.version, previous.since.nanoseconds,
            ]
        )
    }

    /// Lets go of what a file was: its content is on the disk or in the cloud, or nobody's.
    func releasePrevious(of id: ItemID) throws {
        guard let previous = try reader.previous(of: id) else { return }
        try execute("DELETE FROM previous WHERE item = ?", [id.rawValue])
        let name = previous.content
        // Who has it still discards it when it goes.
        if try reader.item(name.item)?.item.content.generation != name.generation {
            try discard(name)
        }
    }

    /// The same for content that was flushed; one that was replaced meanwhile was not.
    func releasePrevious(of flushed: ContentName) throws {
        let generation = try reader.item(flushed.item)?.item.content.generation
        if generation == flushed.generation { try releasePrevious(of: flushed.item) }
    }

    /// Remembers that the content file of an item is to be unlinked once this transaction is
    /// durable, unless it is kept for whoever took its place.
    func discard(_ record: ItemRecord) throws {
        let name = ContentName(item: record.id, generation: record.item.content.generation)
        if try !reader.isKept(name) { try discard(name) }
    }

    private func discard(_ name: ContentName) throws {
        guard name.generation != 0 else { return }
        outcome.hasLeftovers = true
        try execute(
            "INSERT OR IGNORE INTO discard (item, generation) VALUES (?, ?)",
            [name.item.rawValue, name.generation]
        )
    }
}
