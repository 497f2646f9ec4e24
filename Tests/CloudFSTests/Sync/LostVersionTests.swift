import Testing

@testable import CloudFS

/// Files that lack bytes of a version that the cloud does not have any more.
@Suite struct LostVersionTests {
    private let fixture: CatalogFixture
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
    }

    private func code(_ file: OpenFile, _ range: Range<Int64>) -> CloudFSError.Code? {
        guard case .failure(let error) = file.outcome(ofReading: range, in: files) else {
            return nil
        }
        return error.code
    }

    private func isHere(_ file: OpenFile, _ range: Range<Int64>) -> Bool {
        if case .success = file.outcome(ofReading: range, in: files) { true } else { false }
    }

    /// What is read of a file that nobody had open since.
    private func expectLost(_ partial: PartialFile) throws {
        let file = try files.acquire(partial.id)
        #expect(code(file, PartialFile.absent) == .remoteChanged)
        #expect(isHere(file, PartialFile.own))
        #expect(file.state.withLock { $0.plan?.isComplete } == false)
        try files.release(file)
        #expect(try partial.record.item.content.residency == .partial)
        #expect(try partial.record.isBaseLost)
    }

    @Test(arguments: [true, false])
    func `absent bytes of a version that is gone are an error and no zeros`(
        isDirty: Bool
    ) throws {
        let partial = try PartialFile(in: fixture, isDirty: isDirty)
        try catalog.write { try $0.removeBase(of: partial.id) }
        try expectLost(partial)
    }

    @Test func `bytes of another version do not take the place of absent ones`() throws {
        let partial = try PartialFile(in: fixture)
        try catalog.write { writer in
            try writer.removeBase(of: partial.id)
            try writer.setBase(PartialFile.base(of: partial.id, named: "doc", version: "2"))
        }
        try expectLost(partial)
    }

    /// As `keep-this` ends a conflict.
    @Test func `a file that takes the place of the winner keeps its holes`() throws {
        let partial = try PartialFile(in: fixture, named: "copy")
        let winner = try fixture.addFile("doc")
        try catalog.write { writer in
            try writer.removeBase(of: partial.id)
            try writer.setBase(PartialFile.base(of: winner, named: "doc", version: "2"))
            _ = try writer.rename(
                partial.id,
                to: Array("doc".utf8),
                in: .root,
                replacing: winner,
                at: CatalogFixture.now,
                notBefore: CatalogFixture.now,
                settleTime: files.settleTime
            )
        }
        #expect(try catalog.read { try $0.base(of: partial.id) }?.version.content == "2")
        try expectLost(partial)
    }

    @Test func `own bytes behind the end of the version are there`() throws {
        let partial = try PartialFile(in: fixture)
        let end = PartialFile.size
        let file = try files.acquire(partial.id)
        try file.state.withLock { state throws(CloudFSError) in
            try files.content(of: &state, partial.id).truncate(to: end + 4096)
            state.size = end + 4096
            state.hasUnsavedChange = true
        }
        try files.release(file)
        try catalog.write { try $0.removeBase(of: partial.id) }
        let again = try files.acquire(partial.id)
        #expect(isHere(again, end..<end + 4096))
        #expect(code(again, end - 4096..<end + 4096) == .remoteChanged)
        try files.release(again)
    }

    @Test func `a file of which nothing is lacking any more can be sent`() throws {
        let partial = try PartialFile(in: fixture)
        try catalog.write { try $0.removeBase(of: partial.id) }
        let file = try files.acquire(partial.id)
        _ = try files.truncate(file, to: PartialFile.own.upperBound)
        #expect(file.state.withLock { $0.plan?.isComplete } == true)
        _ = try files.truncate(file, to: 0)
        try files.release(file)
        #expect(try partial.record.item.content.residency == .resident)
        #expect(try !partial.record.isBaseLost)
    }

    /// As a save does whose program meets the old file a moment later.
    @Test func `a placeholder whose base was handed on has no bytes`() throws {
        let id = try placeholder()
        try catalog.write { try $0.removeBase(of: id) }
        let file = try files.acquire(id)
        #expect(code(file, 0..<4096) == .remoteChanged)
        try expectNoContent(file)
    }

    @Test func `an open placeholder that is deleted in the cloud has no bytes`() throws {
        let id = try placeholder()
        let file = try files.acquire(id)
        try catalog.write { try $0.removeBase(of: id) }
        file.state.withLock { $0.loseBase() }
        try expectNoContent(file)
    }

    private func placeholder() throws -> ItemID {
        let id = try fixture.addFile("doc")
        try catalog.write { writer in
            try writer.setSize(PartialFile.size, of: id)
            try writer.setBase(PartialFile.base(of: id, named: "doc", version: "1"))
        }
        return id
    }

    private func expectNoContent(_ file: OpenFile) throws {
        let error = #expect(throws: CloudFSError.self) {
            try file.state.withLock { state throws(CloudFSError) in
                _ = try files.content(of: &state, file.id)
            }
        }
        #expect(error?.code == .remoteChanged)
        try files.release(file)
        #expect(try catalog.read { try $0.existing(file.id) }.item.content.generation == 0)
    }
}
