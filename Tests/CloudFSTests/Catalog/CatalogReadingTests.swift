import CloudFSTestSupport
import Dispatch
import GRDB
import GRDBSQLite
import Testing

@testable import CloudFS

/// Reads beside transactions.
@Suite struct CatalogReadingTests {
    @Test(arguments: [true, false])
    func `few rows are read at once while somebody writes for long`(isMarked: Bool) async throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        let catalog = fixture.catalog
        func size() throws -> Int64 { try catalog.readFew { try $0.existing(id).item.size } }
        #expect(try size() == 0)
        let pool = BlockingPool(name: "writer", width: 1)
        let (hasBegun, mayEnd) = (Signal(), DispatchSemaphore(value: 0))
        async let writing: Void = pool.run {
            try catalog.write(isLong: isMarked) { writer in
                try writer.setSize(7, of: id)
                hasBegun.raise()
                mayEnd.wait()
            }
        }
        await hasBegun.wait()
        while !catalog.isBusy { await Task.yield() }
        #expect(try size() == 0)
        mayEnd.signal()
        try await writing
        #expect(!catalog.isBusy)
        #expect(try size() == 7)
    }

    @Test func `no other process opens a catalog that is in use`() async throws {
        let fixture = try CatalogFixture()
        let path = fixture.directory.path("catalog.sqlite")
        let query = "SELECT count(*) FROM item"
        let other = try await Shell.run(["sqlite3", path, query])
        #expect(other.status != 0 && other.errors.contains("database is locked"))
        #expect(!fixture.directory.exists("catalog.sqlite-shm"))
        // What is committed is there for connections of this process, and for others afterwards.
        _ = try fixture.addFile("file")
        #expect(try fixture.catalog.read { try $0.child(Array("file".utf8), of: .root) } != nil)
        try fixture.catalog.close()
        #expect(try await Shell.run(["sqlite3", path, query]).output == "2\n")
    }

    @Test func `sizes that no number can add up are summed all the same`() throws {
        let fixture = try CatalogFixture()
        let ids = try ["one", "two", "three"].map { try fixture.addFile($0) }
        try fixture.catalog.write { writer in
            for id in ids.prefix(2) { try writer.setSize(.max, of: id) }
            try writer.setSize(7, of: ids[2])
        }
        let (all, one) = try fixture.catalog.read { reader in
            (try reader.totals(below: .root), try reader.totals(below: ids[2]))
        }
        #expect(all.files == 3 && all.bytes == .max)
        #expect(one.bytes == 7)
    }

    @Test func `what is very deep is reached, and has the policy of the first folder`() throws {
        let fixture = try CatalogFixture()
        let (last, ties) = try fixture.catalog.write { writer in
            var folder = ItemID.root
            let new = NewItem(
                container: ContainerID(1),
                kind: .folder,
                metadata: CatalogFixture.metadata
            )
            for depth in 0..<10_500 {
                folder = try writer.insert(
                    new,
                    name: Array("f".utf8),
                    in: folder,
                    at: CatalogFixture.now
                ).id
                if depth == 0 { try writer.setPolicy(.excluded, of: folder) }
            }
            return (folder, try writer.reader.ties(of: folder))
        }
        #expect(ties.isReachable && ties.isExcluded)
        #expect(try fixture.catalog.read { try $0.isInside(last, of: .root) })
    }

    /// As only damage makes it.
    @Test func `folders in a circle are not reached`() throws {
        let fixture = try CatalogFixture()
        let ties = try fixture.catalog.write { writer in
            let new = NewItem(
                container: ContainerID(1),
                kind: .folder,
                metadata: CatalogFixture.metadata
            )
            func add(_ name: String, in parent: ItemID) throws -> ItemID {
                let name = Array(name.utf8)
                return try writer.insert(new, name: name, in: parent, at: CatalogFixture.now).id
            }
            let above = try add("above", in: .root)
            let below = try add("below", in: above)
            try writer.moveName(of: above, to: Array("above".utf8), in: below)
            return try writer.reader.ties(of: below)
        }
        #expect(!ties.isReachable && !ties.isExcluded)
    }

    @Test(arguments: FolderOrder.allCases)
    func `what follows a file costs the same in a large folder`(order: FolderOrder) throws {
        let fixture = try CatalogFixture()
        let ids = try (1_000..<2_000).map { try fixture.addFile("file\($0)") }
        let (few, many, found) = try fixture.catalog.read { reader in
            var found: [SiblingRecord] = []
            let few = try Self.steps(on: reader.database) {
                found = try reader.files(after: ids[989], order: order, limit: 8)
            }
            let many = try Self.steps(on: reader.database) {
                found += try reader.files(after: ids[0], order: order, limit: 8)
            }
            return (few, many, found)
        }
        #expect(found.map(\.id) == Array(ids[990...997] + ids[1...8]))
        #expect(many <= 2 * few, "\(many) steps, and \(few) near the end")
    }

    /// How many instructions SQLite's machine takes, by tens.
    private static func steps(on database: Database, _ body: () throws -> Void) rethrows -> Int {
        var count = 0
        try withUnsafeMutablePointer(to: &count) { count in
            let connection = database.sqliteConnection
            sqlite3_progress_handler(connection, 10, { CatalogReadingTests.count($0) }, count)
            defer { sqlite3_progress_handler(connection, 0, nil, nil) }
            try body()
        }
        return count
    }

    private static func count(_ counter: UnsafeMutableRawPointer?) -> CInt {
        counter?.assumingMemoryBound(to: Int.self).pointee += 1
        return 0
    }

    @Test(.timeLimit(.minutes(10)))
    func `memory is given back beside readers and a writer`() async throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        let catalog = fixture.catalog
        // More than there are connections to read with.
        let pool = BlockingPool(name: "releasing", width: 12)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<12 {
                group.addTask {
                    try await pool.run {
                        for step in 0..<200 {
                            switch number {
                            case 0, 2: try catalog.releaseMemory()
                            case 1:
                                try catalog.write { writer in
                                    try writer.setLastUsed(
                                        Timestamp(nanoseconds: Int64(step)),
                                        accessed: nil,
                                        of: id
                                    )
                                }
                            default: #expect(try catalog.read { try $0.item(id) } != nil)
                            }
                        }
                    }
                }
            }
            try await group.waitForAll()
        }
        try catalog.close()
        #expect(throws: CloudFSError.self) { try catalog.releaseMemory() }
    }

    @Test(.timeLimit(.minutes(10)))
    func `closing waits for who reads, twice is like once, and later reads fail`() async throws {
        let pool = BlockingPool(name: "closing", width: 3)
        for _ in 0..<20 {
            let fixture = try CatalogFixture()
            let id = try fixture.addFile("file")
            let catalog = fixture.catalog
            let (hasBegun, mayEnd) = (Signal(), DispatchSemaphore(value: 0))
            async let reading = pool.run {
                try catalog.read { reader in
                    hasBegun.raise()
                    mayEnd.wait()
                    return try reader.existing(id).item.size
                }
            }
            await hasBegun.wait()
            async let closing: Void = pool.run { try catalog.close() }
            async let again: Void = pool.run { try catalog.close() }
            mayEnd.signal()
            #expect(try await reading == 0)
            _ = try await (closing, again)
            #expect(throws: CloudFSError.self) { try catalog.read { try $0.item(id) } }
            #expect(throws: CloudFSError.self) { try catalog.readFew { try $0.item(id) } }
        }
    }
}
