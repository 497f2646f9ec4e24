import GRDB

/// An item that a virtual folder has a link to.
struct VirtualMember: Sendable, Hashable {
    var item: ItemID
    var document: DocumentID
    /// The item's own name.
    var name: [UInt8]
}

/// The items that virtual folders lead to, at most `limit` each; none without a name.
extension CatalogReader {
    /// That neither a name nor that of a folder above it begins with a dot: what programs keep for
    /// themselves does.
    private static let isSeen = """
        substr(name.name, 1, 1) <> x'2e' AND NOT EXISTS (
            WITH RECURSIVE above(id) AS (
                SELECT name.parent
                UNION SELECT higher.parent FROM name AS higher JOIN above ON higher.item = above.id
            )
            SELECT 1 FROM above JOIN name AS folder ON folder.item = above.id
            WHERE substr(folder.name, 1, 1) = x'2e'
        )
        """

    /// What people opened, the latest ones; hidden files are left out.
    func recentItems(limit: Int) throws -> [VirtualMember] {
        try members(
            """
            SELECT item.id, item.document, name.name FROM item JOIN name ON name.item = item.id
            WHERE item.opened IS NOT NULL AND \(Self.isSeen)
            ORDER BY item.opened DESC LIMIT ?
            """,
            [limit]
        )
    }

    /// What people opened last of what other devices know too; hidden files are left out.
    func recentUses(limit: Int) throws -> [RecentUse] {
        try DatabaseRow.all(
            database.cachedStatement(
                sql: """
                    SELECT item.document, item.opened FROM item
                    JOIN name ON name.item = item.id JOIN base ON base.item = item.id
                    WHERE item.opened IS NOT NULL AND \(Self.isSeen)
                    ORDER BY item.opened DESC LIMIT ?
                    """
            ),
            arguments: [limit]
        ) { row in
            DocumentID(blob: row.bytes(0)).map { document in
                let opened = Timestamp(nanoseconds: row[1])
                return RecentUse(
                    document: document,
                    opened: Timestamp(seconds: opened.seconds, nanoseconds: 0)
                )
            }
        }.compactMap(\.self)
    }

    func favoriteItems(limit: Int) throws -> [VirtualMember] {
        try members(
            """
            SELECT item.id, item.document, name.name FROM attribute
            JOIN item ON item.id = attribute.item JOIN name ON name.item = item.id
            WHERE attribute.name = '\(RemoteAttribute.favorite)' AND attribute.value = x'31'
            ORDER BY attribute.item LIMIT ?
            """,
            [limit]
        )
    }

    func items(withTag tag: Int64, limit: Int) throws -> [VirtualMember] {
        try members(
            """
            SELECT item.id, item.document, name.name FROM item_tag
            JOIN item ON item.id = item_tag.item JOIN name ON name.item = item.id
            WHERE item_tag.tag = ? ORDER BY item_tag.item LIMIT ?
            """,
            [tag, limit]
        )
    }

    /// Items that were pinned themselves, not by a folder.
    func pinnedItems(limit: Int) throws -> [VirtualMember] {
        try members(
            """
            SELECT item.id, item.document, name.name FROM item JOIN name ON name.item = item.id
            WHERE item.policy = 2 ORDER BY item.id LIMIT ?
            """,
            [limit]
        )
    }

    /// Documents in conflict, and their versions.
    func itemsInConflict(limit: Int) throws -> [VirtualMember] {
        var found: [ItemID: VirtualMember] = [:]
        for (_, version, document) in try conflicts(after: 0, limit: limit) {
            guard let document else { continue }
            for named in [version, document] where found.count < limit {
                guard let record = try item(named.item) else { continue }
                found[named.item] = VirtualMember(
                    item: named.item,
                    document: record.item.documentID,
                    name: named.name
                )
            }
        }
        return Array(found.values)
    }

    /// The item that is a document; of several, which are copies made beside CloudFS, the oldest
    /// one here that has a name.
    func namedItem(withDocument document: DocumentID) throws -> ItemID? {
        try DatabaseRow.first(
            database.cachedStatement(
                sql: """
                    SELECT id FROM item WHERE document = ?
                    AND (id = 1 OR EXISTS (SELECT 1 FROM name WHERE name.item = item.id))
                    ORDER BY id LIMIT 1
                    """
            ),
            arguments: [document.blob.asBlob]
        ) { ItemID($0[0]) }
    }

    /// When a person's program opened an item last.
    func opened(_ id: ItemID) throws -> Timestamp? {
        let moment: Int64? = try DatabaseRow.value(
            database.cachedStatement(sql: "SELECT opened FROM item WHERE id = ?"),
            arguments: [id.rawValue]
        )
        return moment.map { Timestamp(nanoseconds: $0) }
    }

    private func members(
        _ sql: String,
        _ arguments: [any StatementBinding]
    ) throws -> [VirtualMember] {
        try DatabaseRow.all(database.cachedStatement(sql: sql), arguments: arguments) { row in
            DocumentID(blob: row.bytes(1)).map {
                VirtualMember(item: ItemID(row[0]), document: $0, name: row.bytes(2))
            }
        }.compactMap(\.self)
    }
}
