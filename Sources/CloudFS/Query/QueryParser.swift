/// Reads the language of queries; `docs/query.md` has its grammar.
struct QueryParser {
    /// What a query means depends on when it is asked, and on which types there are.
    struct Surroundings: Sendable {
        var now: Timestamp
        /// Whether a type has that name.
        var isType: @Sendable (String) -> Bool
    }

    private var lexer: QueryLexer
    private let surroundings: Surroundings
    private var token: QueryLexer.Token?
    private var query = Query(condition: .everything)
    private var termCount = 0

    /// How deep parentheses and `not` may go.
    static let deepest = 32
    /// Most conditions of one query.
    static let mostTerms = 128
    /// Most results that can be asked for.
    static let mostResults = 1_000_000

    private init(_ text: String, _ surroundings: Surroundings) throws(QuerySyntaxError) {
        lexer = try QueryLexer(text)
        self.surroundings = surroundings
    }

    /// The query that a text means; one without conditions finds everything.
    static func parse(
        _ text: String,
        in surroundings: Surroundings
    ) throws(QuerySyntaxError) -> Query {
        var parser = try QueryParser(text, surroundings)
        try parser.advance()
        if parser.token != nil {
            parser.query.condition = try parser.either(depth: 0)
        }
        guard parser.token == nil else { throw parser.wrong("nothing was opened before it") }
        return parser.query
    }

    // MARK: - Conditions

    private mutating func advance() throws(QuerySyntaxError) {
        token = try lexer.next()
    }

    private func wrong(_ message: String) -> QuerySyntaxError {
        QuerySyntaxError(message: message, position: lexer.position)
    }

    /// Whether the next token is that word, as a part of the language.
    private func isNext(_ keyword: String) -> Bool {
        guard case .word(let word)? = token, word.field == nil, !word.isQuoted else { return false }
        return word.value.lowercased() == keyword
    }

    private mutating func either(depth: Int) throws(QuerySyntaxError) -> QueryCondition {
        var parts = [try both(depth: depth)]
        while isNext("or") {
            try advance()
            parts.append(try both(depth: depth))
        }
        return parts.count == 1 ? parts[0] : .any(parts)
    }

    private mutating func both(depth: Int) throws(QuerySyntaxError) -> QueryCondition {
        var parts: [QueryCondition] = []
        var isBegun = false
        while token != nil, token != .close, !isNext("or") {
            if isNext("and") {
                guard isBegun else { throw wrong("there is nothing before \"and\"") }
                try advance()
                guard token != nil, token != .close, !isNext("or"), !isNext("and") else {
                    throw wrong("there is nothing behind \"and\"")
                }
            }
            isBegun = true
            if let part = try one(depth: depth) { parts.append(part) }
        }
        guard isBegun else { throw wrong("a condition is missing") }
        return parts.count == 1 ? parts[0] : .all(parts)
    }

    /// - Returns: `nil` for what is no condition, such as the order.
    private mutating func one(depth: Int) throws(QuerySyntaxError) -> QueryCondition? {
        guard depth < Self.deepest else {
            throw wrong("it goes deeper than \(Self.deepest) parentheses")
        }
        if isNext("not") {
            try advance()
            guard token != nil, token != .close, !isNext("and"), !isNext("or"),
                let part = try one(depth: depth + 1)
            else { throw wrong("there is no condition behind \"not\"") }
            return .not(part)
        }
        switch token {
        case .open?:
            try advance()
            let inner = try either(depth: depth + 1)
            guard token == .close else { throw wrong("a parenthesis is not closed") }
            try advance()
            return inner
        case .word(let word)?:
            termCount += 1
            guard termCount <= Self.mostTerms else {
                throw wrong("it has more than \(Self.mostTerms) conditions")
            }
            let condition = try condition(word, depth: depth)
            try advance()
            return condition
        case .close?, nil: throw wrong("a condition is missing")
        }
    }

    // MARK: - Words

    private mutating func condition(
        _ word: QueryLexer.Word,
        depth: Int
    ) throws(QuerySyntaxError) -> QueryCondition? {
        guard let field = word.field else { return .name(name(word)) }
        guard !word.value.isEmpty else { throw wrong("\"\(field)\(word.sign)\" has no value") }
        if ["size", "modified", "used"].contains(field) { return try range(word, field) }
        guard word.sign == ":" || word.sign == "=" else {
            throw wrong("\"\(field)\" has no order: write \(field):…")
        }
        switch field {
        case "sort", "limit":
            guard depth == 0 else { throw wrong("\"\(field)\" belongs to the query as a whole") }
            try setOutcome(field, word.value)
            return nil
        case "name": return .name(name(word))
        case "type":
            guard surroundings.isType(word.value) else {
                throw wrong("no type is called \"\(word.value)\"")
            }
            return .type(word.value.lowercased())
        case "tag": return .tag(word.value == "*" ? nil : FoldedName(word.value))
        case "comment": return .comment(name(word))
        case "path": return .path(try path(word.value))
        default: return try choice(word, field)
        }
    }

