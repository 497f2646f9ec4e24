import CloudFSTestSupport
import Glibc
import Logging
import Testing

@testable import CloudFS

/// A draft that the cloud has is written anew and saved over a document, and the power fails before
/// any of that is on the disk.
@Suite struct RecoveryDraftTests {
    private let fixture: CatalogFixture
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
        try recover()
    }

    private func recover() throws {
        try Recovery(files: files, logger: Logger(label: "recovery")).run()
    }

    private func write(_ text: String, to id: ItemID, emptying: Bool = false) throws {
        let file = try files.acquire(id)
        if emptying { _ = try files.truncate(file, to: 0) }
        let bytes = Array(text.utf8)
        _ = try files.write(
            file,
            at: { _ in 0 },
            count: bytes.count,
            receive: { content, offset, count throws(CloudFSError) in
                try content.write(bytes[...], at: offset)
                return count
            }
        )
        try files.release(file)
    }

    /// Adds a file that the cloud has.
    private func addSent(_ name: String, _ text: String, version: String) throws -> ItemID {
        let id = try fixture.addFile(name)
        try write(text, to: id)
        try catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: id, named: name, version: version))
            try writer.markClean(id)
        }
        return id
    }

    private func save(_ draft: ItemID, over document: ItemID) throws {
        try write("afterwards", to: draft, emptying: true)
        try catalog.write { writer in
            _ = try writer.rename(
                draft,
                to: Array("document".utf8),
                in: .root,
                replacing: document,
                at: CatalogFixture.now,
                notBefore: CatalogFixture.now
            )
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

    @Test(arguments: [true, false])
    func `the document is what it was, not what the draft was`(isHere: Bool) throws {
        let document = try addSent("document", "before", version: "1")
        if !isHere {
            try catalog.write { writer in
                try writer.dropContent(of: try writer.reader.existing(document))
            }
        }
        let draft = try addSent("draft", "draft", version: "2")
        try save(draft, over: document)
        try catalog.write { _ = try $0.eraseIfForgotten(document) }
        let written = try catalog.read { try $0.existing(draft) }.item.content.generation
        #expect(truncate(files.store.path(draft, written), 0) == 0)
        try catalog.write { try $0.setSetting("mounting", to: "another one") }
        try recover()

        let record = try catalog.read { try $0.existing(draft) }
        #expect(record.item.content.cleanliness == .clean)
        #expect(record.item.content.residency == (isHere ? .resident : .placeholder))
        if isHere {
            let content = try files.store.open(draft, generation: record.item.content.generation)
            let bytes = try content.read(at: 0, count: 100)
            #expect(String(decoding: bytes, as: UTF8.self) == "before")
        }
        // What is fetched, or sent over, is the document of the cloud.
        let base = try #require(try catalog.read { try $0.base(of: draft) })
        #expect(base.version.content == "1")
        #expect(base.name == Array("document".utf8))
        // The draft has no name any more, and goes from the cloud.
        let left = try catalog.read { try $0.base(named: Array("draft".utf8), in: .root) }
        let orphan = try #require(left?.item)
        #expect(try catalog.read { try $0.name(of: orphan) } == nil)
        #expect(try catalog.read { try $0.outboxEntry(of: orphan) } != nil)
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
        try write("more than afterwards", to: draft, emptying: true)
        try catalog.write { writer in
            let base = CatalogFixture.base(of: draft, named: "draft", version: "3")
            let expected = try writer.reader.base(of: draft)
            try writer.recordBase(base, replacing: expected, at: CatalogFixture.now)
        }
        let written = try catalog.read { try $0.existing(draft) }.item.content.generation
        #expect(truncate(files.store.path(draft, written), 0) == 0)
        try catalog.write { try $0.setSetting("mounting", to: "another one") }
        try recover()

        let base = try catalog.read { try $0.base(of: draft) }
        #expect(base?.version.content == "3")
        let record = try catalog.read { try $0.existing(draft) }
        if record.item.content.residency == .resident {
            let content = try files.store.open(draft, generation: record.item.content.generation)
            let bytes = try content.read(at: 0, count: 100)
            #expect(String(decoding: bytes, as: UTF8.self) == "afterwards")
        }
    }
}
