/// How a query is answered: what SQLite looks for first, and what is then looked at item by item.
///
/// SQLite never finds less than what is meant, and what decides is always `QueryJudge`: so all
/// ways to an answer give the same one.
struct QueryPlan: Sendable {
    private(set) var query: Query
    let types: [String: TypeMatch]
    /// The narrowest way to all items that can be meant; `nil` if they are all to be looked at.
    let seed: QuerySeed?

    /// - Parameter types: What `TypeMatch` a name of a type has.
    /// - Throws: `invalidArgument` for a type that nobody knows.
    init(_ query: Query, types: (String) -> TypeMatch?) throws(CloudFSError) {
        var known: [String: TypeMatch] = [:]
        for name in query.condition.typeNames where known[name] == nil {
            guard let match = types(name) else {
                throw CloudFSError(.invalidArgument, "no type is called \"\(name)\"")
            }
            known[name] = match
        }
        var query = query
        query.condition = query.condition.cheapestFirst
        self.query = query
        self.types = known
        seed = QuerySeed.narrowest(for: query.condition, known)
    }

    /// The same in the order that costs nothing.
    var inOrderOfNames: QueryPlan {
        var plan = self
        plan.query.order = .added
        plan.query.isDescending = false
        return plan
    }
}

/// A way to items that may meet a condition: a superset, which SQLite finds by an index.
enum QuerySeed: Sendable, Equatable {
    /// Names that hold all of one of these lists of needles.
    case names([NameNeedle])
    /// Items that a statement of its own names, without arguments.
    case items(sql: String)
    case path([[UInt8]])
    /// Items that have some rank of `item` in their `WHERE`, by an index of that table.
    case columns(sql: String)

    /// What it costs, roughly: the least is taken.
    private var rank: Int {
        switch self {
        case .items: 1
        case .names(let needles): needles.count == 1 ? 2 : 4
        case .columns: 3
        case .path: 5
        }
    }

    /// Most needles of one seed: a type has no more extensions.
    private static let mostNeedles = 1_000

    static func narrowest(
        for condition: QueryCondition,
        _ types: [String: TypeMatch]
    ) -> QuerySeed? {
        switch condition {
        case .all(let parts):
            return parts.compactMap { narrowest(for: $0, types) }.min { $0.rank < $1.rank }
        case .any(let parts):
            let seeds = parts.map { narrowest(for: $0, types) }
            return seeds.isEmpty ? nil : union(seeds)
        case .not, .kind, .used: return nil
        case .name(let pattern): return pattern.needle.map { .names([$0]) }
        case .type(let name): return types[name].flatMap(seed)
        case .tag: return attribute(ItemTags.attribute)
        case .comment: return attribute(ItemTags.comment)
        case .favorite: return attribute(ItemTags.favorite)
        case .status(let status): return seed(status)
        case .size(let range):
            // What the index of large files has.
            guard range.lowerBound >= 1 << 20 else { return nil }
            return .columns(
                sql: """
                    item.size >= 1048576 AND item.size BETWEEN \(range.lowerBound) \
                    AND \(range.upperBound)
                    """
            )
        case .modified(let range):
            return .columns(
                sql: "item.modified BETWEEN \(range.lowerBound) AND \(range.upperBound)"
            )
        case .path(let names), .below(let names): return .path(names)
        }
    }

    private static func attribute(_ name: String) -> QuerySeed {
        .items(sql: "SELECT item FROM attribute WHERE name = '\(name)'")
    }

    private static func seed(_ match: TypeMatch) -> QuerySeed? {
        if let needles = match.needles, match.kinds.isEmpty {
            let usable = needles.allSatisfy { !$0.trigrams.isEmpty }
            return usable && needles.count <= mostNeedles ? .names(needles) : nil
        }
        // Folders are few, and have an index of their own.
        return match.needles == [] && match.kinds == [.folder]
            ? .items(sql: "SELECT id FROM item WHERE kind = 2") : nil
    }

    private static func seed(_ status: QueryStatus) -> QuerySeed? {
        switch status {
        case .modified, .error: .items(sql: "SELECT item FROM outbox")
        case .downloading: .items(sql: "SELECT id FROM item WHERE is_wanted = 1")
        case .partial: .items(sql: "SELECT id FROM item WHERE generation <> 0")
        case .cloud, .local, .conflict, .excluded: nil
        }
    }

