import Testing

@testable import CloudFS

/// Rows of the outbox that wait because something else has a place in the cloud.
@Suite struct RefusedTests {
    private let fixture: CatalogFixture
    private static let now = CatalogFixture.now
    private static let later = now + .seconds(300)

    init() throws {
        fixture = try CatalogFixture()
    }

    private func ready() throws -> [ItemID] {
        try fixture.catalog.read { try $0.outbox(readyAt: Self.now, limit: 100).map(\.item) }
    }

    /// Makes a folder with a file in it, both of which were refused.
    private func addRefused(_ name: String) throws -> [ItemID] {
        try fixture.catalog.write { writer in
            let metadata = CatalogFixture.metadata
            let folder = try writer.insert(
                NewItem(container: ContainerID(1), kind: .folder, metadata: metadata),
                name: Array(name.utf8),
                in: .root,
                at: Self.now
            ).id
            let file = try writer.insert(
                NewItem(container: ContainerID(1), kind: .file, metadata: metadata),
                name: Array("file".utf8),
                in: folder,
                at: Self.now
            ).id
            for id in [folder, file] {
                try writer.enqueue(id, notBefore: Self.now)
                let error = CloudFSError(.exists, "its name is taken")
                try writer.recordFailure(
                    id,
                    error: error,
                    queuedBy: Self.now,
                    retryAt: Self.later
                )
            }
            return [folder, file]
        }
    }

    @Test(arguments: ["removed", "moved"])
    func `what has the place goes, and who waits for it is tried at once`(how: String) throws {
        let holder = try fixture.addFile("build.old")
        let base = CatalogFixture.base(of: holder, named: "build", version: "1")
        let waiting = try addRefused("build")
        _ = try addRefused("another")
        try fixture.catalog.write { try $0.setBase(base) }
        #expect(try ready().isEmpty)
        try fixture.catalog.write { writer in
            if how == "removed" { return try writer.removeBase(of: holder) }
            let moved = CatalogFixture.base(of: holder, named: "build.old", version: "1")
            _ = try writer.recordBase(moved, replacing: base, at: Self.now)
        }
        #expect(try ready() == waiting)
    }

    @Test func `a failure does not put off what was changed during the attempt`() throws {
        let id = try fixture.addFile("file")
        let error = CloudFSError(.denied, "not there")
        let next = Self.now + .seconds(2)
        for attempt in 1...2 {
            let outcome = try fixture.catalog.write { writer in
                try writer.enqueue(id, notBefore: attempt == 1 ? next : Self.now)
                try writer.recordFailure(
                    id,
                    error: error,
                    queuedBy: Self.now,
                    retryAt: Self.later
                )
                return try writer.reader.outboxEntry(of: id)
            }
            let entry = try #require(outcome)
            #expect(entry.notBefore == (attempt == 1 ? next : Self.later))
            #expect(entry.error?.code == .denied)
        }
    }

    @Test func `what is included again has all tried that was refused`() throws {
        let holder = try fixture.addFile("build.old")
        let waiting = try addRefused("build")
        try fixture.catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: holder, named: "build", version: "1"))
            try writer.enqueueChangedBelow(holder, notBefore: Self.later)
        }
        #expect(try ready() == waiting)
    }

    @Test func `who was put off is brought forward, unless it was changed since`() throws {
        let ids = try ["one", "two"].map { try fixture.addFile($0) }
        try fixture.catalog.write { writer in
            for id in ids {
                try writer.enqueue(id, notBefore: Self.now)
                try writer.postpone(id, until: Self.later)
            }
            try writer.enqueue(ids[1], notBefore: Self.now + .seconds(2))
            for id in ids { try writer.bringForward(id, putOffUntil: Self.later) }
        }
        #expect(try ready() == [ids[0]])
    }
}
