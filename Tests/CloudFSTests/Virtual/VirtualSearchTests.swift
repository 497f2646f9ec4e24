import CloudFSTestSupport
import GRDB
import Synchronization
import Testing

@testable import CloudFS

@Suite struct VirtualSearchTests {
    private let fixture: CatalogFixture
    private let folders = VirtualFolders(elapsed: { .zero })

    init() throws { fixture = try CatalogFixture() }

    private func find(_ text: String) throws -> VirtualNode? {
        try folders.find(
            try ItemName(text),
            in: .folder(.search),
            of: fixture.catalog
        ) { text throws(CloudFSError) in
            guard text != "wrong" else { throw CloudFSError(.invalidArgument, "no query") }
            return try QueryPlan(Query(condition: .everything)) { _ in nil }
        }
    }

    private func count() throws -> Int? {
        try fixture.catalog.read {
            try Int.fetchOne($0.database, sql: "SELECT count(*) FROM search")
        }
    }

    @Test func `a text that is no query is not written down`() throws {
        let failure = #expect(throws: CloudFSError.self) { try find("wrong") }
        #expect(failure?.code == .invalidArgument)
        #expect(try find("%zz") == nil)
        #expect(try count() == 0)
    }

    /// Whoever goes through a folder looks up each of its names after it was listed.
    @Test func `what takes long to find is not found anew for each of its names`() throws {
        let now = Mutex(Duration.zero)
        let slow = VirtualFolders(elapsed: { now.withLock { $0 } })
        let node = try #require(try find("known"))
        var count = 0
        func list() throws -> Int {
            _ = try slow.listing(of: node, in: fixture.catalog) { _ throws(CloudFSError) in
                count += 1
                now.withLock { $0 += .seconds(3) }
                return try QueryPlan(Query(condition: .everything)) { _ in nil }
            }
            return count
        }
        #expect(try list() == 1)
        #expect(try list() == 1)
        now.withLock { $0 += .seconds(2) }
        #expect(try list() == 1)
        now.withLock { $0 += .seconds(2) }
        #expect(try list() == 2)
    }

    @Test func `a catalog that cannot be written says so, and knows what it knew`() throws {
        let known = try find("known")
        try fixture.catalog.write {
            try $0.execute(
                """
                CREATE TRIGGER refuse BEFORE INSERT ON search
                BEGIN SELECT raise(ABORT, 'refused'); END
                """
            )
        }
        let failure = #expect(throws: CloudFSError.self) { try find("new") }
        #expect(failure?.code == .readOnly)
        #expect(try find("known") == known)
        #expect(try count() == 1)
    }
}
