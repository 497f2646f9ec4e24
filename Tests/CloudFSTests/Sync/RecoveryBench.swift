import CloudFSTestSupport
import Glibc
import Logging
import Testing

@testable import CloudFS

/// A state directory whose disk fails, and what the next start makes of it.
struct RecoveryBench {
    let fixture: CatalogFixture
    var files: OpenFiles { fixture.files }
    var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
        try recover()
    }

    func recover() throws {
        try Recovery(files: files, logger: Logger(label: "recovery")).run()
    }

    /// Has the next start find a disk that was mounted anew.
    func failPower() throws {
        try catalog.write { try $0.setSetting("mounting", to: "another one") }
    }

    func write(_ text: String, to id: ItemID, emptying: Bool = false) throws {
        let file = try files.acquire(id)
        if emptying { _ = try files.truncate(file, to: 0) }
        try files.write(Array(text.utf8), to: file)
        try files.release(file)
    }

    /// Cuts a content file, as if the disk had never got the rest.
    func cut(_ id: ItemID, to size: Int) throws {
        let generation = try catalog.read { try $0.existing(id) }.item.content.generation
        #expect(truncate(files.store.path(id, generation), off_t(size)) == 0)
    }

    /// Makes a hole in a content file, as if the disk had got the length, and not these bytes.
    func punch(_ range: Range<Int64>, in id: ItemID) throws {
        let generation = try catalog.read { try $0.existing(id) }.item.content.generation
        let content = try files.store.open(id, generation: generation)
        try content.allocate(
            mode: AllocationMode.punchHole.rawValue,
            offset: range.lowerBound,
            count: Int64(range.count)
        )
    }

    func text(of id: ItemID) throws -> String {
        let record = try catalog.read { try $0.existing(id) }
        let content = try files.store.open(id, generation: record.item.content.generation)
        let bytes = try content.read(at: 0, count: 1000)
        #expect(bytes.count == Int(record.item.size))
        return String(decoding: bytes, as: UTF8.self)
    }
}
