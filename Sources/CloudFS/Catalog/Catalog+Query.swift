import GRDB

/// A page of what a query finds.
struct QueryFound: Sendable {
    var items: [ItemID] = []
    /// What each of them is ordered by.
    var keys: [QueryPosition.Key] = []
    /// Where to go on; `nil` if that is all.
    var next: QueryPosition?
}

/// Finds items by what is known of them, never by their content; nothing is downloaded for it.
extension CatalogReader {
    /// At most `limit` items that meet a query, in its order.
    func items(matching plan: QueryPlan, limit: Int) throws -> [ItemID] {
        let most = min(limit, plan.query.limit ?? limit)
        var items: [ItemID] = []
        guard most > 0 else { return items }
        let plan = try decided(plan)
        var position: QueryPosition?
        repeat {
            let found = try find(plan, after: position, limit: most - items.count)
            items += found.items
            position = found.next
        } while position != nil && items.count < most
        return items
    }

    /// The query by the way that is the best now: each of its pages would look for that anew.
    func decided(_ plan: QueryPlan) throws -> QueryPlan {
        plan.deciding(try bestSeed(plan))
    }

    /// The next page of what meets a query.
    ///
    /// It may end early, with a place to go on at, when much had to be looked at.
    /// - Parameter limit: Most items of the page. The query's own limit is the caller's.
    /// - Throws: `invalidArgument` for a position of another query.
    func find(
        _ plan: QueryPlan,
        after position: QueryPosition? = nil,
        limit: Int
    ) throws -> QueryFound {
        var search = QuerySearch(plan, limit: limit, judge: try QueryJudge(plan, self))
        for statement in try statements(plan, after: position) where !search.isFull {
            try search.go(through: statement, database)
        }
        return search.found
    }

    /// Those of some items that meet a query.
    func items(_ ids: [ItemID], matching plan: QueryPlan) throws -> Set<ItemID> {
        var judge = try QueryJudge(plan, self)
        var found: Set<ItemID> = []
        for id in ids where id != .root {
            let statement = try compiled(
                """
                SELECT \(QueryCandidate.columns) FROM name JOIN item ON item.id = name.item
                WHERE name.item = ?
                """
            )
            let candidate = try DatabaseRow.first(statement, arguments: [id.rawValue]) {
                try QueryCandidate(row: $0)
            }
            if let candidate, try judge.meets(candidate) { found.insert(id) }
        }
        return found
    }

    // MARK: - Statements

    /// A statement that finds candidates in the order that is wanted.
    struct QueryStatement {
        var sql: String
        var arguments: [any DatabaseValueConvertible]
    }

    /// The statements whose results follow each other.
    private func statements(
        _ plan: QueryPlan,
        after position: QueryPosition?
    ) throws -> [QueryStatement] {
        var parts = QueryParts(query: plan.query, position: position)
        try parts.check()
        switch try bestSeed(plan) {
        case .path(let names)?:
            guard let top = try item(at: names)?.id else { return [] }
            parts.with = Self.below(top)
            parts.tables = QueryParts.seeded
        case .items(let sql)?:
            parts.with = "WITH seed(item) AS MATERIALIZED (\(sql))"
            parts.tables = QueryParts.seeded
        case .columns(let sql)?:
            parts.tables = QueryParts.itemsFirst
            parts.conditions.append(sql)
        case .names(let search)?:
            return try statements(parts, search)
        case nil:
            if plan.query.order == .modified { parts.tables = QueryParts.itemsFirst }
        }
        return [parts.statement]
    }

    private static func below(_ top: ItemID) -> String {
        """
        WITH RECURSIVE seed(item) AS (SELECT \(top.rawValue) UNION
        SELECT name.item FROM seed JOIN name ON name.parent = seed.item)
        """
    }

    /// The first way to few items; if there is none, one that goes through many in their order.
    private func bestSeed(_ plan: QueryPlan) throws -> QuerySeed? {
        guard !plan.isDecided else { return plan.seeds.first }
        for seed in plan.seeds where try isNarrow(seed) { return seed }
        switch plan.query.order {
        // By an index of all items.
        case .modified: return nil
        case .added:
            // Names are in this order already. What is below a large folder would be looked for
            // and sorted as a whole, for each page.
            return plan.seeds.last { seed in
                switch seed {
                case .items, .names: true
                case .columns, .path: false
                }
            }
        case .name, .size, .used:
            // All that is found must be put in order: the last way is the narrowest as a rule.
            return plan.seeds.last
        }
    }

    /// Whether a way leads to few items; counting ends when they are many.
    private func isNarrow(_ seed: QuerySeed) throws -> Bool {
        let most = 5_000
        let few: (with: String, rows: String, argument: String?)
        switch seed {
        case .items(let sql): few = ("", sql, nil)
        case .columns(let sql): few = ("", "SELECT 1 FROM item WHERE \(sql)", nil)
        case .names(let search):
            guard try !hasUnindexedNames() else { return false }
            few = ("", "SELECT rowid FROM name_text WHERE name_text MATCH ?", search.match)
        case .path(let names):
            guard let top = try item(at: names)?.id else { return true }
            few = (Self.below(top), "SELECT item FROM seed", nil)
        }
        let count = try Int.fetchOne(
            database,
            sql: "\(few.with) SELECT count(*) FROM (SELECT 1 FROM (\(few.rows)) LIMIT \(most))",
            arguments: StatementArguments(few.argument.map { [$0] } ?? [])
        )
        return (count ?? 0) < most
    }

