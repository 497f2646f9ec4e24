import CloudFSTestSupport
import Glibc
import Logging
import Synchronization
import Testing

@testable import CloudFS

/// What is unlinked and stored later, on a disk that refuses some of it.
@Suite struct SweeperTests {
    private let fixture: CatalogFixture
    private var catalog: Catalog { fixture.catalog }

    private final class Count: Sendable {
        let value = Mutex(0)
    }

    init() throws {
        fixture = try CatalogFixture()
    }

    // MARK: - Unlinking

    /// Makes content that nothing names any more.
    private func discard(_ name: String) throws -> ContentName {
        let id = try fixture.addFile(name)
        _ = try fixture.files.store.create(id, generation: 7, size: 4)
        try catalog.write { writer in
            try writer.setContent(of: id, generation: 7, residency: .resident)
            try writer.dropContent(of: writer.reader.existing(id))
        }
        return ContentName(item: id, generation: 7)
    }

    private func path(of name: ContentName) -> String {
        fixture.files.store.path(name.item, name.generation)
    }

    private func exists(_ name: ContentName) -> Bool {
        access(path(of: name), F_OK) == 0
    }

    /// Puts something in its place that cannot be unlinked.
    private func hold(_ name: ContentName) {
        #expect(unlink(path(of: name)) == 0)
        #expect(mkdir(path(of: name), 0o700) == 0)
    }

    @Test func `a content file that cannot be unlinked keeps no other`() throws {
        let held = try discard("held")
        let free = try discard("free")
        hold(held)
        #expect(throws: CloudFSError.self) { try Sweeper.sweep(fixture.files) }
        #expect(!exists(free))
        #expect(try catalog.read { try $0.discarded() } == [held])
        #expect(rmdir(path(of: held)) == 0)
        try Sweeper.sweep(fixture.files)
        #expect(try catalog.read { try $0.discarded() } == [])
    }

    // MARK: - Storing

    /// Has the catalog refuse to store how long a file is.
    private func refuse() throws {
        try catalog.write {
            try $0.execute(
                """
                CREATE TRIGGER refuse BEFORE UPDATE OF size ON item
                BEGIN SELECT raise(ABORT, 'refused'); END
                """
            )
        }
    }

    private func allow() throws {
        try catalog.write { try $0.execute("DROP TRIGGER refuse") }
    }

    /// Writes to a file, and lets go of it, which cannot be stored.
    private func leaveUnsettled(in files: OpenFiles) throws -> ItemID {
        let file = try files.acquire(try fixture.addFile("unsettled"))
        try files.write([1, 2, 3, 4], to: file)
        #expect(throws: CloudFSError.self) { try files.release(file) }
        return file.id
    }

    private func isRaised(within limit: Duration) async -> Bool {
        let begin = ContinuousClock.now
        await catalog.leftovers.wait(atMost: limit)
        return ContinuousClock.now - begin < limit
    }

    private func size(of id: ItemID) throws -> Int64 {
        try catalog.read { try $0.existing(id) }.item.size
    }

    @Test func `what cannot be stored once more wakes nobody`() async throws {
        let files = fixture.files
        try refuse()
        let id = try leaveUnsettled(in: files)
        let isRaisedOnce = await isRaised(within: .seconds(30))
        #expect(isRaisedOnce)
        #expect(throws: CloudFSError.self) { try files.settleAgain() }
        let isRaisedAgain = await isRaised(within: .milliseconds(300))
        #expect(!isRaisedAgain)
        try allow()
        try files.settleAgain()
        #expect(files.live(id) == nil)
        #expect(try size(of: id) == 4)
    }

    @Test func `what cannot be stored is tried seldom, and all else is done meanwhile`()
        async throws
    {
        let tries = Count()
        let clocks = Clocks(
            now: {
                tries.value.withLock { $0 += 1 }
                return Clocks.system.now()
            },
            elapsed: Clocks.system.elapsed
        )
        let files = OpenFiles(
            catalog: catalog,
            store: fixture.files.store,
            clocks: clocks,
            hydration: HydrationSettings(policy: .partial),
            quietTime: .zero
        )
        try refuse()
        let id = try leaveUnsettled(in: files)
        let discarded = try discard("discarded")
        tries.value.withLock { $0 = 0 }
        let pool = BlockingPool(name: "sweep", width: 1)
        let sweeper = Sweeper(files: files, pool: pool, logger: Logger(label: "sweep"))
        let sweeping = Task { await sweeper.run() }
        defer { sweeping.cancel() }
        try await eventually("the other content is unlinked") { !exists(discarded) }
        try await Task.sleep(for: .seconds(1))
        let count = tries.value.withLock { $0 }
        #expect((1...50).contains(count), "\(count) tries")
        try allow()
        try await eventually("it is stored") { try size(of: id) == 4 }
    }

    @Test func `pauses begin with a quarter of a second and grow to half a minute`() throws {
        var pauses = Sweeper.Pauses()
        var now = Duration.seconds(5)
        #expect(pauses.left(at: now) == nil)
        #expect(pauses.isDue(at: now))
        pauses.note(isFailure: true, at: now)
        #expect(!pauses.isDue(at: now + .milliseconds(100)))
        var waits: [Duration] = []
        for _ in 1...9 {
            let left = try #require(pauses.left(at: now))
            waits.append(left)
            now += left
            #expect(pauses.isDue(at: now))
            pauses.note(isFailure: true, at: now)
        }
        #expect(waits.prefix(3) == [.milliseconds(250), .milliseconds(500), .seconds(1)])
        #expect(waits.last == .seconds(30))
        pauses.note(isFailure: false, at: now)
        #expect(pauses.left(at: now) == nil)
    }

    @Test func `a pause is not longer for what was tried early`() {
        var pauses = Sweeper.Pauses()
        pauses.note(isFailure: true, at: .zero)
        for number in 1...20 {
            pauses.note(isFailure: true, at: .milliseconds(50 * number))
        }
        #expect(pauses.left(at: .seconds(1)) == .milliseconds(250))
    }
}
