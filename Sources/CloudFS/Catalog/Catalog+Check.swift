import GRDB

/// How an item hangs together with the rest, for `cloudfs check`.
struct ItemTies: Sendable {
    var name: NameRecord?
    /// Whether every folder above is there and has a name.
    var isReachable: Bool
    var base: BaseRecord?
    var isQueued: Bool
    var isUnheard: Bool
    var isExcluded: Bool

    /// Whether it has no name, though nobody removed it: else its removal would wait to be sent.
    var isLost: Bool { name == nil && !isQueued && !isUnheard && !isExcluded }

    /// Whether it is elsewhere in the cloud than here, or not there at all.
    var isElsewhere: Bool {
        guard let name else { return base != nil }
        return base?.parent != name.parent || base?.name != name.name
    }
}

extension CatalogReader {
    /// What SQLite finds wrong with the database itself, at most 20 sentences.
    ///
    /// - Parameter isQuick: Whether to leave out if the indexes have what their tables have.
    func problems(isQuick: Bool) throws -> [String] {
        let pragma = isQuick ? "quick_check" : "integrity_check"
        let damage = try String.fetchAll(database, sql: "PRAGMA \(pragma)(20)")
            .filter { $0 != "ok" }
        let loose = try DatabaseRow.all(
            database.makeStatement(sql: "PRAGMA foreign_key_check")
        ) { "a row of \($0[0] as String) names one of \($0[2] as String) that is not there" }
        return damage + loose.prefix(20)
    }

    /// Items in the order of their numbers.
    func items(after id: ItemID, limit: Int) throws -> [ItemRecord] {
        try DatabaseRow.all(
            compiled(
                "SELECT \(ItemRecord.columns) FROM item WHERE id > ? ORDER BY id LIMIT ?"
            ),
            arguments: [id.rawValue, limit]
        ) { try ItemRecord(row: $0) }
    }

    func ties(of id: ItemID) throws -> ItemTies {
        let name = try name(of: id)
        return ItemTies(
            name: name,
            isReachable: try name.map { try isReachable($0.parent) } ?? false,
            base: try base(of: id),
            // What is in a package is sent with it.
            isQueued: try outboxEntry(of: id) != nil || package(of: id) != nil,
            isUnheard: try sent(of: id) != nil,
            isExcluded: try effectivePolicy(of: id) == .excluded
        )
    }

    /// Whether folders lead from the root to a folder; in a damaged catalog they can be a circle.
    private func isReachable(_ folder: ItemID) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                """
                WITH RECURSIVE above(id) AS (
                    SELECT ?1 UNION
                    SELECT name.parent FROM above
                    JOIN item ON item.id = above.id AND (item.kind = ?2 OR item.is_package)
                    JOIN name ON name.item = above.id
                    WHERE above.id <> ?3
                ) SELECT EXISTS (SELECT 1 FROM above WHERE id = ?3)
                """
            ),
            arguments: [folder.rawValue, ItemKind.folder.rawValue, ItemID.root.rawValue]
        ) ?? false
    }

    /// Where the cloud has an item, if that is free here.
    func freePlace(of base: BaseRecord) throws -> (parent: ItemID, name: ItemName)? {
        guard let parent = base.parent, !base.isDisplaced, try isReachable(parent),
            try child(base.name, of: parent) == nil
        else { return nil }
        return (parent, try ItemName(base.name))
    }

    /// Whether a content file is named by an item, is kept for one, or waits to be unlinked.
    func isNamed(_ content: ContentName) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                """
                SELECT EXISTS (SELECT 1 FROM item WHERE id = ?1 AND generation = ?2)
                    OR EXISTS (SELECT 1 FROM discard WHERE item = ?1 AND generation = ?2)
                    OR EXISTS (SELECT 1 FROM previous WHERE generation <> 0
                        AND holder = ?1 AND generation = ?2)
                """
            ),
            arguments: [content.item.rawValue, content.generation]
        ) ?? false
    }
}
