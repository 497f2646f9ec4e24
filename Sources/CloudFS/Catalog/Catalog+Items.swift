import GRDB

/// A child of a folder, with the row of its name: the position of a directory stream.
struct ChildRecord: Sendable {
    /// Where to go on after this child; grows with the time the name was made.
    var position: Int64
    var name: [UInt8]
    var record: ItemRecord
}

/// In which order a program goes through a folder.
enum FolderOrder: CaseIterable, Hashable, Sendable {
    /// That of the directory stream: `find`, `tar`, `rsync`.
    case listed
    /// That of the names' bytes: what a shell makes of `*`.
    case named
}

/// A file beside another one.
struct SiblingRecord: Hashable, Sendable {
    var id: ItemID
    var byteCount: Int64
    /// Whether all of it is on this machine.
    var isHere: Bool
}

extension CatalogReader {
    func item(_ id: ItemID) throws -> ItemRecord? {
        try one("SELECT \(ItemRecord.columns) FROM item WHERE id = ?", [id.rawValue])
    }

    /// The item, which must exist.
    ///
    /// - Throws: `notFound`.
    func existing(_ id: ItemID) throws -> ItemRecord {
        guard let record = try item(id) else {
            throw CloudFSError(.notFound, "the item is gone", item: id)
        }
        return record
    }

    func child(_ name: [UInt8], of parent: ItemID) throws -> ItemRecord? {
        try one(
            """
            SELECT \(ItemRecord.columns) FROM name JOIN item ON item.id = name.item
            WHERE name.parent = ? AND name.name = ?
            """,
            [parent.rawValue, name.asBlob]
        )
    }

    /// The row of the name that was made last.
    func newestName() throws -> Int64 {
        try Int64.fetchOne(compiled("SELECT max(id) FROM name")) ?? 0
    }

    /// At most `limit` children whose names were made after `position` and not after `end`, in
    /// that order.
    func children(
        of parent: ItemID,
        after position: Int64,
        upTo end: Int64 = .max,
        limit: Int
    ) throws -> [ChildRecord] {
        let statement = try compiled(
            """
            SELECT \(ItemRecord.columns), name.id, name.name
            FROM name INDEXED BY name_order JOIN item ON item.id = name.item
            WHERE name.parent = ? AND name.id > ? AND name.id <= ?
            ORDER BY name.id LIMIT ?
            """
        )
        return try DatabaseRow.all(
            statement,
            arguments: [parent.rawValue, position, end, limit]
        ) { row in
            ChildRecord(
                position: row[ItemRecord.columnCount],
                name: row.bytes(ItemRecord.columnCount + 1),
                record: try ItemRecord(row: row)
            )
        }
    }

    /// At most `limit` files that come after `item` in its folder.
    func files(
        after item: ItemID,
        order: FolderOrder,
        limit: Int
    ) throws -> [SiblingRecord] {
        let (index, column) =
            switch order {
            case .listed: ("INDEXED BY name_order", "id")
            case .named: ("", "name")
            }
        // A join with the item's own name would be sorted, as SQLite does not know that it is one:
        // all siblings for the next few.
        let statement = try compiled(
            """
            SELECT item.id, item.size, item.residency
            FROM name \(index) CROSS JOIN item ON item.id = name.item AND item.kind = 1
            WHERE name.parent = (SELECT parent FROM name WHERE item = ?1)
                AND name.\(column) > (SELECT \(column) FROM name WHERE item = ?1)
            ORDER BY name.\(column) LIMIT ?2
            """
        )
        return try DatabaseRow.all(statement, arguments: [item.rawValue, limit]) { row in
            SiblingRecord(
                id: ItemID(row[0]),
                byteCount: row[1],
                isHere: row[2] == Residency.resident.rawValue
            )
        }
    }

    func hasChildren(_ parent: ItemID) throws -> Bool {
        try DatabaseRow.value(
            compiled("SELECT EXISTS (SELECT 1 FROM name WHERE parent = ?)"),
            arguments: [parent.rawValue]
        ) ?? false
    }

    /// Where the item is in the tree on this machine; `nil` for the root and for unlinked items.
    func name(of id: ItemID) throws -> NameRecord? {
        try DatabaseRow.first(
            compiled("SELECT parent, name FROM name WHERE item = ?"),
            arguments: [id.rawValue]
        ) { NameRecord(parent: ItemID($0[0]), name: $0.bytes(1), item: id) }
    }

    /// At most `limit` names of the whole drive whose rows come after `position`, in that order.
    func names(
        after position: Int64,
        limit: Int
    ) throws -> [(position: Int64, name: NameRecord)] {
        let statement = try compiled(
            "SELECT id, parent, name, item FROM name WHERE id > ? ORDER BY id LIMIT ?"
        )
        return try DatabaseRow.all(statement, arguments: [position, limit]) { row in
            let name = NameRecord(parent: ItemID(row[1]), name: row.bytes(2), item: ItemID(row[3]))
            return (row[0], name)
        }
    }

