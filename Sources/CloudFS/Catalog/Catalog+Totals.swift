import GRDB

/// Sums over everything below a folder.
struct SubtreeTotals: Sendable, Equatable {
    var items: Int64 = 0
    var files: Int64 = 0
    /// Files with all their bytes here.
    var residentFiles: Int64 = 0
    var bytes: Int64 = 0
    var localBytes: Int64 = 0
    var dirty: Int64 = 0
    var errors: Int64 = 0
    /// Files that are to be brought here.
    var wantedFiles: Int64 = 0
}

extension CatalogReader {
    /// Sums over the item itself if it is a file, else over what is below it.
    ///
    /// Of bytes with `total`, which knows no overflow: a cloud may say of files that they are as
    /// long as numbers go. It is exact up to 8 PiB.
    func totals(below id: ItemID) throws -> SubtreeTotals {
        let statement = try compiled(
            """
            WITH RECURSIVE below(id) AS (
                SELECT ? UNION ALL
                SELECT name.item FROM below JOIN name ON name.parent = below.id)
            SELECT count(*), coalesce(sum(kind = 1), 0),
                coalesce(sum(kind = 1 AND (residency = 2 OR size = 0)), 0),
                CAST(total(CASE kind WHEN 1 THEN size ELSE 0 END) AS INTEGER),
                CAST(total(CASE residency WHEN 2 THEN size WHEN 1
                    THEN min(local_bytes, size) ELSE 0 END) AS INTEGER),
                coalesce(sum(outbox.item IS NOT NULL AND outbox.is_held = 0), 0),
                coalesce(sum(outbox.error_code IS NOT NULL), 0),
                coalesce(sum(kind = 1 AND is_wanted), 0)
            FROM item LEFT JOIN outbox ON outbox.item = item.id
            WHERE item.id IN (SELECT id FROM below) AND (item.id <> ? OR kind = 1)
                AND (item.package IS NULL OR item.package NOT IN (SELECT id FROM below))
            """
        )
        return try DatabaseRow.first(statement, arguments: [id.rawValue, id.rawValue]) { row in
            SubtreeTotals(
                items: row[0],
                files: row[1],
                residentFiles: row[2],
                bytes: row[3],
                localBytes: row[4],
                dirty: row[5],
                errors: row[6],
                wantedFiles: row[7]
            )
        } ?? SubtreeTotals()
    }

    /// Everything below an item, folders before what they hold, from a position on.
    func subtree(
        of id: ItemID,
        offset: Int,
        limit: Int
    ) throws -> [ItemID] {
        let statement = try compiled(
            """
            WITH RECURSIVE below(id, path) AS (
                SELECT ?, x'' UNION ALL
                SELECT name.item, CAST(below.path || x'2f' || name.name AS BLOB)
                FROM below JOIN name ON name.parent = below.id)
            SELECT id FROM below WHERE id <> ? ORDER BY path LIMIT ? OFFSET ?
            """
        )
        return try Int64.fetchAll(
            statement,
            arguments: [id.rawValue, id.rawValue, limit, offset]
        ).map { ItemID($0) }
    }

    func unlistedFolderCount() throws -> Int64 {
        try Int64.fetchOne(
            compiled(
                """
                SELECT count(*) FROM item JOIN base ON base.item = item.id
                WHERE item.kind = 2 AND item.is_listed = 0
                """
            )
        ) ?? 0
    }
}
