import GRDB

/// Parts of statements about what is pinned.
private enum Pinned {
    /// What is pinned itself, and what follows a pinned folder; no folder twice, for a damaged
    /// catalog may have circles.
    static let all = """
        WITH RECURSIVE pinned(id) AS (
            SELECT id FROM item WHERE policy = 2 UNION
            SELECT item.id FROM pinned CROSS JOIN name ON name.parent = pinned.id
            CROSS JOIN item ON item.id = name.item AND item.policy = 0)
        """

    /// The same of one item and what follows it, whatever policy it has.
    static let following = """
        WITH RECURSIVE following(id) AS (
            SELECT ?1 UNION
            SELECT item.id FROM following CROSS JOIN name ON name.parent = following.id
            CROSS JOIN item ON item.id = name.item AND item.policy = 0
        """

    /// Files that the cloud has more of than is here; what is in a package comes with it.
    static let isAbsent = """
        kind = 1 AND residency <> 2 AND size > 0 AND lost_size IS NULL AND package IS NULL
        """

    /// How many items are looked at in a transaction that others wait for.
    static let mostAtOnce = 1_000
    static let setting = "policies-to-follow"
}

extension CatalogReader {
    /// Files that are pinned and neither here nor asked for; none that was removed.
    func missedPinned() throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                \(Pinned.all)
                SELECT id FROM item WHERE \(Pinned.isAbsent) AND is_wanted = 0
                    AND id IN (SELECT id FROM pinned)
                    AND EXISTS (SELECT 1 FROM name WHERE name.item = item.id)
                """
            )
        ).map { ItemID($0) }
    }

    /// Items whose policy was set, and not all files that follow it are asked for as it says.
    func policiesToFollow() throws -> [ItemID] {
        try (setting(Pinned.setting) ?? "").split(separator: " ").compactMap {
            Int64($0).map { ItemID($0) }
        }
    }

    /// Files that follow the policy of an item, and are not yet, or still, asked for as it says.
    func filesBehindPolicy(of id: ItemID) throws -> [ItemID] {
        let isPinned = try effectivePolicy(of: id) == .pinned
        return try Int64.fetchAll(
            compiled(
                """
                \(Pinned.following))
                SELECT item.id FROM following CROSS JOIN item ON item.id = following.id
                WHERE is_wanted <> ?2 AND (is_wanted = 1 OR (\(Pinned.isAbsent)))
                """
            ),
            arguments: [id.rawValue, isPinned]
        ).map { ItemID($0) }
    }

    /// Files at and below an item that are not all here, and how many bytes they lack.
    func incompleteFiles(below id: ItemID) throws -> (files: [ItemID], missing: Int64) {
        let statement = try compiled(
            """
            WITH RECURSIVE below(id) AS (SELECT ? UNION
            SELECT name.item FROM below CROSS JOIN name ON name.parent = below.id)
            SELECT item.id, max(0, size - local_bytes)
            FROM below CROSS JOIN item ON item.id = below.id
            WHERE kind = 1 AND residency <> 2 AND size > 0
            """
        )
        var (files, missing): ([ItemID], Int64) = ([], 0)
        try DatabaseRow.forEach(statement, arguments: [id.rawValue]) { row in
            files.append(ItemID(row[0]))
            missing = missing.addingOrMost(row[1])
            return true
        }
        return (files, missing)
    }
}

extension CatalogWriter {
    /// Notes that files are still to follow the policy of an item, or that they do.
    func note(_ id: ItemID, isToFollow: Bool) throws {
        let others = try reader.policiesToFollow().filter { $0 != id }
        let all = isToFollow ? others + [id] : others
        guard !all.isEmpty else { return try removeSetting(Pinned.setting) }
        try setSetting(Pinned.setting, to: all.map { "\($0.rawValue)" }.joined(separator: " "))
    }

    /// Asks for a file that is pinned and not here, and not for one that is not pinned.
    func followPolicy(_ id: ItemID) throws {
        let isPinned = try reader.effectivePolicy(of: id) == .pinned
        try execute(
            """
            UPDATE item SET is_wanted = ?1
            WHERE id = ?2 AND is_wanted <> ?1 AND (?1 = 0 OR (\(Pinned.isAbsent)))
            """,
            [isPinned, id.rawValue]
        )
        if isPinned, database.changesCount > 0 { outcome.hasWanted = true }
    }

    /// Asks for what has come to a pinned place, and for all below it; where that is much, it is
    /// left to who waits for `Catalog.pinned`.
    ///
    /// What was in a pinned place before is here or asked for; what has a policy of its own keeps
    /// that wherever it is.
    ///
    /// - Parameter old: The folder that it was in; `nil` if it had no name.
    func wantIfPinned(_ id: ItemID, from old: ItemID?, in folder: ItemID) throws {
        guard old != folder, try reader.effectivePolicy(of: folder) == .pinned else { return }
        if let old, try reader.effectivePolicy(of: old) == .pinned { return }
        guard try reader.item(id)?.item.content.policy == .inherited else { return }
        let following = try Int64.fetchAll(
            reader.compiled(
                "\(Pinned.following) LIMIT ?2) SELECT id FROM following"
            ),
            arguments: [id.rawValue, Pinned.mostAtOnce]
        )
        guard following.count < Pinned.mostAtOnce else {
            outcome.hasPinned = true
            return
        }
        for id in following { try followPolicy(ItemID(id)) }
    }
}

extension Catalog {
    /// Asks for files as the policy of an item says, that were not yet, or still are.
    func followPolicy(of id: ItemID) throws(CloudFSError) {
        let behind = try read { try $0.filesBehindPolicy(of: id) }
        try writeInSteps(behind) { try $0.followPolicy($1) }
        try write { try $0.note(id, isToFollow: false) }
    }
}
