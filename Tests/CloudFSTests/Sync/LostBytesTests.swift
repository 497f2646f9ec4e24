import Glibc
import Testing

@testable import CloudFS

/// What becomes of content of which the disk lost bytes.
@Suite struct LostBytesTests {
    private let fixture: CatalogFixture
    private var files: OpenFiles { fixture.files }

    init() throws {
        fixture = try CatalogFixture()
    }

    /// Marks content as a flush does that fails.
    private func tear(_ file: OpenFile) throws {
        let generation = file.state.withLock { $0.generation }
        #expect(chmod(files.store.path(file.id, generation), 0o700) == 0)
    }

    private func generation(_ file: OpenFile) throws -> Int64 {
        try fixture.catalog.read { try $0.existing(file.id) }.item.content.generation
    }

    private func written() throws -> OpenFile {
        let file = try files.acquire(try fixture.addFile("file"))
        try files.write([1, 2, 3, 4], to: file)
        return file
    }

    private func expectTorn(_ body: () throws -> Void) {
        let error = #expect(throws: CloudFSError.self) { try body() }
        #expect(error?.code == .corrupt && error?.message.contains("save the file anew") == true)
    }

    @Test func `every flush tells of it, and nothing sends it`() throws {
        let file = try written()
        try files.synchronize(file)
        try tear(file)
        for _ in 1...2 { expectTorn { try files.synchronize(file) } }
        expectTorn { _ = try UploadSnapshot(of: file, in: files) }
        // The mark is the content's own: it is there for whoever opens it next.
        try files.release(file)
        let again = try files.acquire(file.id)
        expectTorn { _ = try UploadSnapshot(of: again, in: files) }
        _ = try files.truncate(again, to: 0)
        try files.synchronize(again)
        _ = try UploadSnapshot(of: again, in: files)
        try files.release(again)
    }

    @Test func `content that is emptied in place has lost nothing`() throws {
        let file = try written()
        try tear(file)
        try file.state.withLock { state throws(CloudFSError) in
            let facts = try files.content(of: &state, file.id).facts()
            state.direct = OpenFile.DirectWriting(seen: facts, isUntouched: true)
        }
        let before = try generation(file)
        _ = try files.truncate(file, to: 0)
        #expect(try generation(file) == before)
        try files.synchronize(file)
        file.state.withLock { $0.direct = nil }
        try files.release(file)
    }

    /// Some of it was fetched and is not in the catalog yet.
    private func fetched(isDirty: Bool) throws -> OpenFile {
        let partial = try PartialFile(in: fixture, isDirty: isDirty)
        let file = try files.acquire(partial.id)
        _ = file.outcome(ofReading: 0..<1, in: files)
        try file.state.withLock { state throws(CloudFSError) in
            try files.content(of: &state, file.id).write([1, 2, 3, 4][...], at: 0)
            state.unstoredBytes = 4
        }
        try tear(file)
        return file
    }

    @Test func `what was fetched is dropped with its last use, to be fetched again`() throws {
        let file = try fetched(isDirty: false)
        try files.release(file)
        #expect(try generation(file) == 0)
        #expect(try fixture.catalog.read { try $0.ranges(of: file.id) }.isEmpty)
    }

    @Test func `what has changes stays as it is, and is said to be lost`() throws {
        let file = try fetched(isDirty: true)
        let before = try generation(file)
        expectTorn { try files.synchronize(file) }
        try files.release(file)
        #expect(try generation(file) == before)
    }
}
