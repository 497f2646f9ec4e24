import Glibc
import Testing

@testable import CloudFS

/// The language of queries, word by word.
@Suite struct QueryParserTests {
    private static let now = Timestamp(seconds: 1_795_000_000, nanoseconds: 0)

    private static func parse(_ text: String) throws(QuerySyntaxError) -> Query {
        let surroundings = QueryParser.Surroundings(now: now, isType: { $0 != "nonsense" })
        return try QueryParser.parse(text, in: surroundings)
    }

    private static func condition(_ text: String) throws(QuerySyntaxError) -> QueryCondition {
        try parse(text).condition
    }

    private static func text(_ text: String) -> QueryCondition {
        .name(NamePattern(containing: text))
    }

    @Test(arguments: [
        ("", QueryCondition.everything),
        ("report", text("report")),
        ("\"my report\"", text("my report")),
        ("\"a \\\"b\\\" *\"", text("a \"b\" *")),
        ("name:*.jpg", .name(NamePattern("*.jpg"))),
        ("*.jpg", .name(NamePattern("*.jpg"))),
        ("name:report", text("report")),
        ("name=report", .name(NamePattern(whole: "report"))),
        ("name:\"*.jpg\"", text("*.jpg")),
        ("type:public.image", .type("public.image")),
        ("TYPE:Image/*", .type("image/*")),
        ("kind:folder", .kind(.folder)),
        ("tag:red", .tag(FoldedName("red"))),
        ("tag:\"Dark Red\"", .tag(FoldedName("dark red"))),
        ("tag:*", .tag(nil)),
        ("favorite:yes", .favorite),
        ("favorite:no", .not(.favorite)),
        ("status:cloud", .status(.cloud)),
        ("status:uploading", .status(.modified)),
        ("path:Photos/2024/", .path([Array("Photos".utf8), Array("2024".utf8)])),
        ("comment:soon", .comment(NamePattern(containing: "soon"))),
        ("size>10M", .size((10 << 20) + 1...Int64.max)),
        ("size>=1.5GB", .size(1_500_000_000...Int64.max)),
        ("size<2k", .size(0...2_047)),
        ("size:10..20", .size(10...20)),
        ("size=0", .size(0...0)),
        ("size<=0", .size(0...0)),
        ("size<1", .size(0...0)),
    ])
    func `a word is a condition`(text: String, expected: QueryCondition) throws {
        #expect(try Self.condition(text) == expected)
    }

    @Test(arguments: [
        ("a b", QueryCondition.all([text("a"), text("b")])),
        ("a and b", .all([text("a"), text("b")])),
        ("a or b c", .any([text("a"), .all([text("b"), text("c")])])),
        ("(a or b) c", .all([.any([text("a"), text("b")]), text("c")])),
        ("not a b", .all([.not(text("a")), text("b")])),
        ("not (a or not b)", .not(.any([text("a"), .not(text("b"))]))),
        ("a \"and\" b", .all([text("a"), text("and"), text("b")])),
        ("name:and OR a", .any([text("and"), text("a")])),
        ("((a))", text("a")),
    ])
    func `words are put together`(text: String, expected: QueryCondition) throws {
        #expect(try Self.condition(text) == expected)
    }

    @Test func `order and limit belong to the whole`() throws {
        let query = try Self.parse("tag:red sort:modified- limit:20")
        #expect(query.condition == .tag(FoldedName("red")))
        #expect(query.order == .modified && query.isDescending)
        #expect(query.limit == 20)
        let plain = try Self.parse("sort:name")
        #expect(plain.condition == .everything && plain.order == .name && !plain.isDescending)
    }

    @Test(arguments: [
        ("(a", 3, "not closed"), ("a)", 2, "nothing was opened"), ("()", 2, "missing"),
        ("a or", 5, "missing"), ("or a", 1, "missing"), ("and a", 1, "before \"and\""),
        ("a and", 6, "behind \"and\""), ("a and or b", 7, "behind \"and\""),
        ("not", 4, "behind \"not\""), ("not sort:name", 5, "as a whole"),
        ("ab \"cd", 4, "no other one"), ("a colour:red", 3, "nothing is called \"colour\""),
        ("a type:nonsense", 3, "no type is called"), ("size>big", 1, "no size"),
        ("modified>soon", 1, "no time"), ("modified>2026-13", 1, "no time"),
        ("size:20..10", 1, "ends before"), ("size<0", 1, "fewer than 0"),
        ("a size<0K", 3, "fewer than 0"), ("status:odd", 1, "a status is one of"),
        ("kind:odd", 1, "a kind is one of"), ("favorite:maybe", 1, "yes or no"),
        ("(sort:name a)", 2, "as a whole"), ("a sort:colour", 3, "sorted by"),
        ("limit:0", 1, "a limit is"), ("limit:-1", 1, "a limit is"), ("tag>red", 1, "no order"),
        ("tag:", 1, "no value"), ("path:../x", 1, "no path"),
    ])
    func `a wrong text gets a sentence and a position`(text: String, place: Int, part: String) {
        let error = #expect(throws: QuerySyntaxError.self) { try Self.parse(text) }
        #expect(error?.position == place, "\(text): \(error?.message ?? "")")
        #expect(error?.message.contains(part) == true, "\(text): \(error?.message ?? "")")
    }

