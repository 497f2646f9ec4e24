import GRDB
import Testing

@testable import CloudFS

/// Files in use that give room back.
@Suite struct OpenFilesThinningTests {
    private let fixture: CatalogFixture
    private var files: OpenFiles { fixture.files }
    private var catalog: Catalog { fixture.catalog }
    private static let filled: Range<Int64> = 0..<512 << 10

    init() throws {
        fixture = try CatalogFixture()
    }

    /// A file in use of which the first half is here, as the catalog knows too.
    private func half(isDirty: Bool = false) throws -> OpenFile {
        let partial = try PartialFile(in: fixture, isDirty: isDirty)
        let bytes = [UInt8](repeating: 7, count: Self.filled.count)
        try files.store.open(partial.id, generation: 1).write(bytes[...], at: 0)
        try catalog.write {
            try $0.setRanges([Self.filled], of: partial.id, localBytes: Int64(bytes.count))
        }
        let file = try files.acquire(partial.id)
        _ = file.outcome(ofReading: 0..<1, in: files)
        return file
    }

    private func allocated(_ file: OpenFile) throws -> Int64 {
        try files.store.open(file.id, generation: 1).facts().allocated
    }

    private func known(_ file: OpenFile) throws -> [Range<Int64>] {
        try catalog.read { try $0.ranges(of: file.id) }
    }

    @Test func `what is dropped is on no disk, in no catalog and not taken for here`() throws {
        let file = try half()
        let before = try allocated(file)
        let thinned = try files.thin(file, by: 100_000)
        #expect(thinned.byteCount == 102_400)
        #expect(try allocated(file) == before - 102_400)
        #expect(try known(file) == [102_400..<Self.filled.upperBound])
        #expect(file.outcome(ofReading: 102_399..<102_401, in: files) == nil)
        if case .failure(let error) = file.outcome(ofReading: 102_400..<102_500, in: files) {
            throw error
        }
        try files.release(file)
        #expect(try catalog.read { try $0.localBytes() } == before - 102_400)
    }

    @Test func `what is on its way to a program stays until it is there`() throws {
        let file = try half()
        var held: HeldRange? = file.state.withLock { _ in HeldRange(4096..<8192, of: file) }
        #expect(try files.thin(file, by: .max / 2).byteCount == Int64(Self.filled.count) - 4096)
        #expect(try known(file) == [4096..<8192])
        withExtendedLifetime(held) {}
        held = nil
        #expect(try files.thin(file, by: .max / 2).byteCount == 4096)
        #expect(try known(file).isEmpty)
    }

    @Test func `what was changed here stays`() throws {
        let file = try half(isDirty: true)
        #expect(try files.thin(file, by: 1).byteCount == 0)
    }

    @Test func `what is pinned stays`() throws {
        let file = try half()
        try catalog.write { try $0.setPolicy(.pinned, of: file.id) }
        #expect(try files.thin(file, by: 1).byteCount == 0)
    }

    /// An earlier worker may have let the kernel at it, and died before it was stored as resident.
    @Test func `what programs may have mapped stays`() throws {
        let file = try half()
        #expect(try files.thin(file, by: 1).byteCount == 4096)
        try files.store.open(file.id, generation: 1).noteShown()
        #expect(try files.thin(file, by: 1).byteCount == 0)
    }

    @Test func `a version that the cloud may not have any more stays`() throws {
        let file = try half()
        file.state.withLock { $0.hasNewer = true }
        #expect(try files.thin(file, by: 1).byteCount == 0)
        file.state.withLock { $0.hasNewer = false }
        #expect(try files.thin(file, by: 1).byteCount == 4096)
    }

    @Test func `what the kernel reads by itself, has no name or comes whole stays`() throws {
        let file = try half()
        let changes: [(inout OpenFile.State, Bool) -> Void] = [
            { $0.backing = $1 ? 1 : nil }, { $0.isUnlinked = $1 }, { $0.completers = $1 ? 1 : 0 },
        ]
        for change in changes {
            file.state.withLock { change(&$0, true) }
            #expect(try files.thin(file, by: 1).byteCount == 0)
            file.state.withLock { change(&$0, false) }
            #expect(try files.thin(file, by: 1).byteCount == 4096)
        }
    }

    @Test func `what was not stored is counted once, and stored with the last use`() throws {
        let file = try half()
        let more = Self.filled.upperBound..<Self.filled.upperBound + 65_536
        file.state.withLock { state in
            state.plan?.present.insert(more)
            state.unstoredBytes = 65_536
        }
        #expect(try files.thin(file, by: 4096).byteCount == 4096)
        #expect(file.state.withLock { $0.unstoredBytes } == 65_536)
        #expect(try catalog.read { try $0.localBytes() } == Int64(Self.filled.count) - 4096)
        try files.release(file)
        #expect(try known(file) == [4096..<more.upperBound])
    }

    @Test func `what is written again and again takes room once`() throws {
        let file = try half()
        file.state.withLock { state in
            state.plan?.present.insert(Self.filled.upperBound..<Self.filled.upperBound + 4096)
            state.unstoredBytes = 1 << 40
        }
        #expect(files.partialBytes.unstored == 4096)
        file.state.withLock { $0.unstoredBytes = 1024 }
        #expect(files.partialBytes.unstored == 1024)
    }

    @Test func `what is open for writing may be written, and nothing else`() throws {
        let file = try half()
        #expect(!files.mayBeWritten)
        file.state.withLock { $0.writers = 1 }
        #expect(files.mayBeWritten)
    }

    @Test func `what the catalog cannot be told of is not dropped`() throws {
        let file = try half()
        let before = try allocated(file)
        try catalog.write { try $0.database.execute(sql: "DROP TABLE range") }
        #expect(throws: CloudFSError.self) { try files.thin(file, by: 1) }
        #expect(try allocated(file) == before)
        if case .failure(let error) = file.outcome(ofReading: Self.filled, in: files) {
            throw error
        }
    }
}
