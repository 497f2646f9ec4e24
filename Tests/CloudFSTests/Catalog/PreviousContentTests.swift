import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What files were before their content was replaced, and when that goes.
@Suite struct PreviousContentTests {
    private let fixture: CatalogFixture
    private static let now = CatalogFixture.now

    init() throws {
        fixture = try CatalogFixture()
    }

    /// Adds a changed file of ten bytes; generations are told apart by the test.
    private func addFile(_ name: String, generation: Int64) throws -> ItemID {
        var new = NewItem(
            container: ContainerID(1),
            kind: .file,
            metadata: CatalogFixture.metadata
        )
        new.size = 10
        new.generation = generation
        new.residency = .resident
        new.cleanliness = .dirty
        return try fixture.catalog.write { writer in
            try writer.insert(new, name: Array(name.utf8), in: .root, at: Self.now).id
        }
    }

    private func rename(_ id: ItemID, over victim: ItemID, named name: String) throws {
        try fixture.catalog.write { writer in
            _ = try writer.rename(
                id,
                to: Array(name.utf8),
                in: .root,
                replacing: victim,
                at: Self.now,
                notBefore: Self.now,
                settleTime: { _ in }
            )
            _ = try writer.eraseIfForgotten(victim)
        }
    }

    private func markClean(_ id: ItemID) throws {
        try fixture.catalog.write { try $0.markClean(id) }
    }

    private var kept: [ContentName] {
        get throws { try fixture.catalog.read { try $0.allPrevious() }.map(\.content) }
    }

    private var discarded: [Int64] {
        get throws { try fixture.catalog.read { try $0.discarded() }.map(\.generation).sorted() }
    }

    @Test func `what a new file replaces is kept until that is in the cloud`() throws {
        let old = try addFile("document", generation: 1)
        let new = try addFile("new", generation: 2)
        try rename(new, over: old, named: "document")
        #expect(try kept == [ContentName(item: old, generation: 1)])
        #expect(try discarded == [])
        try markClean(new)
        #expect(try kept == [])
        #expect(try discarded == [1])
    }

    @Test func `of many saves that nobody flushed the last one before them is kept`() throws {
        var current = try addFile("document", generation: 1)
        let first = current
        for generation: Int64 in 2...5 {
            let next = try addFile("new", generation: generation)
            try rename(next, over: current, named: "document")
            current = next
        }
        #expect(try kept == [ContentName(item: first, generation: 1)])
        #expect(try discarded == [2, 3, 4])
        try markClean(current)
        #expect(try discarded == [1, 2, 3, 4])
    }

    @Test func `what is in the cloud already keeps nothing`() throws {
        let old = try addFile("document", generation: 1)
        let new = try addFile("new", generation: 2)
        try markClean(new)
        try rename(new, over: old, named: "document")
        #expect(try kept == [])
        #expect(try discarded == [1])
    }

    @Test func `a placeholder that is replaced is the cloud's version`() throws {
        let old = try fixture.addFile("document")
        try fixture.catalog.write { writer in
            try writer.setSize(3, of: old)
            try writer.setBase(CatalogFixture.base(of: old, named: "document", version: "1"))
        }
        let new = try addFile("new", generation: 2)
        try rename(new, over: old, named: "document")
        let previous = try fixture.catalog.read { try $0.previous(of: new) }
        #expect(previous?.content.generation == 0)
        #expect(previous?.version == "1")
        #expect(try discarded == [])
    }

    @Test(arguments: [1, 2, 3, 4, 5] as [UInt64])
    func `every content is named, kept or to be unlinked, whatever is done`(seed: UInt64) throws {
        var model = PreviousModel(fixture: fixture, random: SeededRandom(seed: seed))
        for step in 1...300 {
            let what = try model.change()
            try fixture.catalog.read { reader in
                let (named, kept, discarded) = try model.contents(reader)
                let comment = Comment(rawValue: "seed \(seed), step \(step): \(what)")
                #expect(named.union(kept).union(discarded) == model.made, comment)
                #expect(named.union(kept).isDisjoint(with: discarded), comment)
            }
        }
    }
}

