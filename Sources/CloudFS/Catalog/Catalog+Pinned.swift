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

    /// Files that the cloud has more of than is here; what is in a package comes with it.
    static let isAbsent = """
        kind = 1 AND residency <> 2 AND size > 0 AND lost_size IS NULL AND package IS NULL
        """

    /// Those of them that nobody has asked for, and that were not removed.
    static let isMissed = """
        \(isAbsent) AND is_wanted = 0 AND id IN (SELECT id FROM pinned)
            AND EXISTS (SELECT 1 FROM name WHERE name.item = item.id)
        """
}

extension CatalogReader {
    /// Whether something is pinned that is neither here nor asked for.
    func missesPinned() throws -> Bool {
        try DatabaseRow.value(
            database.cachedStatement(
                sql: """
                    \(Pinned.all)
                    SELECT EXISTS (SELECT 1 FROM item WHERE \(Pinned.isMissed))
                    """
            )
        ) ?? false
    }
}

extension CatalogWriter {
    /// Asks for all that is pinned and neither here nor asked for.
    func wantPinned() throws {
        try execute("\(Pinned.all) UPDATE item SET is_wanted = 1 WHERE \(Pinned.isMissed)")
        if database.changesCount > 0 { outcome.hasWanted = true }
    }

    /// Asks for what has come to a pinned place, and for all below it.
    ///
    /// What was in a pinned place before is here or asked for; what has a policy of its own keeps
    /// that wherever it is.
    ///
    /// - Parameter old: The folder that it was in; `nil` if it had no name.
    func wantIfPinned(_ id: ItemID, from old: ItemID?, in folder: ItemID) throws {
        guard old != folder, try reader.effectivePolicy(of: folder) == .pinned else { return }
        if let old, try reader.effectivePolicy(of: old) == .pinned { return }
        try execute(
            """
            WITH RECURSIVE below(id) AS (
                SELECT id FROM item WHERE id = ? AND policy = 0 UNION
                SELECT item.id FROM below CROSS JOIN name ON name.parent = below.id
                CROSS JOIN item ON item.id = name.item AND item.policy = 0)
            UPDATE item SET is_wanted = 1
            WHERE \(Pinned.isAbsent) AND id IN (SELECT id FROM below)
            """,
            [id.rawValue]
        )
        if database.changesCount > 0 { outcome.hasWanted = true }
    }
}