    /// Which request of the kernel changed the item, or the names in a folder, last.
    func lastRequest(of id: ItemID) throws -> Int64? {
        try DatabaseRow.value(
            compiled("SELECT request FROM item WHERE id = ?"),
            arguments: [id.rawValue]
        )
    }

    /// The names from the drive's root down to the item; `nil` for an unlinked item.
    func path(of id: ItemID) throws -> [[UInt8]]? {
        var names: [[UInt8]] = []
        var current = id
        while current != .root {
            guard let name = try name(of: current) else { return nil }
            names.append(name.name)
            current = name.parent
        }
        return names.reversed()
    }

    /// The folder itself and all that it lies in.
    func folders(above id: ItemID) throws -> Set<ItemID> {
        var folders: Set<ItemID> = [id]
        var current = id
        while current != .root, let name = try name(of: current) {
            current = name.parent
            folders.insert(current)
        }
        return folders
    }

    /// The item at `names` below the drive's root.
    func item(at names: [[UInt8]]) throws -> ItemRecord? {
        var current = try item(.root)
        for name in names {
            guard let folder = current else { return nil }
            current = try child(name, of: folder.id)
        }
        return current
    }

    /// The policy that holds for the item: its own, else that of the nearest folder that has one.
    ///
    /// What was removed here is still in the folder that the cloud has it in.
    func effectivePolicy(of id: ItemID) throws -> ContentPolicy {
        let policy: Int? = try DatabaseRow.value(
            compiled(
                """
                WITH RECURSIVE above(id, policy) AS (
                    SELECT id, policy FROM item WHERE id = ? UNION
                    SELECT item.id, item.policy FROM above
                    JOIN item ON item.id = coalesce(
                        (SELECT parent FROM name WHERE name.item = above.id),
                        (SELECT parent FROM base WHERE base.item = above.id))
                    WHERE above.policy = 0
                ) SELECT policy FROM above WHERE policy <> 0 LIMIT 1
                """
            ),
            arguments: [id.rawValue]
        )
        return policy.flatMap { ContentPolicy(rawValue: $0) } ?? .onDemand
    }

    /// The item and everything below it, folders before what they hold.
    func descendants(of id: ItemID) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                WITH RECURSIVE below(id, depth) AS (
                    SELECT ?, 0 UNION ALL
                    SELECT name.item, below.depth + 1 FROM below JOIN name
                    ON name.parent = below.id
                ) SELECT id FROM below ORDER BY depth
                """
            ),
            arguments: [id.rawValue]
        ).map { ItemID($0) }
    }

    /// A folder, and those below it, that the cloud has.
    func cloudFolders(from folder: ItemID) throws -> [ItemID] {
        try descendants(of: folder).filter {
            try item($0)?.item.kind == .folder && base(of: $0) != nil
        }
    }

    /// Whether `folder` is `id` or lies below it.
    func isInside(_ folder: ItemID, of id: ItemID) throws -> Bool {
        var current = folder
        while current != id {
            guard let name = try name(of: current) else { return false }
            current = name.parent
        }
        return true
    }

    /// All folders around an item, up to the root.
    func folders(around id: ItemID) throws -> Set<ItemID> {
        var found: Set<ItemID> = []
        var current = id
        while let name = try name(of: current), found.insert(name.parent).inserted {
            current = name.parent
        }
        return found
    }

    func attributes(of id: ItemID) throws -> [String: [UInt8]] {
        let attributes = try DatabaseRow.all(
            compiled("SELECT name, value FROM attribute WHERE item = ?"),
            arguments: [id.rawValue]
        ) { ($0[0] as String, $0.bytes(1)) }
        return Dictionary(attributes) { first, _ in first }
    }

    func attribute(_ name: String, of id: ItemID) throws -> [UInt8]? {
        try DatabaseRow.first(
            compiled(
                "SELECT value FROM attribute WHERE item = ? AND name = ?"
            ),
            arguments: [id.rawValue, name]
        ) { $0.bytes(0) }
    }

    private func one(_ sql: String, _ arguments: [any StatementBinding]) throws -> ItemRecord? {
        let statement = try compiled(sql)
        return try DatabaseRow.first(statement, arguments: arguments) { try ItemRecord(row: $0) }
    }
}

extension CatalogWriter {
    func setAttribute(_ name: String, to value: [UInt8], of id: ItemID) throws {
        try execute(
            """
            INSERT INTO attribute (item, name, value) VALUES (?, ?, ?)
            ON CONFLICT (item, name) DO UPDATE SET value = excluded.value
            """,
            [id.rawValue, name, value.asBlob]
        )
        try indexTags(of: id, name, value)
    }

    func removeAttribute(_ name: String, of id: ItemID) throws {
        try execute("DELETE FROM attribute WHERE item = ? AND name = ?", [id.rawValue, name])
        try indexTags(of: id, name, nil)
    }

    func replaceAttributes(with attributes: [String: [UInt8]], of id: ItemID) throws {
        try execute("DELETE FROM attribute WHERE item = ?", [id.rawValue])
        if attributes[TagList.attribute] == nil {
            try indexTags(of: id, TagList.attribute, nil)
        }
        for (name, value) in attributes { try setAttribute(name, to: value, of: id) }
    }
}
