/// How a query is answered: what SQLite looks for first, and what is then looked at item by item.
///
/// SQLite never finds less than what is meant, and what decides is always `QueryJudge`: so all
/// ways to an answer give the same one.
struct QueryPlan: Sendable {
    private(set) var query: Query
    let types: [String: TypeMatch]
    /// Ways to all items that can be meant, the ones that are mostly narrow first; without one, all
    /// items are to be looked at.
    private(set) var seeds: [QuerySeed]
    /// Whether the first of them is the one to take, and none if all items are to be looked at.
    private(set) var isDecided = false

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
        seeds = QuerySeed.all(for: query.condition, known)
    }

    /// The same by one way, for all of its pages.
    func deciding(_ seed: QuerySeed?) -> QueryPlan {
        var plan = self
        plan.seeds = seed.map { [$0] } ?? []
        plan.isDecided = true
        return plan
    }

    /// The same in the order that costs nothing.
    var inOrderOfNames: QueryPlan {
        var plan = self
        plan.query.order = .added
        plan.query.isDescending = false
        return plan
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

    /// The paths in it.
    var paths: [[[UInt8]]] {
        switch self {
        case .all(let parts), .any(let parts): parts.flatMap(\.paths)
        case .not(let part): part.paths
        case .path(let names), .below(let names): [names]
        default: []
        }
    }

    /// Whether what is set for a folder can change what in it meets the condition.
    var dependsOnFolders: Bool {
        switch self {
        case .all(let parts), .any(let parts): parts.contains(where: \.dependsOnFolders)
        case .not(let part): part.dependsOnFolders
        case .status: true
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
            """
            (item.opened IS NOT NULL AND item.opened BETWEEN \(range.lowerBound) \
            AND \(range.upperBound))
            """
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
