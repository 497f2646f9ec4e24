import GRDB

/// An item that may meet a query's condition, with what is looked at first.
struct QueryCandidate: Sendable {
    var id: ItemID
    /// The row of its name.
    var position: Int64
    var parent: ItemID
    var name: [UInt8]
    var kind: ItemKind
    var size: Int64
    var modified: Int64
    /// `nil` if no person's program opened it.
    var used: Int64?

    /// The columns in the order `init(row:)` reads them.
    static let columns = """
        item.id, name.id, name.parent, name.name, item.kind, item.size, item.modified, \
        item.opened
        """

    static let columnCount = 8

    init(row: DatabaseRow) throws {
        guard let kind = ItemKind(rawValue: row[4]) else {
            throw CloudFSError(.corrupt, "item \(row[0] as Int64) of the catalog is damaged")
        }
        id = ItemID(row[0])
        position = row[1]
        parent = ItemID(row[2])
        name = row.bytes(3)
        self.kind = kind
        size = row[5]
        modified = row[6]
        used = row[7]
    }
}

/// Decides which items meet a query's condition, on one state of the catalog.
struct QueryJudge {
    private let plan: QueryPlan
    private let reader: CatalogReader
    /// Which folders lie at or below which path of the query.
    private var places: [[[UInt8]]: [ItemID: Bool]] = [:]
    /// What is at the paths of the query.
    private var tops: [[[UInt8]]: ItemID] = [:]
    private let hasExclusions: Bool
    private let hasConflicts: Bool

    /// Most folders that are remembered to be inside of a path or not.
    private static let mostPlaces = 100_000

    init(_ plan: QueryPlan, _ reader: CatalogReader) throws {
        self.plan = plan
        self.reader = reader
        for names in plan.query.condition.paths { tops[names] = try reader.item(at: names)?.id }
        hasExclusions = try reader.exists("SELECT 1 FROM item WHERE policy = 3")
        hasConflicts = try reader.exists("SELECT 1 FROM name WHERE \(CatalogReader.isMarked)")
    }

    mutating func meets(_ candidate: QueryCandidate) throws -> Bool {
        var name: FoldedName?
        return try meets(plan.query.condition, candidate, &name)
    }

    private mutating func meets(
        _ condition: QueryCondition,
        _ candidate: QueryCandidate,
        _ name: inout FoldedName?
    ) throws -> Bool {
        switch condition {
        case .all(let parts):
            for part in parts where try !meets(part, candidate, &name) { return false }
            return true
        case .any(let parts):
            for part in parts where try meets(part, candidate, &name) { return true }
            return false
        case .not(let part): return try !meets(part, candidate, &name)
        case .name(let pattern):
            let folded = name ?? FoldedName(candidate.name)
            name = folded
            return pattern.matches(folded)
        case .type(let type):
            let text = String(decoding: candidate.name, as: UTF8.self)
            return plan.types[type]?.matches(candidate.kind, text) ?? false
        case .kind(let kind): return candidate.kind == kind
        case .size(let range): return candidate.kind == .file && range.contains(candidate.size)
        case .modified(let range): return range.contains(candidate.modified)
        case .used(let range): return candidate.used.map(range.contains) ?? false
        case .tag(let tag): return try hasTag(tag, candidate.id)
        case .comment(let pattern):
            let value = try reader.attribute(RemoteAttribute.comment, of: candidate.id)
            return value.map { pattern.matches(FoldedName($0)) } ?? false
        case .favorite:
            return try reader.attribute(RemoteAttribute.favorite, of: candidate.id) == [
                UInt8(ascii: "1")
            ]
        case .status(let status): return try self.status(of: candidate) == status
        case .path(let names): return try isInside(names, candidate)
        case .below(let names):
            return try isInside(names, candidate) && tops[names] != candidate.id
        }
    }

    private func hasTag(_ tag: FoldedName?, _ id: ItemID) throws -> Bool {
        guard let value = try reader.attribute(TagList.attribute, of: id) else { return false }
        let names = TagList(attribute: value).names
        guard let tag else { return !names.isEmpty }
        return names.contains { FoldedName($0) == tag }
    }

    // MARK: - State

    private func status(of candidate: QueryCandidate) throws -> QueryStatus {
        try DatabaseRow.first(
            reader.compiled(
                """
                SELECT item.residency, item.is_wanted, outbox.is_held,
                    outbox.error_message IS NOT NULL
                FROM item LEFT JOIN outbox ON outbox.item = item.id WHERE item.id = ?
                """
            ),
            arguments: [candidate.id.rawValue]
        ) { try status(of: candidate, $0) } ?? .local
    }

    private func status(of candidate: QueryCandidate, _ row: DatabaseRow) throws -> QueryStatus {
        guard let residency = Residency(rawValue: row[0]) else { return .local }
        let isHeld: Bool? = row[2]
        if isHeld == true || !candidate.kind.isSynced { return .excluded }
        if hasExclusions, try reader.effectivePolicy(of: candidate.id) == .excluded {
            return .excluded
        }
        if row[3] as Bool == true { return .error }
        if hasConflicts, try reader.isInConflict(candidate.id) { return .conflict }
        if isHeld == false { return .modified }
        if candidate.kind != .file || residency == .resident || candidate.size == 0 {
            return .local
        }
        if row[1] as Bool == true { return .downloading }
        return residency == .partial ? .partial : .cloud
    }

    // MARK: - Place

    private mutating func isInside(
        _ names: [[UInt8]],
        _ candidate: QueryCandidate
    ) throws -> Bool {
        guard let top = tops[names] else { return false }
        if top == .root || candidate.id == top { return true }
        // Emptied before it is looked into: it is changed in place, never copied.
        if places[names, default: [:]].count > Self.mostPlaces { places[names] = [:] }
        var way: [ItemID] = []
        var current = candidate.parent
        var answer: Bool?
        while answer == nil {
            if let remembered = places[names]?[current] {
                answer = remembered
                break
            }
            way.append(current)
            // Where a damaged catalog has a circle, the way comes back here.
            places[names, default: [:]][current] = false
            if current == top {
                answer = true
            } else if let above = try reader.name(of: current) {
                current = above.parent
            } else {
                answer = false
            }
        }
        for folder in way { places[names, default: [:]][folder] = answer }
        return answer ?? false
    }
}

extension CatalogReader {
    /// Whether a statement without arguments finds a row.
    func exists(_ sql: String) throws -> Bool {
        try DatabaseRow.value(compiled("SELECT EXISTS (\(sql))")) ?? false
    }
}
