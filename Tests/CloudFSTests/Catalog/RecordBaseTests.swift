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

    /// What is there is to be sent over it, or to be deleted.
    @Test(arguments: [true, false])
    func `a save that has the place by then is to replace what was made there`(
        isRemoved: Bool
    ) throws {
        let first = try fixture.addFile("elsewhere")
        let second = try fixture.addFile("document", isDirty: !isRemoved)
        let known = CatalogFixture.base(of: second, named: "document", version: "old")
        let own = CatalogFixture.base(of: first, named: "elsewhere", version: "own")
        try fixture.catalog.write { writer in
            try writer.setBase(known)
            try writer.setBase(own)
            if isRemoved { try writer.removeName(of: second) }
        }
        let made = CatalogFixture.base(of: first, named: "document", version: "new")
        #expect(try !record(made, replacing: known))
        #expect(try base(named: "document")?.item == second)
        #expect(try base(named: "document")?.version == made.version)
        // What the first has got meanwhile stays its own.
        #expect(try base(named: "elsewhere") == own)
    }

    /// Somebody else's version is no older one of what was made there: written upon, it would be
    /// sent over that, and removed, it would take that along.
    @Test(arguments: [true, false], ["clean", "written", "removed"])
    func `what the cloud was known to have in the place is not what was made there`(
        isNew: Bool,
        other: String
    ) throws {
        let first = try fixture.addFile("ours")
        let second = try fixture.addFile("document", isDirty: other == "written")
        let known = CatalogFixture.base(of: second, named: "document", version: "theirs")
        let own = isNew ? nil : CatalogFixture.base(of: first, named: "ours", version: "own")
        try fixture.catalog.write { writer in
            try writer.setBase(known)
            if let own { try writer.setBase(own) }
            if other == "removed" { try writer.removeName(of: second) }
        }
        let made = CatalogFixture.base(of: first, named: "document", version: "new")
        #expect(try record(made, replacing: own))
        #expect(try base(named: "document") == made)
        let displaced = try #require(try fixture.catalog.read { try $0.base(of: second) })
        #expect(displaced.isDisplaced)
        #expect(displaced.version == known.version)
    }

    /// The answer of a request may be of a moment before another device wrote on the item.
    @Test func `what is to be looked at closely is so after a request too`() throws {
        let file = try fixture.addFile("file")
        let known = CatalogFixture.base(of: file, named: "file", version: "1")
        var stale = known
        stale.version = known.version.asStale
        try fixture.catalog.write { try $0.setBase(stale) }
        let made = CatalogFixture.base(of: file, named: "file", version: "2")
        #expect(try record(made, replacing: known))
        #expect(try base(named: "file")?.version == made.version.asStale)
    }

    // MARK: - Before it is sent

    private func requireStill(_ id: ItemID, from base: BaseRecord?, to name: String) throws {
        let sent = SentRecord(
            of: id,
            to: .root,
            Array(name.utf8),
            from: base,
            document: .random()
        )
        try fixture.catalog.read { try $0.requireStill(sent) }
    }

    @Test func `nothing is sent to a place that something else was found in`() throws {
        let first = try fixture.addFile("ours")
        let second = try fixture.addFile("document")
        let own = CatalogFixture.base(of: first, named: "ours", version: "own")
        try requireStill(first, from: nil, to: "document")
        try fixture.catalog.write { writer in
            try writer.setBase(own)
            try writer.setBase(CatalogFixture.base(of: second, named: "document", version: "1"))
        }
        try requireStill(first, from: own, to: "ours")
        try requireStill(first, from: own, to: "elsewhere")
        #expect(throws: CloudFSError.self) { try requireStill(first, from: own, to: "document") }
        #expect(throws: CloudFSError.self) { try requireStill(first, from: nil, to: "ours") }
    }

    @Test func `nothing is sent to a place that something else is being sent to`() throws {
        let first = try fixture.addFile("first")
        let second = try fixture.addFile("second")
        try fixture.catalog.write { writer in
            try writer.note(
                SentRecord(
                    of: second,
                    to: .root,
                    Array("document".utf8),
                    from: nil,
                    document: .random()
                )
            )
        }
        try requireStill(second, from: nil, to: "document")
        #expect(throws: CloudFSError.self) { try requireStill(first, from: nil, to: "document") }
    }
}
