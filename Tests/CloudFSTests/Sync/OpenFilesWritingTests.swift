import Testing

@testable import CloudFS

/// Changes of content that others, or failures, come between.
@Suite struct OpenFilesWritingTests {
    private let fixture: CatalogFixture
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
    }

    // MARK: - Two at once

    /// What `meanwhile` does comes before the bytes reach the content that was chosen for them, or
    /// after that.
    private func write(
        _ file: OpenFile,
        at offset: Int64 = 0,
        before: () throws(CloudFSError) -> Void = {},
        after: () throws(CloudFSError) -> Void = {}
    ) throws {
        _ = try files.write(
            file,
            at: { _ in offset },
            count: 4,
            receive: { content, offset, count throws(CloudFSError) in
                try before()
                try content.write([1, 2, 3, 4][...], at: offset)
                try after()
                return count
            }
        )
    }

    private func expectTrueSize(of file: OpenFile, _ size: Int64) throws {
        try file.state.withLock { state throws(CloudFSError) in
            #expect(state.size == size)
            #expect(try files.content(of: &state, file.id).facts().size == size)
        }
        try files.release(file)
        #expect(try catalog.read { try $0.existing(file.id) }.item.size == size)
    }

    @Test(arguments: [true, false])
    func `a file that is emptied while it is written is as long as its bytes`(
        isBefore: Bool
    ) throws {
        let file = try files.acquire(try fixture.addFile("file"))
        try write(file)
        let empty = { () throws(CloudFSError) in _ = try files.truncate(file, to: 0) }
        if isBefore { try write(file, before: empty) } else { try write(file, after: empty) }
        try expectTrueSize(of: file, 0)
    }

    @Test(arguments: [true, false])
    func `a file that is cut in place while it is written is as long as its bytes`(
        isBefore: Bool
    ) throws {
        let file = try files.acquire(try fixture.addFile("file"))
        try write(file)
        let cut = { () throws(CloudFSError) in _ = try files.truncate(file, to: 1) }
        if isBefore { try write(file, before: cut) } else { try write(file, after: cut) }
        try expectTrueSize(of: file, isBefore ? 4 : 1)
    }

    @Test func `what was kept for content that was replaced since its flush stays`() throws {
        let id = try fixture.addFile("file")
        let file = try files.acquire(id)
        try write(file)
        try files.synchronize(file)
        let flushed = ContentName(item: id, generation: file.state.withLock { $0.generation })
        _ = try files.truncate(file, to: 0)
        try files.releasePrevious(of: flushed)
        #expect(try catalog.read { try $0.previous(of: id) } != nil)
        try files.synchronize(file)
        #expect(try catalog.read { try $0.previous(of: id) } == nil)
        try files.release(file)
    }
}
