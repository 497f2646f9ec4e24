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
    /// What people opened, the latest ones; what is hidden, or in a hidden folder, is left out.
    func recentItems(limit: Int) throws -> [VirtualMember] {
        try latest(
            """
            SELECT name.parent, item.document, item.id, name.name FROM item
            JOIN name ON name.item = item.id
            WHERE item.opened IS NOT NULL AND substr(name.name, 1, 1) <> x'2e'
            ORDER BY item.opened DESC
            """,
            limit: limit
        ) { row, document in
            VirtualMember(item: ItemID(row[2]), document: document, name: row.bytes(3))
        }
    }

    /// What people opened last of what other devices know too, without what is hidden.
    func recentUses(limit: Int) throws -> [RecentUse] {
        try latest(
            """
            SELECT name.parent, item.document, item.opened FROM item
            JOIN name ON name.item = item.id JOIN base ON base.item = item.id
            WHERE item.opened IS NOT NULL AND substr(name.name, 1, 1) <> x'2e'
            ORDER BY item.opened DESC
            """,
            limit: limit
        ) { row, document in
            let opened = Timestamp(nanoseconds: row[2])
            return RecentUse(
                document: document,
                opened: Timestamp(seconds: opened.seconds, nanoseconds: 0)
            )
        }
    }

    /// What `read` makes of the first rows that are in no hidden folder.
    ///
    /// - Parameter sql: Its first columns are the folder and the document.
    private func latest<Value>(
        _ sql: String,
        limit: Int,
        _ read: (DatabaseRow, DocumentID) -> Value
    ) throws -> [Value] {
        var found: [Value] = []
        var hidden: [ItemID: Bool] = [:]
        try DatabaseRow.forEach(compiled(sql)) { row in
            guard try !isHidden(ItemID(row[0]), &hidden) else { return true }
            if let document = DocumentID(blob: row.bytes(1)) { found.append(read(row, document)) }
            return found.count < limit
        }
        return found
    }

    /// Whether the name of a folder, or of one above it, begins with a dot: what programs keep for
    /// themselves does.
    ///
    /// - Parameter known: What was found before. One `git clone` leaves thousands in few folders.
    private func isHidden(_ folder: ItemID, _ known: inout [ItemID: Bool]) throws -> Bool {
        var way: [ItemID] = []
        var current = folder
        var answer = known[current]
        while answer == nil {
            way.append(current)
            // Where a damaged catalog has a circle, the way comes back here.
            known[current] = false
            if let place = try name(of: current) {
                current = place.parent
                answer = place.name.first == UInt8(ascii: ".") ? true : known[current]
            } else {
                answer = false
            }
        }
        for folder in way { known[folder] = answer }
        return answer ?? false
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
            compiled(
                """
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
            compiled("SELECT opened FROM item WHERE id = ?"),
            arguments: [id.rawValue]
        )
        return moment.map { Timestamp(nanoseconds: $0) }
    }

    private func members(
        _ sql: String,
        _ arguments: [any StatementBinding]
    ) throws -> [VirtualMember] {
        try DatabaseRow.all(compiled(sql), arguments: arguments) { row in
            DocumentID(blob: row.bytes(1)).map {
                VirtualMember(item: ItemID(row[0]), document: $0, name: row.bytes(2))
            }
        }.compactMap(\.self)
    }
}
