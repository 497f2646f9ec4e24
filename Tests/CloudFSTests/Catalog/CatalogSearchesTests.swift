import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct CatalogSearchesTests {
    private let fixture: CatalogFixture

    init() throws { fixture = try CatalogFixture() }

    private func add(_ text: String, used: [Int64] = [], keeping most: Int = 3) throws -> Int64 {
        try fixture.catalog.write { try $0.addSearch(text, used: used, keeping: most) }
    }

    private func text(_ id: Int64) throws -> String? {
        try fixture.catalog.read { try $0.search(id) }
    }

    private func number(_ text: String) throws -> Int64? {
        try fixture.catalog.read { try $0.search(for: text) }
    }

    @Test func `a text has one number, and a number one text`() throws {
        let (first, second) = (try add("a"), try add("b"))
        #expect(first != second)
        #expect(try add("a") == first)
        #expect(try text(first) == "a")
        #expect(try number("b") == second)
        #expect(try number("A") == nil)
        #expect(try text(second + 1) == nil)
    }

    @Test func `what was not used for longest is forgotten, and its number is not given again`()
        throws
    {
        let ids = try ["a", "b", "c"].map { try add($0) }
        let fourth = try add("d", used: [ids[1], ids[0]])
        #expect(try ids.map(text) == ["a", "b", nil])
        let fifth = try add("e")
        #expect(try ids.map(text) == ["a", nil, nil])
        #expect(Set(ids + [fourth, fifth]).count == 5)
        #expect(try add("c") > fifth)
        #expect(try ids.map(text) == [nil, nil, nil])
    }

    @Test func `numbers that are gone are no uses`() throws {
        let id = try add("a", used: [7, 99])
        #expect(try text(id) == "a")
        #expect(try text(99) == nil)
    }
}
