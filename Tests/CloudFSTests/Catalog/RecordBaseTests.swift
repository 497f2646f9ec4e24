import Testing

@testable import CloudFS

/// What becomes of a request's outcome when names changed while it ran.
@Suite struct RecordBaseTests {
    private let fixture: CatalogFixture

    init() throws {
        fixture = try CatalogFixture()
    }

    private func record(_ base: BaseRecord, replacing expected: BaseRecord?) throws -> Bool {
        try fixture.catalog.write { writer in
            try writer.recordBase(base, replacing: expected, at: CatalogFixture.now)
        }
    }

    private func base(named name: String) throws -> BaseRecord? {
        try fixture.catalog.read { try $0.base(named: Array(name.utf8), in: .root) }
    }

    @Test func `an upload that nothing overtook is the item's base`() throws {
        let file = try fixture.addFile("file")
        let made = CatalogFixture.base(of: file, named: "file", version: "1")
        #expect(try record(made, replacing: nil))
        #expect(try base(named: "file") == made)
    }

    @Test func `regression a move that a listing found first is the one that was sent`() throws {
        let file = try fixture.addFile("document")
        let found = CatalogFixture.base(of: file, named: "new", version: "1")
        try fixture.catalog.write { try $0.setBase(found) }
        let made = CatalogFixture.base(of: file, named: "new", version: "2")
        let expected = CatalogFixture.base(of: file, named: "old", version: "1")
        #expect(try record(made, replacing: expected))
        #expect(try base(named: "new") == made)
    }

    @Test func `what an upload made of a file that became a save of another is deleted`() throws {
        let save = try fixture.addFile("document")
        let inherited = CatalogFixture.base(of: save, named: "document", version: "old")
        try fixture.catalog.write { try $0.setBase(inherited) }
        let made = CatalogFixture.base(of: save, named: "document.tmp", version: "new")
        #expect(try !record(made, replacing: nil))
        #expect(try base(named: "document") == inherited)
        let orphan = try #require(try base(named: "document.tmp"))
        #expect(orphan.item != save)
        #expect(orphan.version == made.version)
        let (name, entry) = try fixture.catalog.read { reader in
            (try reader.name(of: orphan.item), try reader.outboxEntry(of: orphan.item))
        }
        #expect(name == nil)
        #expect(entry != nil)
    }

    @Test func `whoever has the place by then gets what was made there`() throws {
        let first = try fixture.addFile("elsewhere")
        let second = try fixture.addFile("document")
        let known = CatalogFixture.base(of: second, named: "document", version: "old")
        let own = CatalogFixture.base(of: first, named: "elsewhere", version: "own")
        try fixture.catalog.write { writer in
            try writer.setBase(known)
            try writer.setBase(own)
        }
        let made = CatalogFixture.base(of: first, named: "document", version: "new")
        #expect(try !record(made, replacing: known))
        #expect(try base(named: "document")?.item == second)
        #expect(try base(named: "document")?.version == made.version)
        // What the first has got meanwhile stays its own.
        #expect(try base(named: "elsewhere") == own)
    }
}
