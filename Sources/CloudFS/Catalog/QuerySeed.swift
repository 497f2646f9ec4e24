/// A way to items that may meet a condition: a superset, which SQLite finds by an index.
enum QuerySeed: Sendable, Equatable {
    /// Items that a statement of its own names, without arguments.
    case items(sql: String)
    /// Items by a condition on `item` that an index of that table answers.
    case columns(sql: String)
    case names(NameSearch)
    case path([[UInt8]])

    private var rank: Int {
        switch self {
        case .items: 0
        case .columns: 1
        case .names: 2
        case .path: 3
        }
    }

    /// All ways to what may meet a condition.
    static func all(
        for condition: QueryCondition,
        _ types: [String: TypeMatch]
    ) -> [QuerySeed] {
        guard case .all(let parts) = condition else { return one(for: condition, types) }
        let seeds = parts.flatMap { all(for: $0, types) }
        // Names are looked for by all that is known of them at once.
        let searches = seeds.compactMap { if case .names(let search) = $0 { search } else { nil } }
        let others = seeds.filter { if case .names = $0 { false } else { true } }
        let names = NameSearch.all(searches).map { QuerySeed.names($0) }
        return (others + (names.map { [$0] } ?? [])).sorted { $0.rank < $1.rank }
    }

    /// The ways for a condition that is not made of several that must all hold.
    private static func one(
        for condition: QueryCondition,
        _ types: [String: TypeMatch]
    ) -> [QuerySeed] {
        switch condition {
        case .all, .not, .kind: return []
        case .any(let parts): return union(parts.map { all(for: $0, types) })
        case .name(let pattern):
            return NameSearch.all(pattern.needles.map { .has($0) }).map { [.names($0)] } ?? []
        case .type(let name): return types[name].map(seeds) ?? []
        case .tag(let tag): return [self.tag(tag)]
        case .comment: return [attribute(RemoteAttribute.comment)]
        case .favorite: return [attribute(RemoteAttribute.favorite)]
        case .status(let status): return seeds(status)
        case .size(let range):
            // What the index of large files has.
            guard range.lowerBound >= 1 << 20 else { return [] }
            let bounds = "BETWEEN \(range.lowerBound) AND \(range.upperBound)"
            return [.columns(sql: "item.size >= 1048576 AND item.size \(bounds)")]
        case .modified(let range):
            let bounds = "BETWEEN \(range.lowerBound) AND \(range.upperBound)"
            return [.columns(sql: "item.modified \(bounds)")]
        case .used(let range):
            let bounds = "BETWEEN \(range.lowerBound) AND \(range.upperBound)"
            return [.columns(sql: "item.opened IS NOT NULL AND item.opened \(bounds)")]
        case .path(let names), .below(let names): return names.isEmpty ? [] : [.path(names)]
        }
    }

    private static func attribute(_ name: String) -> QuerySeed {
        .items(sql: "SELECT item FROM attribute WHERE name = '\(name)'")
    }

    private static func tag(_ tag: FoldedName?) -> QuerySeed {
        // Beyond ASCII, SQLite knows no letters.
        guard let bytes = tag?.bytes, bytes.allSatisfy({ $0 < 0x80 }) else {
            return .items(sql: "SELECT DISTINCT item FROM item_tag")
        }
        let text = "CAST(x'\(Hexadecimal.text(bytes))' AS TEXT)"
        return .items(
            sql: """
                SELECT DISTINCT item FROM item_tag
                WHERE tag IN (SELECT id FROM tag WHERE lower(name) = \(text))
                """
        )
    }

    private static func seeds(_ match: TypeMatch) -> [QuerySeed] {
        guard let needles = match.needles else { return [] }
        if match.kinds.isEmpty {
            return NameSearch.any(needles.map { .has($0) }).map { [.names($0)] } ?? []
        }
        // Folders are few, and have an index of their own.
        return needles.isEmpty && match.kinds == [.folder]
            ? [.items(sql: "SELECT id FROM item WHERE kind = 2")] : []
    }

    private static func seeds(_ status: QueryStatus) -> [QuerySeed] {
        switch status {
        case .modified, .error: [.items(sql: "SELECT item FROM outbox")]
        case .downloading: [.items(sql: "SELECT id FROM item WHERE is_wanted = 1")]
        case .partial: [.items(sql: "SELECT id FROM item WHERE generation <> 0")]
        case .cloud, .local, .conflict, .excluded: []
        }
    }

    /// Ways to what may meet one of several conditions: one of the same kind for each.
    private static func union(_ ways: [[QuerySeed]]) -> [QuerySeed] {
        var seeds: [QuerySeed] = []
        let statements = ways.map { seeds in
            seeds.lazy.compactMap { if case .items(let sql) = $0 { sql } else { nil } }.first
        }
        let known = statements.compactMap { $0 }
        if !known.isEmpty, known.count == ways.count {
            seeds.append(.items(sql: known.joined(separator: " UNION ")))
        }
        let searches = ways.map { seeds in
            seeds.lazy.compactMap { if case .names(let names) = $0 { names } else { nil } }.first
        }
        let names = searches.compactMap { $0 }
        if names.count == ways.count, let search = NameSearch.any(names) {
            seeds.append(.names(search))
        }
        return seeds
    }
}

/// What names are looked for by in their index.
indirect enum NameSearch: Sendable, Equatable {
    case has(NameNeedle)
    case every([NameSearch])
    case some([NameSearch])

    /// Most needles of one search: no type has more extensions.
    private static let most = 1_000

    /// Names that all of some searches find.
    ///
    /// Long ones, of types with many extensions, cost more than they leave out beside another.
    static func all(_ parts: [NameSearch]) -> NameSearch? {
        var kept: [NameSearch] = []
        for part in parts.filter(\.isUsable).sorted(by: { $0.count < $1.count })
        where part.count <= (kept.isEmpty ? most : 32) && kept.count < 32 {
            kept.append(part)
        }
        return kept.count > 1 ? .every(kept) : kept.first
    }

    /// Names that one of some searches finds; `nil` if they cannot all be looked for.
    static func any(_ parts: [NameSearch]) -> NameSearch? {
        guard !parts.isEmpty, parts.allSatisfy(\.isUsable),
            parts.reduce(0, { $0 + $1.count }) <= most
        else { return nil }
        return parts.count > 1 ? .some(parts) : parts[0]
    }

    private var count: Int {
        switch self {
        case .has: 1
        case .every(let parts), .some(let parts): parts.reduce(0) { $0 + $1.count }
        }
    }

    private var isUsable: Bool {
        switch self {
        case .has(let needle): !needle.trigrams.isEmpty
        case .every(let parts), .some(let parts): parts.allSatisfy(\.isUsable)
        }
    }

    /// The search as FTS5 takes it: each needle by every second of its parts, and the last.
    var match: String {
        switch self {
        case .has(let needle):
            let all = needle.trigrams
            let some = all.enumerated().filter { $0.offset % 2 == 0 || $0.offset == all.count - 1 }
            let parts = Set(some.map(\.element)).sorted().map { part in
                "\"" + part.replacing("\"", with: "\"\"") + "\""
            }
            return "(" + parts.joined(separator: " AND ") + ")"
        case .every(let parts):
            return "(" + parts.map(\.match).joined(separator: " AND ") + ")"
        case .some(let parts):
            return "(" + parts.map(\.match).joined(separator: " OR ") + ")"
        }
    }
}
