import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Which of the files that are wanted are tried, after some could not be downloaded.
@Suite struct DownloadFailuresTests {
    private let fixture: CatalogFixture
    private var failures = DownloadFailures()
    private let full = CloudFSError(.diskFull, "no room")

    private var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
    }

    private func addWanted(_ name: String, size: Int64) throws -> ItemID {
        var new = NewItem(
            container: ContainerID(1),
            kind: .file,
            metadata: CatalogFixture.metadata
        )
        new.size = size
        return try catalog.write { writer in
            let id = try writer.insert(
                new,
                name: Array(name.utf8),
                in: .root,
                at: CatalogFixture.now
            ).id
            try writer.setWanted(true, of: id)
            return id
        }
    }

    /// - Returns: Whether it is worth telling.
    @discardableResult
    private mutating func note(
        _ error: CloudFSError,
        of id: ItemID,
        missing: Int64,
        at now: Duration
    ) -> Bool {
        let isNews = failures.note(error, of: id, missing: missing, at: now)
        return isNews
    }

    private func tried(at now: Duration, limit: Int = 100) throws -> [ItemID] {
        let waiting = failures.waiting(at: now)
        return try catalog.read {
            try $0.wantedFiles(
                limit: limit,
                without: waiting.items,
                missingLessThan: waiting.missing
            )
        }
    }

    @Test mutating func `where one has no room none that is as large is tried`() throws {
        let small = try addWanted("small", size: 10)
        let large = try addWanted("large", size: 100)
        let empty = try addWanted("empty", size: 0)
        let larger = try (0..<50).map { try addWanted("larger-\($0)", size: 100 + $0) }
        #expect(try tried(at: .zero).count == 53)
        let isNews1 = note(full, of: large, missing: 100, at: .zero)
        #expect(isNews1)
        #expect(try Set(tried(at: .seconds(29))) == [small, empty])
        let failed = try catalog.read { try failures.all($0) }
        #expect(Set(failed.keys) == Set(larger + [large]))
        #expect(failed.values.allSatisfy { $0.code == .diskFull })
        #expect(failures.error(of: larger[7], missing: 107)?.code == .diskFull)
        #expect(failures.error(of: small, missing: 10) == nil)
        #expect(failures.retryAt == .seconds(30))
        #expect(try tried(at: .seconds(30)).count == 53)
    }

    @Test mutating func `one that was fetched meanwhile does not let the larger ones be tried`()
        throws
    {
        let small = try addWanted("small", size: 10)
        let large = try addWanted("large", size: 100)
        note(full, of: small, missing: 10, at: .zero)
        // It had been begun before.
        let isNews2 = note(full, of: large, missing: 100, at: .seconds(1))
        #expect(!isNews2)
        #expect(try tried(at: .seconds(2)).isEmpty)
        // What was known long ago is no bound any more.
        note(full, of: large, missing: 100, at: .seconds(40))
        #expect(try tried(at: .seconds(41)) == [small])
    }

    @Test mutating func `what fails by itself waits alone`() throws {
        let files = try (0..<10).map { try addWanted("file-\($0)", size: 10) }
        let denied = CloudFSError(.denied, "not for you")
        let isNews3 = note(denied, of: files[0], missing: 10, at: .zero)
        #expect(isNews3)
        let isNews4 = note(denied, of: files[1], missing: 10, at: .seconds(1))
        #expect(isNews4)
        #expect(try tried(at: .seconds(2), limit: 3) == Array(files[2..<5]))
        #expect(failures.error(of: files[1], missing: 10)?.code == .denied)
        #expect(failures.error(of: files[2], missing: 10) == nil)
        #expect(failures.retryAt == .seconds(30))
        #expect(try tried(at: .seconds(30)).contains(files[0]))
        failures.forget(files[0])
        #expect(failures.retryAt == .seconds(31))
        note(full, of: files[2], missing: 10, at: .seconds(2))
        failures.forgetDue(at: .seconds(31))
        #expect(failures.retryAt == .seconds(32))
        failures.forgetDue(at: .seconds(32))
        #expect(failures.retryAt == nil)
        #expect(try catalog.read { try failures.all($0) }.isEmpty)
    }
}
