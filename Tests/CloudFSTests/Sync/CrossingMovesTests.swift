import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Moves of a folder and of what is in it, of which one was not answered.
///
/// In a bucket a move is many steps from path to path: if the path changes in the middle, half of
/// it stays where it was.
@Suite struct CrossingMovesTests {
    private let fixture: CatalogFixture
    private let folder: ItemID
    private let child: ItemID

    init() throws {
        fixture = try CatalogFixture()
        let new = NewItem(
            container: ContainerID(1),
            kind: .folder,
            metadata: CatalogFixture.metadata
        )
        (folder, child) = try fixture.catalog.write { writer in
            let now = CatalogFixture.now
            let folder = try writer.insert(new, name: Array("new".utf8), in: .root, at: now).id
            let child = try writer.insert(new, name: Array("out".utf8), in: .root, at: now).id
            try writer.setBase(CatalogFixture.base(of: folder, named: "old", version: "1"))
            try writer.setBase(
                CatalogFixture.base(of: child, named: "in", in: folder, version: "2")
            )
            return (folder, child)
        }
    }

    /// The move of an item from where the cloud has it to the root.
    private func move(of id: ItemID, to name: String) throws -> SentRecord {
        try fixture.catalog.read { reader in
            SentRecord(
                of: id,
                to: .root,
                Array(name.utf8),
                from: try reader.base(of: id),
                .move,
                document: try reader.existing(id).item.documentID
            )
        }
    }

    private func note(_ sent: SentRecord) throws {
        try fixture.catalog.write { writer in
            try writer.reader.requireStill(sent)
            try writer.note(sent)
        }
    }

    private func step(of id: ItemID) throws -> OutboxStep? {
        try fixture.catalog.read { reader in
            try OutboxFacts(of: id, in: reader, at: CatalogFixture.now) { _, _ in false }
        }.map { OutboxStep.next($0.facts) }
    }

    @Test func `a folder waits for the move of what was in it, until that is answered`() throws {
        #expect(try step(of: folder) == .move)
        try note(try move(of: child, to: "out"))
        #expect(try step(of: folder) == .waitFor(child))
        #expect(try step(of: child) == .ask)
        try fixture.catalog.write { try $0.forgetSent(of: child) }
        #expect(try step(of: folder) == .move)
    }

    @Test func `what is in a folder waits for its move`() throws {
        try note(try move(of: folder, to: "new"))
        #expect(try step(of: child) == .waitFor(folder))
        #expect(try step(of: folder) == .ask)
    }

    @Test func `of two that were decided at once the second is decided anew`() throws {
        let (inner, outer) = (try move(of: child, to: "out"), try move(of: folder, to: "new"))
        for (first, second) in [(inner, outer), (outer, inner)] {
            try note(first)
            #expect(throws: CloudFSError.self) { try note(second) }
            try fixture.catalog.write { try $0.forgetSent(of: first.item) }
            try note(second)
            try fixture.catalog.write { try $0.forgetSent(of: second.item) }
        }
    }

    @Test func `moves beside each other do not wait`() throws {
        let other = try fixture.addFile("there")
        try fixture.catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: other, named: "here", version: "3"))
        }
        try note(try move(of: other, to: "there"))
        #expect(try step(of: folder) == .move)
        try note(try move(of: folder, to: "new"))
    }
}
