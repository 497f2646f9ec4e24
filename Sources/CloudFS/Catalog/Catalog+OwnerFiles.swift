import GRDB

/// A file by which a process of this machine tells others that it has a document open.
struct OwnerFileRecord: Sendable, Equatable {
    var item: ItemID
    var owner: ProcessIdentity
    /// Whether the process was still there when the cloud had the file: it means to keep it.
    var isKept: Bool
}

extension CatalogReader {
    func ownerFileCount() throws -> Int {
        try DatabaseRow.value(compiled("SELECT count(*) FROM owner_file")) ?? 0
    }

    func ownerFiles() throws -> [OwnerFileRecord] {
        try DatabaseRow.all(
            compiled(
                "SELECT item, process, began, boot, is_kept FROM owner_file"
            )
        ) { row in
            OwnerFileRecord(
                item: ItemID(row[0]),
                owner: ProcessIdentity(process: row[1], began: row[2], boot: row[3]),
                isKept: row[4]
            )
        }
    }
}

extension CatalogWriter {
    func setOwnerFile(_ record: OwnerFileRecord) throws {
        try execute(
            """
            INSERT OR REPLACE INTO owner_file (item, process, began, boot, is_kept)
            VALUES (?, ?, ?, ?, ?)
            """,
            [
                record.item.rawValue, record.owner.process, record.owner.began,
                record.owner.boot, record.isKept,
            ]
        )
    }

    func removeOwnerFile(_ id: ItemID) throws {
        try execute("DELETE FROM owner_file WHERE item = ?", [id.rawValue])
    }
}
