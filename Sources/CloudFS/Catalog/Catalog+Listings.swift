import GRDB

/// Which folders were listed, and what is known of the cloud from listings only.
extension CatalogReader {
    /// Items of a folder of which only listings are known, in the order of their names.
    func sketches(
        in folder: ItemID,
        after name: [UInt8],
        limit: Int
    ) throws -> [RemoteItem] {
        try sketches(
            """
            base.parent = ? AND base.name > ? AND base.metadata_version >= '~'
            ORDER BY base.name LIMIT ?
            """,
            [folder.rawValue, name.asBlob, limit]
        )
    }

    /// What a listing told of an item; `nil` if more is known of it.
    func sketch(of id: ItemID) throws -> RemoteItem? {
        try sketches("base.item = ? AND base.metadata_version >= '~'", [id.rawValue]).first
    }

    /// The items of the cloud that were found last.
    func latestItems(limit: Int) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                "SELECT item FROM base WHERE parent NOT NULL ORDER BY item DESC LIMIT ?"
            ),
            arguments: [limit]
        ).map { ItemID($0) }
    }

    /// Whether of any item no more than a listing is known.
    func hasSketches() throws -> Bool {
        try DatabaseRow.value(
            compiled(
                "SELECT EXISTS (SELECT 1 FROM base WHERE metadata_version >= '~')"
            )
        ) ?? false
    }

    private func sketches(
        _ condition: String,
        _ arguments: [any StatementBinding]
    ) throws -> [RemoteItem] {
        let statement = try compiled(
            """
            SELECT \(ItemRecord.columns), \(BaseRecord.columns)
            FROM base JOIN item ON item.id = base.item WHERE \(condition)
            """
        )
        return try DatabaseRow.all(statement, arguments: arguments) { row in
            let item = try ItemRecord(row: row).item
            let base = BaseRecord(row: row, from: ItemRecord.columnCount)
            return RemoteItem(
                id: base.remoteID,
                documentID: item.documentID,
                name: try ItemName(base.name),
                kind: item.kind,
                size: base.size,
                metadata: item.metadata,
                version: base.version.fromSketch,
                isSketch: true
            )
        }
    }

    /// How many items of a folder are known from listings only, counted up to `limit`.
    func sketchCount(in folder: ItemID, limit: Int) throws -> Int {
        try DatabaseRow.value(
            compiled(
                """
                SELECT count(*) FROM (SELECT 1 FROM base
                WHERE parent = ? AND metadata_version >= '~' LIMIT ?)
                """
            ),
            arguments: [folder.rawValue, limit]
        ) ?? 0
    }

    /// Folders with items that are known from listings only, as long as those are few in all.
    func sketchedFolders(itemLimit: Int) throws -> [ItemID] {
        let statement = try compiled(
            """
            SELECT parent, count(*) FROM (
                SELECT parent FROM base WHERE metadata_version >= '~' ORDER BY parent LIMIT ?)
            GROUP BY parent
            """
        )
        return try DatabaseRow.all(statement, arguments: [itemLimit]) { ItemID($0[0]) }
    }

    /// Where the first listing of a folder goes on, if it was interrupted.
    func listingPage(of folder: ItemID) throws -> PageToken? {
        try DatabaseRow.value(
            compiled("SELECT page FROM listing WHERE folder = ?"),
            arguments: [folder.rawValue]
        ).map { PageToken($0) }
    }

    /// Folders whose children are not known yet, in the order they became known.
    func unlistedFolders(after id: ItemID, limit: Int) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                SELECT item.id FROM item JOIN base ON base.item = item.id
                WHERE item.kind = 2 AND item.is_listed = 0 AND item.id > ?
                ORDER BY item.id LIMIT ?
                """
            ),
            arguments: [id.rawValue, limit]
        ).map { ItemID($0) }
    }

    /// The folders whose children are known, in the order they became known: those that the cloud
    /// has, or may have without this machine having heard of it.
    func listedFolders(after id: ItemID, through last: ItemID, limit: Int) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                SELECT id FROM item
                WHERE kind = 2 AND is_listed = 1 AND id > ? AND id <= ?
                    AND (EXISTS (SELECT 1 FROM base WHERE base.item = item.id)
                        OR EXISTS (SELECT 1 FROM sent WHERE sent.item = item.id))
                ORDER BY id LIMIT ?
                """
            ),
            arguments: [id.rawValue, last.rawValue, limit]
        ).map { ItemID($0) }
    }

    /// The last of the folders whose children are known.
    func lastListedFolder() throws -> ItemID? {
        try Int64.fetchOne(
            compiled(
                "SELECT max(id) FROM item WHERE kind = 2 AND is_listed = 1"
            )
        ).map { ItemID($0) }
    }
}

extension CatalogWriter {
    func setListed(_ isListed: Bool, of id: ItemID) throws {
        try execute(
            "UPDATE item SET is_listed = ? WHERE id = ?",
            [isListed, id.rawValue]
        )
        if isListed { try setListingPage(nil, of: id) }
    }

    /// Makes first listings that were interrupted begin again.
    func forgetListingPages() throws {
        try execute("DELETE FROM listing")
    }

    /// Notes how far the first listing of a folder has come.
    func setListingPage(_ page: PageToken?, of folder: ItemID) throws {
        guard let page else {
            return try execute("DELETE FROM listing WHERE folder = ?", [folder.rawValue])
        }
        try execute(
            "INSERT OR REPLACE INTO listing (folder, page) VALUES (?, ?)",
            [folder.rawValue, page.rawValue]
        )
    }
}
