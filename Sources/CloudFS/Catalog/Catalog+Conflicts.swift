import GRDB

/// Documents and those versions of them that lost a race, which are items beside them.
///
/// Two folders of one name become one, so they are no versions of each other; but a file may have
/// lost its name to a folder, or a link to a file.
///
/// Names alone tell which is whose version (`ConflictNaming`): every device sees the same, renaming
/// or removing one ends it, and nothing can be out of date.
extension CatalogReader {
    /// Selects few more than the names that are wanted, by an index of its own.
    static let isMarked = "instr(name, x'\(Hexadecimal.text(ConflictNaming.marker))') > 0"

    /// At most `limit` marked names of the drive whose rows come after `position`, in that order,
    /// and what they are versions of; `nil` for those that only look so.
    func conflicts(
        after position: Int64,
        limit: Int
    ) throws -> [(position: Int64, version: NameRecord, document: NameRecord?)] {
        try DatabaseRow.all(
            compiled(
                """
                SELECT id, parent, name, item FROM name
                WHERE \(Self.isMarked) AND id > ? ORDER BY id LIMIT ?
                """
            ),
            arguments: [position, limit]
        ) { row in
            let version = NameRecord(
                parent: ItemID(row[1]),
                name: row.bytes(2),
                item: ItemID(row[3])
            )
            return (row[0], version, try document(of: version))
        }
    }

    /// How many conflict versions there are, of the first 10,000 names that look like one: that
    /// many are no less news than more.
    func conflictCount() throws -> Int {
        try conflicts(after: 0, limit: 10_000).count { $0.document != nil }
    }

    /// Whether an item is a conflict version, or has some.
    func isInConflict(_ id: ItemID) throws -> Bool {
        guard let name = try name(of: id) else { return false }
        return try document(of: name) != nil || !conflictVersions(of: name).isEmpty
    }

    /// The document that an item is a conflict version of.
    func document(of version: NameRecord) throws -> NameRecord? {
        guard let original = ConflictNaming.original(of: try ItemName(version.name)),
            let isFolder = try isFolder(version.item),
            let record = try child(original.bytes, of: version.parent),
            !isFolder || record.item.kind != .folder
        else { return nil }
        return NameRecord(parent: version.parent, name: original.bytes, item: record.id)
    }

    /// The conflict versions of a document; those with cut names are not found.
    func conflictVersions(of document: NameRecord) throws -> [NameRecord] {
        guard let isFolder = try isFolder(document.item) else { return [] }
        let name = try ItemName(document.name)
        return try ConflictNaming.beginnings(of: name).flatMap { beginning in
            // What comes behind all names that begin so: the last byte is a space.
            let end = beginning.dropLast() + [0x21]
            return try DatabaseRow.all(
                compiled(
                    "SELECT name, item FROM name WHERE parent = ? AND name > ? AND name < ?"
                ),
                arguments: [document.parent.rawValue, beginning.asBlob, Array(end).asBlob]
            ) { row in
                NameRecord(parent: document.parent, name: row.bytes(0), item: ItemID(row[1]))
            }
        }.filter { version in
            try ConflictNaming.original(of: ItemName(version.name)) == name
                && (!isFolder || self.isFolder(version.item) == false)
        }
    }

    /// Whether an item is a folder, which a package is not; `nil` for one that is gone.
    private func isFolder(_ id: ItemID) throws -> Bool? {
        try item(id).map { $0.item.kind == .folder }
    }
}