    /// Seeds of one kind together find what one of them does.
    private static func union(_ seeds: [QuerySeed?]) -> QuerySeed? {
        var needles: [NameNeedle] = []
        var statements: [String] = []
        for seed in seeds {
            switch seed {
            case .names(let more)?: needles += more
            case .items(let sql)?: statements.append(sql)
            case .path?, .columns?, nil: return nil
            }
        }
        if statements.isEmpty { return needles.count <= mostNeedles ? .names(needles) : nil }
        guard needles.isEmpty else { return nil }
        return .items(sql: statements.joined(separator: " UNION "))
    }
}

extension QueryCondition {
    /// The names of types in it.
    var typeNames: [String] {
        switch self {
        case .all(let parts), .any(let parts): parts.flatMap(\.typeNames)
        case .not(let part): part.typeNames
        case .type(let name): [name]
        default: []
        }
    }

    /// Whether it depends on where an item is, so that moving a folder changes what is in it.
    var dependsOnPlace: Bool {
        switch self {
        case .all(let parts), .any(let parts): parts.contains(where: \.dependsOnPlace)
        case .not(let part): part.dependsOnPlace
        case .path, .below, .status: true
        default: false
        }
    }

    /// The same, with what is known at once before what must be looked up.
    var cheapestFirst: QueryCondition {
        switch self {
        case .all(let parts): .all(Self.sorted(parts))
        case .any(let parts): .any(Self.sorted(parts))
        case .not(let part): .not(part.cheapestFirst)
        default: self
        }
    }

    private static func sorted(_ parts: [QueryCondition]) -> [QueryCondition] {
        // In the order they were written where they cost the same.
        parts.map(\.cheapestFirst).enumerated().sorted { one, other in
            let costs = (one.element.cost, other.element.cost)
            return costs.0 != costs.1 ? costs.0 < costs.1 : one.offset < other.offset
        }.map(\.element)
    }

    private var cost: Int {
        switch self {
        case .kind, .size, .modified, .used: 0
        case .name: 1
        case .type: 2
        case .tag, .comment, .favorite: 3
        case .path, .below: 4
        case .status: 5
        case .all(let parts), .any(let parts): parts.map(\.cost).max() ?? 0
        case .not(let part): part.cost
        }
    }

    /// The condition as SQLite can tell it from a name and its item, as far as it can; what meets
    /// the condition meets that.
    func filter(_ arguments: inout [String]) -> String? {
        switch self {
        case .all(let parts):
            let filters = parts.compactMap { $0.filter(&arguments) }
            return filters.isEmpty ? nil : filters.joined(separator: " AND ")
        case .any(let parts):
            var inner = arguments
            let filters = parts.map { $0.filter(&inner) }
            let known = filters.compactMap { $0 }
            guard !known.isEmpty, known.count == filters.count else { return nil }
            arguments = inner
            return "(" + known.map { "(\($0))" }.joined(separator: " OR ") + ")"
        case .not(let part): return part.exactFilter.map { "NOT (\($0))" }
        case .name(let pattern):
            guard let text = pattern.plainText else { return nil }
            arguments.append("%" + Self.escaped(text) + "%")
            return "CAST(name.name AS TEXT) LIKE ? ESCAPE '\\'"
        default: return exactFilter
        }
    }

    private var exactFilter: String? {
        switch self {
        case .kind(let kind): "item.kind = \(kind.rawValue)"
        case .size(let range):
            "(item.kind = 1 AND item.size BETWEEN \(range.lowerBound) AND \(range.upperBound))"
        case .modified(let range):
            "item.modified BETWEEN \(range.lowerBound) AND \(range.upperBound)"
        case .used(let range):
            "item.last_used BETWEEN \(range.lowerBound) AND \(range.upperBound)"
        default: nil
        }
    }

    private static func escaped(_ text: String) -> String {
        text.reduce(into: "") { result, character in
            if "%_\\".contains(character) { result.append("\\") }
            result.append(character)
        }
    }
}