    private func choice(
        _ word: QueryLexer.Word,
        _ field: String
    ) throws(QuerySyntaxError) -> QueryCondition {
        let value = word.value.lowercased()
        switch field {
        case "kind":
            let kinds: [String: ItemKind] = [
                "file": .file, "folder": .folder, "symlink": .symlink, "fifo": .fifo,
                "socket": .socket,
            ]
            guard let kind = kinds[value] else {
                throw wrong("a kind is one of file, folder, symlink, fifo, socket")
            }
            return .kind(kind)
        case "favorite":
            switch value {
            case "yes": return .favorite
            case "no": return .not(.favorite)
            default: throw wrong("\"favorite\" is yes or no")
            }
        case "status":
            if value == "uploading" { return .status(.modified) }
            guard let status = QueryStatus(rawValue: value) else {
                let all = QueryStatus.allCases.map(\.rawValue).joined(separator: ", ")
                throw wrong("a status is one of \(all)")
            }
            return .status(status)
        default:
            throw wrong(
                "nothing is called \"\(field)\"; there are name, type, kind, tag, comment, "
                    + "favorite, status, size, modified, used, path, sort and limit; text with a "
                    + "\":\" goes in quotation marks"
            )
        }
    }

    private func name(_ word: QueryLexer.Word) -> NamePattern {
        if word.sign == "=" { return NamePattern(whole: word.value) }
        let isPattern = !word.isQuoted && NamePattern.isPattern(word.value)
        return isPattern ? NamePattern(word.value) : NamePattern(containing: word.value)
    }

    private func path(_ text: String) throws(QuerySyntaxError) -> [[UInt8]] {
        let names = text.utf8.split(separator: UInt8(ascii: "/")).map { Array($0) }
            .filter { $0 != [UInt8(ascii: ".")] }
        guard !names.contains(Array("..".utf8)), names.allSatisfy({ $0.count <= 255 }) else {
            throw wrong("\"\(text)\" is no path in a drive")
        }
        return names
    }

    private mutating func setOutcome(
        _ field: String,
        _ value: String
    ) throws(QuerySyntaxError) {
        guard field == "sort" else {
            guard let limit = Int(value), (1...Self.mostResults).contains(limit) else {
                throw wrong("a limit is 1 to \(Self.mostResults)")
            }
            query.limit = limit
            return
        }
        let isDescending = value.hasSuffix("-")
        let name = isDescending || value.hasSuffix("+") ? String(value.dropLast()) : value
        guard let order = Query.Order(rawValue: name.lowercased()) else {
            let all = Query.Order.allCases.map(\.rawValue).joined(separator: ", ")
            throw wrong("results are sorted by one of \(all), with \"-\" behind it the other way")
        }
        query.order = order
        query.isDescending = isDescending
    }

    // MARK: - Sizes and times

    private func range(
        _ word: QueryLexer.Word,
        _ field: String
    ) throws(QuerySyntaxError) -> QueryCondition {
        let value = word.value
        let range: ClosedRange<Int64>
        if let span = Self.span(value), word.sign == ":" {
            let low = try bounds(span.low, field)
            let high = try bounds(span.high, field)
            guard low.lowerBound <= high.upperBound else {
                throw wrong("\"\(value)\" ends before it begins")
            }
            range = low.lowerBound...high.upperBound
        } else {
            range = Self.range(word.sign, try bounds(value, field), isMoment: Self.isAgo(value))
        }
        guard field != "size" || range.upperBound >= 0 else {
            throw wrong("no file has fewer than 0 bytes")
        }
        return switch field {
        case "size": .size(max(0, range.lowerBound)...range.upperBound)
        case "modified": .modified(range)
        default: .used(range)
        }
    }

    private static func span(_ value: String) -> (low: String, high: String)? {
        guard let dots = value.firstRange(of: "..") else { return nil }
        let (low, high) = (value[..<dots.lowerBound], value[dots.upperBound...])
        return low.isEmpty || high.isEmpty ? nil : (String(low), String(high))
    }

    private static func range(
        _ sign: String,
        _ bounds: ClosedRange<Int64>,
        isMoment: Bool
    ) -> ClosedRange<Int64> {
        switch sign {
        case ">": (bounds.upperBound == .max ? .max : bounds.upperBound + 1)...Int64.max
        case ">=": bounds.lowerBound...Int64.max
        case "<": Int64.min...(bounds.lowerBound == .min ? .min : bounds.lowerBound - 1)
        case "<=": Int64.min...bounds.upperBound
        // Nothing is changed at the very nanosecond a week ago.
        case _ where isMoment: bounds.lowerBound...Int64.max
        default: bounds
        }
    }

    private static func isAgo(_ value: String) -> Bool { value.hasPrefix("-") }

    private func bounds(
        _ text: String,
        _ field: String
    ) throws(QuerySyntaxError) -> ClosedRange<Int64> {
        if field == "size" {
            guard let size = QueryValues.byteCount(text) else {
                throw wrong("\"\(text)\" is no size, such as 500, 10M or 1.5GB")
            }
            return size...size
        }
        guard let moments = QueryValues.moments(text, now: surroundings.now) else {
            throw wrong(
                "\"\(text)\" is no time, such as 2026-01-31, 2026-01, 2026-01-31T18:00, -7d or "
                    + "today"
            )
        }
        return moments
    }
}