    @Test func `what is long, deep or has many conditions is refused`() throws {
        func fails(_ text: String) -> Bool { (try? Self.parse(text)) == nil }
        #expect(fails(String(repeating: "a", count: QueryLexer.longest + 1)))
        #expect(!fails(String(repeating: "a", count: QueryLexer.longest)))
        func nested(_ depth: Int) -> String {
            String(repeating: "(", count: depth) + "a" + String(repeating: ")", count: depth)
        }
        #expect(fails(nested(QueryParser.deepest)))
        #expect(!fails(nested(QueryParser.deepest - 1)))
        #expect(fails(String(repeating: "not ", count: QueryParser.deepest) + "a"))
        #expect(fails(String(repeating: "a ", count: QueryParser.mostTerms + 1)))
        #expect(!fails(String(repeating: "a ", count: QueryParser.mostTerms)))
    }

    @Test func `no text of random pieces does harm`() throws {
        var random = SystemRandomNumberGenerator()
        let pieces = [
            "(", ")", "\"", "\\", "and", "or", "not", " ", " ", "name:", "size>", "a", "*", "?",
            "10M", "sort:", "modified<", "-7d", "..", "é", "\u{301}", "🇩🇪", "'", ";", "%", "\0",
        ]
        for _ in 0..<5_000 {
            let text = (0..<Int.random(in: 1...12, using: &random))
                .map { _ in pieces.randomElement(using: &random) ?? "" }.joined()
            do throws(QuerySyntaxError) {
                _ = try Self.parse(text)
            } catch {
                #expect((1...text.count + 1).contains(error.position), "\(text.debugDescription)")
            }
        }
    }

    @Test func `times are days, months and moments`() throws {
        func range(_ text: String) throws -> ClosedRange<Int64> {
            guard case .modified(let range) = try Self.condition("modified" + text) else {
                throw CloudFSError(.internalFailure, "no time: \(text)")
            }
            return range
        }
        let second: Int64 = 1_000_000_000
        let day = try range(":2026-03-10")
        #expect(day.count == Int(86_400 * second))
        #expect(try range(">2026-03-10").lowerBound == day.upperBound + 1)
        #expect(try range(">=2026-03-10").lowerBound == day.lowerBound)
        #expect(try range("<2026-03-10").upperBound == day.lowerBound - 1)
        #expect(try range("<=2026-03-10").upperBound == day.upperBound)
        #expect(try range(":2026-01").count == Int(31 * 86_400 * second))
        #expect(try range(":2026-03-10T18:30").count == Int(60 * second))
        #expect(try range(":2026-03-10T18:30:05").count == Int(second))
        let span = try range(":2026-03-01..2026-03-10")
        #expect(span.upperBound == day.upperBound)
        let week = Self.now.nanoseconds - 7 * 86_400 * second
        #expect(try range(">-7d") == week + 1...Int64.max)
        #expect(try range(":-1w") == week...Int64.max)
        #expect(try range("<-7d") == Int64.min...week - 1)
        let today = try range(":today")
        #expect(today.contains(Self.now.nanoseconds))
        #expect(try range(":yesterday").upperBound == today.lowerBound - 1)
    }

    @Test(arguments: [
        ("*.jpg", "IMG.JPG", true), ("*.jpg", "a.jpg.txt", false), ("a?c", "abc", true),
        ("a?c", "aéc", true), ("a?c", "ac", false), ("a*b*c", "a-b-b-c", true),
        ("a*b*c", "a-c-b", false), ("*", "", true), ("ÄRGER*", "ärger.txt", true),
        ("\\*a", "*a", true), ("\\*a", "ba", false), ("k*", "\u{212a}x", false),
    ])
    func `a pattern matches a name`(pattern: String, name: String, expected: Bool) {
        #expect(NamePattern(pattern).matches(FoldedName(name)) == expected)
    }

    @Test func `a pattern of many stars ends soon`() {
        let pattern = NamePattern(String(repeating: "a*", count: 100) + "b")
        let name = FoldedName(String(repeating: "a", count: 255))
        let begin = ContinuousClock.now
        #expect(!pattern.matches(name))
        #expect(ContinuousClock.now - begin < .seconds(1))
    }
}
