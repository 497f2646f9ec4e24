import Glibc
import Testing

@testable import CloudFS

/// A draft that the cloud has is written anew and saved over a document, and the power fails before
/// any of that is on the disk.
@Suite struct RecoveryDraftTests {
    private let bench: RecoveryBench
    private var fixture: CatalogFixture { bench.fixture }
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }

    init() throws {
        bench = try RecoveryBench()
    }

    /// Adds a file that the cloud has.
    private func addSent(_ name: String, _ text: String, version: String) throws -> ItemID {
        let id = try fixture.addFile(name)
        try bench.write(text, to: id)
        try catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: id, named: name, version: version))
            try writer.markClean(id)
        }
        return id
    }

    /// How programs put a draft in a document's place.
    enum Saving: CaseIterable, Sendable {
        case byRenaming, byExchanging
    }

    private func save(
        _ draft: ItemID,
        over document: ItemID,
        _ saving: Saving = .byRenaming
    ) throws {
        try bench.write("afterwards", to: draft, emptying: true)
        let now = CatalogFixture.now
        try catalog.write { writer in
            switch saving {
            case .byRenaming:
                _ = try writer.rename(
                    draft,
                    to: Array("document".utf8),
                    in: .root,
                    replacing: document,
                    at: now,
                    notBefore: now,
                    settleTime: files.settleTime
                )
            case .byExchanging:
                try writer.exchange(draft, document, at: now, notBefore: now)
                try writer.unlink(document, at: now, notBefore: now)
            }
            _ = try writer.eraseIfForgotten(document)
        }
    }

    /// The power fails before what was written is on the disk.
    private func lose(_ draft: ItemID) throws {
        try bench.cut(draft, to: 0)
        try bench.failPower()
        try bench.recover()
    }

    /// What the cloud has in the draft's old place, with nothing here that stands for it.
    private func orphan() throws -> ItemID? {
        try catalog.read { reader in
            let left = try reader.base(named: Array("draft".utf8), in: .root)?.item
            return try left.flatMap { try reader.name(of: $0) == nil ? $0 : nil }
        }
    }

    private func nextStep(of id: ItemID) throws -> OutboxStep? {
        let facts = try catalog.read { reader in
            try OutboxFacts(of: id, in: reader, at: CatalogFixture.now) { _, _ in false }
        }
        return facts.map { OutboxStep.next($0.facts) }
    }

    /// Else a power failure could find the old bytes deleted there, and the new ones on no disk.
    @Test func `a document stays in the cloud until what was saved over it is there`() throws {
        let document = try addSent("document", "before", version: "1")
        let draft = try addSent("draft", "draft", version: "2")
        try save(draft, over: document)
        #expect(try nextStep(of: document) == .waitFor(draft))
        #expect(try nextStep(of: draft) == .upload)
        try catalog.write { try $0.markClean(draft) }
        #expect(try nextStep(of: document) == .delete)
        #expect(try nextStep(of: draft) == .waitFor(document))
    }

    @Test(arguments: Saving.allCases, [true, false])
    func `the document is what it was, not what the draft was`(
        saving: Saving,
        isHere: Bool
    ) throws {
        let document = try addSent("document", "before", version: "1")
        if !isHere {
            try catalog.write { writer in
                try writer.dropContent(of: try writer.reader.existing(document))
            }
        }
        let draft = try addSent("draft", "draft", version: "2")
        try save(draft, over: document, saving)
        try lose(draft)

        let record = try catalog.read { try $0.existing(draft) }
        #expect(record.item.content.cleanliness == .clean)
        #expect(record.item.content.residency == (isHere ? .resident : .placeholder))
        if isHere { #expect(try bench.text(of: draft) == "before") }
        // What is fetched, or sent over, is the document of the cloud.
        let base = try #require(try catalog.read { try $0.base(of: draft) })
        #expect(base.version.content == "1")
        #expect(base.name == Array("document".utf8))
        // The draft has no name any more, and goes from the cloud.
        let orphan = try #require(try orphan())
        #expect(try catalog.read { try $0.outboxEntry(of: orphan) } != nil)
    }

    /// A document that the cloud has in the place of the draft that it once was, and nothing of it
    /// here; another draft, of which the cloud has nothing, is saved over it.
    private func saveOverMoved() throws -> (document: ItemID, draft: ItemID) {
        let document = try addSent("draft", "before", version: "1")
        let now = CatalogFixture.now
        try catalog.write { writer in
            _ = try writer.rename(
                document,
                to: Array("document".utf8),
                in: .root,
                replacing: nil,
                at: now,
                notBefore: now,
                settleTime: files.settleTime
            )
            try writer.dropContent(of: try writer.reader.existing(document))
        }
        let draft = try fixture.addFile("draft")
        try save(draft, over: document)
        return (document, draft)
    }

    @Test(arguments: [false, true])
    func `a document that the cloud has elsewhere is what it was`(isTaken: Bool) throws {
        let (document, draft) = try saveOverMoved()
        var next: ItemID?
        if isTaken {
            // A draft once more: what it replaces is the document's version, where that is.
            let id = try fixture.addFile("draft")
            try bench.write("next", to: id)
            try catalog.write { writer in
                _ = try writer.inheritBase(
                    id,
                    name: Array("draft".utf8),
                    in: .root,
                    notBefore: CatalogFixture.now,
                    settleTime: files.settleTime
                )
            }
            #expect(try catalog.read { try $0.base(of: id) }?.version.content == "1")
            next = id
        }
        let owner = next ?? document
        #expect(try catalog.read { try $0.previous(inCloudOf: owner) }.map(\.item) == [draft])
        try lose(draft)
        let record = try catalog.read { try $0.existing(draft) }
        #expect(record.item.content.cleanliness == .clean)
        #expect(record.item.content.residency == .placeholder)
        #expect(try catalog.read { try $0.base(of: draft) }?.version.content == "1")
        #expect(try nextStep(of: draft) == .move)
        #expect(try catalog.read { try $0.name(of: document) } == nil)
        if let next {
            #expect(try bench.text(of: next) == "next")
            #expect(try nextStep(of: next) == .waitFor(draft))
        }
    }

    /// As where nothing but copying and deleting moves an object, and the power fails in between.
    @Test func `a document that was being moved is what it was, and asked about`() throws {
        let (document, draft) = try saveOverMoved()
        let base = try #require(try catalog.read { try $0.base(of: document) })
        let name = Array("document".utf8)
        let move = SentRecord(of: document, to: .root, name, from: base, .move, document: .random())
        try catalog.write { try $0.note(move) }
        try lose(draft)
        let record = try catalog.read { try $0.existing(draft) }
        #expect(record.item.content.residency == .placeholder)
        #expect(try catalog.read { try $0.base(of: draft) }?.version.content == "1")
        #expect(try catalog.read { try $0.sent(of: draft) }?.isMove == true)
        #expect(try nextStep(of: draft) == .ask)
        #expect(try catalog.read { try $0.sent(of: document) } == nil)
    }

    /// The draft was being sent before it was written anew, and nobody heard what became of that.
    @Test func `what a draft may have become in the cloud is asked about`() throws {
        let document = try addSent("document", "before", version: "1")
        let draft = try addSent("draft", "draft", version: "2")
        let base = try catalog.read { try $0.base(of: draft) }
        let name = Array("draft".utf8)
        let sent = SentRecord(of: draft, to: .root, name, from: base, document: .random(), size: 5)
        try catalog.write { try $0.note(sent) }
        try save(draft, over: document)
        try lose(draft)
        #expect(try bench.text(of: draft) == "before")
        #expect(try catalog.read { try $0.base(of: draft) }?.version.content == "1")
        let other = try #require(try catalog.read { try $0.sent(to: name, in: .root) }).item
        #expect(other != draft)
        #expect(try nextStep(of: other) == .ask)
        #expect(try catalog.read { try $0.name(of: other) } == nil)
    }

    @Test func `what was saved is on the disk before the cloud loses what it replaced`() throws {
        let (document, draft) = try saveOverMoved()
        let file = try files.acquire(draft)
        file.state.withLock { $0.noteOpened(isWritable: true, at: CatalogFixture.now) }
        #expect(throws: CloudFSError.self) {
            try files.flushReplacing(whatCloudHasOf: document)
        }
        #expect(try catalog.read { try $0.allPrevious() }.count == 1)
        file.state.withLock { $0.writers -= 1 }
        try files.release(file)
        // The mark of a file of which the disk lost bytes.
        let path = try files.store.path(
            draft,
            catalog.read { try $0.existing(draft) }.item.content.generation
        )
        #expect(chmod(path, 0o700) == 0)
        #expect(throws: CloudFSError.self) {
            try files.flushReplacing(whatCloudHasOf: document)
        }
        #expect(try catalog.read { try $0.allPrevious() }.count == 1)
        #expect(chmod(path, 0o600) == 0)
        try files.flushReplacing(whatCloudHasOf: document)
        #expect(try catalog.read { try $0.allPrevious() } == [])
    }

    /// What the cloud has of it is the cloud's alone.
    @Test func `a draft that was excluded stays in the cloud`() throws {
        let document = try addSent("document", "before", version: "1")
        let draft = try addSent("draft", "draft", version: "2")
        try save(draft, over: document)
        try catalog.write { try $0.setPolicy(.excluded, of: draft) }
        try lose(draft)
        #expect(try catalog.read { try $0.base(of: draft) }?.version.content == "2")
        #expect(try orphan() == nil)
    }

    /// What was sent is whole there, whatever was to replace it.
    @Test func `a save that was sent is not given up for what it had replaced`() throws {
        let document = try addSent("document", "before", version: "1")
        let draft = try addSent("draft", "draft", version: "2")
        try save(draft, over: document)
        let file = try files.acquire(draft)
        let snapshot = try UploadSnapshot(of: file, in: files)
        #expect(snapshot.byteCount == 10)
        try files.release(file)
        try bench.write("more than afterwards", to: draft, emptying: true)
        try catalog.write { writer in
            let base = CatalogFixture.base(of: draft, named: "draft", version: "3")
            let expected = try writer.reader.base(of: draft)
            try writer.recordBase(base, replacing: expected, at: CatalogFixture.now)
        }
        try lose(draft)
        #expect(try catalog.read { try $0.base(of: draft) }?.version.content == "3")
        #expect(try bench.text(of: draft) == "afterwards")
    }
}
