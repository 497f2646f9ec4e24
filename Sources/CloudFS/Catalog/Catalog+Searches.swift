import GRDB

extension CatalogReader {
    /// The text of a query that has a folder; `nil` once it was forgotten.
    func search(_ id: Int64) throws -> String? {
        try DatabaseRow.value(
            compiled("SELECT query FROM search WHERE id = ?"),
            arguments: [id]
        )
    }

    /// The number of the folder that a query's text has already.
    func search(for query: String) throws -> Int64? {
        try Int64.fetchOne(
            compiled("SELECT id FROM search WHERE query = ?"),
            arguments: [query]
        )
    }

    /// What meets a query, as the folder of its results shows it.
    func items(found plan: QueryPlan, limit: Int) throws -> [VirtualMember] {
        try items(matching: plan, limit: limit).compactMap { id in
            guard let name = try name(of: id)?.name, let record = try item(id) else { return nil }
            return VirtualMember(item: id, document: record.item.documentID, name: name)
        }
    }
}

extension CatalogWriter {
    /// Gives the text of a query a number, and forgets those that were not used for longest.
    ///
    /// `used` are the numbers that were used since the last call, the latest last; of all, `most`
    /// are kept.
    func addSearch(_ query: String, used: [Int64], keeping most: Int) throws -> Int64 {
        for id in used {
            try execute(
                "UPDATE search SET used = (SELECT max(used) FROM search) + 1 WHERE id = ?",
                [id]
            )
        }
        let id = try Int64.fetchOne(
            database,
            sql: """
                INSERT INTO search (query, used)
                VALUES (?, (SELECT coalesce(max(used), 0) FROM search) + 1)
                ON CONFLICT (query) DO UPDATE SET used = excluded.used
                RETURNING id
                """,
            arguments: [query]
        )
        guard let id else {
            throw CloudFSError(.internalFailure, "the text of a query got no number")
        }
        try execute(
            "DELETE FROM search WHERE id NOT IN (SELECT id FROM search ORDER BY used DESC LIMIT ?)",
            [most]
        )
        return id
    }
}