    /// Names come from their index as far as that goes, then from their table.
    private func statements(
        _ parts: QueryParts,
        _ search: NameSearch
    ) throws -> [QueryStatement] {
        let end = try indexedNames()
        var rest = parts
        rest.conditions.append("name.id > \(end)")
        guard end > 0 else { return [rest.statement] }
        var indexed = parts
        indexed.first = [search.match]
        guard parts.query.order == .added else {
            indexed.tables = """
                (SELECT rowid AS row FROM name_text WHERE name_text MATCH ?
                UNION ALL SELECT id FROM name WHERE id > \(end)) AS seed
                CROSS JOIN name ON name.id = seed.row CROSS JOIN item ON item.id = name.item
                """
            return [indexed.statement]
        }
        indexed.tables = """
            name_text CROSS JOIN name ON name.id = name_text.rowid
            CROSS JOIN item ON item.id = name.item
            """
        indexed.conditions.insert("name_text MATCH ?", at: 0)
        // SQLite takes rows from the index in this order, instead of sorting all of them.
        indexed.row = "name_text.rowid"
        return parts.query.isDescending
            ? [rest.statement, indexed.statement] : [indexed.statement, rest.statement]
    }
}

/// The clauses of a statement that finds candidates.
private struct QueryParts {
    let query: Query
    let position: QueryPosition?
    var with = ""
    var tables = "name CROSS JOIN item ON item.id = name.item"
    var conditions: [String] = []
    /// Arguments of `tables`, or of what stands before all other conditions.
    var first: [String] = []
    /// How the row of a name is called.
    var row = "name.id"

    static let itemsFirst = "item CROSS JOIN name ON name.item = item.id"

    static let seeded = """
        seed CROSS JOIN item ON item.id = seed.item CROSS JOIN name ON name.item = item.id
        """

    init(query: Query, position: QueryPosition?) {
        self.query = query
        self.position = position
    }

    /// What the results are ordered by.
    private var key: String {
        switch query.order {
        case .added: row
        case .modified: "item.modified"
        case .size: "item.size"
        case .used: "coalesce(item.opened, 0)"
        case .name: "CAST(lower(CAST(name.name AS TEXT)) AS BLOB)"
        }
    }

    /// - Throws: `invalidArgument` for a position that no such query has given.
    func check() throws {
        guard let position else { return }
        let isText = if case .text = position.key { true } else { false }
        guard isText == (query.order == .name) else {
            throw CloudFSError(.invalidArgument, "no such page")
        }
    }

    var statement: CatalogReader.QueryStatement {
        var texts: [String] = []
        var conditions = conditions
        if let filter = query.condition.filter(&texts) { conditions.append(filter) }
        var arguments: [any DatabaseValueConvertible] = first + texts
        if let position {
            let sign = query.isDescending ? "<" : ">"
            if query.order == .added {
                conditions.append("\(row) \(sign) ?")
            } else {
                conditions.append("(\(key), \(row)) \(sign) (?, ?)")
                switch position.key {
                case .number(let number): arguments.append(number)
                case .text(let bytes): arguments.append(bytes.asBlob)
                }
            }
            arguments.append(position.row)
        }
        let direction = query.isDescending ? " DESC" : ""
        let order =
            query.order == .added ? row + direction : "\(key)\(direction), \(row)\(direction)"
        let filter = conditions.isEmpty ? "" : "WHERE " + conditions.joined(separator: " AND ")
        return CatalogReader.QueryStatement(
            sql: """
                \(with) SELECT \(QueryCandidate.columns), \(key) FROM \(tables) \(filter)
                ORDER BY \(order)
                """,
            arguments: arguments
        )
    }
}

/// A page on its way: candidates are looked at until it is full.
private struct QuerySearch {
    private let plan: QueryPlan
    private let limit: Int
    private var judge: QueryJudge
    private var lookedAt = 0
    private(set) var found = QueryFound()
    private(set) var isFull = false

    /// Most candidates of one page: about a tenth of a second.
    private static let mostCandidates = 50_000

    init(_ plan: QueryPlan, limit: Int, judge: QueryJudge) {
        self.plan = plan
        self.limit = limit
        self.judge = judge
    }

    mutating func go(
        through statement: CatalogReader.QueryStatement,
        _ database: Database
    ) throws {
        // Not kept: the texts of queries are without number.
        let prepared = try database.makeStatement(sql: statement.sql)
        try DatabaseRow.forEach(prepared, arguments: statement.arguments) { row in
            let candidate = try QueryCandidate(row: row)
            lookedAt += 1
            if try judge.meets(candidate) {
                found.items.append(candidate.id)
                found.keys.append(key(row))
            }
            guard found.items.count >= limit || lookedAt >= Self.mostCandidates else { return true }
            found.next = QueryPosition(key: key(row), row: candidate.position)
            isFull = true
            return false
        }
    }

    private func key(_ row: DatabaseRow) -> QueryPosition.Key {
        plan.query.order == .name
            ? .text(row.bytes(QueryCandidate.columnCount))
            : .number(row[QueryCandidate.columnCount])
    }
}