/// Random changes of a few files in the root.
private struct PreviousModel {
    let fixture: CatalogFixture
    var random: SeededRandom
    /// All contents that there ever were.
    private(set) var made: Set<ContentName> = []
    private var generation: Int64 = 0
    private var versions = 0

    init(fixture: CatalogFixture, random: SeededRandom) {
        self.fixture = fixture
        self.random = random
    }

    /// Contents by what holds them; one that is kept may be named, too.
    func contents(
        _ reader: CatalogReader
    ) throws -> (named: Set<ContentName>, kept: Set<ContentName>, discarded: Set<ContentName>) {
        let items = try reader.items(after: ItemID(0), limit: 1000)
        let named = items.map { ContentName(item: $0.id, generation: $0.item.content.generation) }
        let kept = try reader.allPrevious().map(\.content)
        return (
            Set(named.filter { $0.generation != 0 }), Set(kept.filter { $0.generation != 0 }),
            Set(try reader.discarded())
        )
    }

    /// Changes something.
    ///
    /// - Returns: What was changed.
    mutating func change() throws -> String {
        let name = Array("file \(random.below(4))".utf8)
        let other = Array("file \(random.below(4))".utf8)
        let choice = random.below(7)
        return try fixture.catalog.write { writer in
            let now = CatalogFixture.now
            guard let old = try writer.reader.child(name, of: .root) else {
                try create(name, writer)
                return "create"
            }
            switch choice {
            case 0, 1:
                try startOver(old, writer)
                return "start over"
            case 2:
                guard let target = try writer.reader.child(other, of: .root), target.id != old.id
                else { return "nothing" }
                _ = try writer.rename(
                    old.id,
                    to: other,
                    in: .root,
                    replacing: target.id,
                    at: now,
                    notBefore: now,
                    settleTime: { _ in }
                )
                _ = try writer.eraseIfForgotten(target.id)
                return "rename"
            case 3:
                guard let target = try writer.reader.child(other, of: .root), target.id != old.id
                else { return "nothing" }
                try writer.exchange(old.id, target.id, at: now, notBefore: now)
                return "exchange"
            case 4:
                try writer.unlink(old.id, at: now, notBefore: now)
                _ = try writer.eraseIfForgotten(old.id)
                return "unlink"
            case 5:
                if let base = try writer.reader.base(named: name, in: .root), base.item != old.id {
                    return "nothing"
                }
                versions += 1
                try writer.setBase(
                    CatalogFixture.base(
                        of: old.id,
                        named: String(decoding: name, as: UTF8.self),
                        version: "\(versions)"
                    )
                )
                try writer.markClean(old.id)
                return "send"
            default:
                guard old.item.content.cleanliness == .clean else { return "nothing" }
                try writer.dropContent(of: old)
                return "evict"
            }
        }
    }

    private mutating func create(_ name: [UInt8], _ writer: CatalogWriter) throws {
        generation += 1
        var new = NewItem(
            container: ContainerID(1),
            kind: .file,
            metadata: CatalogFixture.metadata
        )
        new.size = 10
        new.generation = generation
        new.residency = .resident
        new.cleanliness = .dirty
        let now = CatalogFixture.now
        let record = try writer.insert(new, name: name, in: .root, at: now)
        made.insert(ContentName(item: record.id, generation: generation))
        let ancestor = try writer.inheritBase(
            record.id,
            name: name,
            in: .root,
            notBefore: now,
            settleTime: { _ in }
        )
        if let ancestor { _ = try writer.eraseIfForgotten(ancestor) }
    }

    /// As `OpenFiles.truncate` to nothing.
    private mutating func startOver(_ old: ItemRecord, _ writer: CatalogWriter) throws {
        generation += 1
        try writer.keepPrevious(old, for: old.id, at: CatalogFixture.now)
        try writer.discard(old)
        try writer.setContent(of: old.id, generation: generation, residency: .resident)
        try writer.markDirty(old.id, notBefore: CatalogFixture.now)
        try writer.setSize(10, of: old.id)
        made.insert(ContentName(item: old.id, generation: generation))
    }
}
