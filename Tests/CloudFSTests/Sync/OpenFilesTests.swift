import CloudFSTestSupport
import Glibc
import Synchronization
import Testing

@testable import CloudFS

@Suite struct OpenFilesTests {
    @Test func `pages of a content that was replaced are not those of the new one`() throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        try fixture.catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: id, named: "file", version: "1"))
        }
        let file = try fixture.files.acquire(id)
        file.state.withLock { state in
            _ = fixture.files.caches.noteOpened(id, by: 1)
            fixture.files.caches.noteUsed(id, by: 1)
            _ = fixture.files.reload(&state, id)
            #expect(!fixture.files.caches.noteOpened(id, by: 1))
        }
        try fixture.files.release(file)
    }

    /// What ends the fetches of a version that was replaced may be done once others have begun.
    @Test func `no fetch of a content has the number of one of the content before`() throws {
        let fixture = try CatalogFixture()
        let file = try fixture.files.acquire(try PartialFile(in: fixture, isDirty: false).id)
        func requests() -> Set<HydrationPlan.RequestID> {
            let actions = file.read(PartialFile.absent, in: fixture.files).actions
            return actions.reduce(into: []) { numbers, action in
                if case .fetch(let number, _) = action { numbers.insert(number) }
            }
        }
        let before = requests()
        file.state.withLock { state in _ = fixture.files.reload(&state, file.id) }
        let after = requests()
        #expect(!before.isEmpty && !after.isEmpty && before.isDisjoint(with: after))
        try fixture.files.release(file)
    }

    /// As after an eviction: nobody could take what comes, and who opens it then would wait for it.
    @Test func `nothing is begun for a file that has no content yet`() throws {
        let fixture = try CatalogFixture(hydration: HydrationSettings(policy: .full))
        let id = try fixture.addFile("file")
        try fixture.catalog.write { writer in
            try writer.setBase(PartialFile.base(of: id, named: "file", version: "1"))
        }
        let file = try fixture.files.acquire(id)
        file.state.withLock { state in
            #expect(state.generation == 0 && state.plan != nil)
            let now = fixture.files.clocks.elapsed()
            #expect(fixture.files.handle(.expireStalled(.timedOut), &state, now).isEmpty)
            state.generation = 1
            #expect(!fixture.files.handle(.expireStalled(.timedOut), &state, now).isEmpty)
            state.generation = 0
        }
        try fixture.files.release(file)
    }

    /// Its mapping may outlive the descriptor that it was made of, and nobody hears of that.
    @Test func `what could be mapped for writing counts as written until nobody has it open`() {
        var state = OpenFile.State()
        state.handles = 1
        #expect(state.isInUse && !state.isBeingWritten)
        let facts = ContentFile.Facts(
            size: 0,
            allocated: 0,
            modified: CatalogFixture.now,
            changed: CatalogFixture.now
        )
        state.direct = OpenFile.DirectWriting(seen: facts, isUntouched: true)
        #expect(!state.isBeingWritten)
        state.direct?.isMappable = true
        #expect(state.isBeingWritten)
        state.handles = 0
        #expect(state.isInUse)
    }

    /// The kernel tells times by a clock that may be ticks behind ours.
    @Test func `what a program wrote itself shows as a later change than all before`() throws {
        let fixture = try CatalogFixture()
        let file = try fixture.files.acquire(try fixture.addFile("file"))
        try file.state.withLock { state throws(CloudFSError) in
            _ = try fixture.files.prepareToWrite(&state, file.id)
            let content = try fixture.files.content(of: &state, file.id)
            state.direct = OpenFile.DirectWriting(seen: try content.facts(), isUntouched: true)
            let told = fixture.files.clocks.now() + .milliseconds(500)
            state.changed = told
            try content.write([1, 2, 3, 4][...], at: 0)
            try fixture.files.observe(&state, file.id)
            #expect(state.size == 4)
            #expect(state.changed > told)
            let observed = state.changed
            try fixture.files.observe(&state, file.id)
            #expect(state.changed == observed)
            state.direct = nil
        }
        try fixture.files.release(file)
    }

    @Test func `of two who let go of a file at once one stores its state`() async throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        for round in 1...500 {
            let moment = Timestamp(nanoseconds: Int64(round) * 1_000_000_000)
            let first = try fixture.files.acquire(id)
            let second = try fixture.files.acquire(id)
            try first.state.withLock { state throws(CloudFSError) in
                _ = try fixture.files.prepareToWrite(&state, id)
            }
            try fixture.files.setModified(moment, of: first)
            let pool = BlockingPool(name: "two", width: 2)
            async let one: Void = pool.run { try fixture.files.release(first) }
            async let other: Void = pool.run { try fixture.files.release(second) }
            _ = try await (one, other)
            let record = try fixture.catalog.read { try $0.existing(id) }
            let generation = record.item.content.generation
            let content = try fixture.files.store.open(id, generation: generation)
            #expect(try content.facts().modified == moment, "round \(round)")
        }
    }

    /// As a listing does of what was deleted here and edited elsewhere.
    @Test func `an item that loses its base while it is let go of is erased`() async throws {
        let fixture = try CatalogFixture()
        let pool = BlockingPool(name: "two", width: 2)
        for round in 1...2_000 {
            let id = try fixture.addFile("file")
            try fixture.catalog.write { writer in
                try writer.setBase(CatalogFixture.base(of: id, named: "file", version: "1"))
                try writer.removeName(of: id)
            }
            let file = try fixture.files.acquire(id)
            async let one: Void = pool.run { try fixture.files.release(file) }
            async let other: Void = pool.run {
                try fixture.catalog.write { writer in
                    try writer.removeBase(of: id)
                    if fixture.files.live(id) == nil { _ = try writer.eraseIfForgotten(id) }
                }
            }
            _ = try await (one, other)
            let record = try fixture.catalog.read { try $0.item(id) }
            try #require(record == nil, "round \(round)")
        }
    }

    /// While another transaction keeps who erases waiting, which gives who opens the time.
    @Test func `what is opened while it is erased is there, or is not found`() async throws {
        let fixture = try CatalogFixture()
        let pool = BlockingPool(name: "three", width: 3)
        for round in 1...200 {
            let id = try fixture.addFile("file")
            try fixture.catalog.write { try $0.removeName(of: id) }
            let isBegun = Mutex(false)
            async let other: Void = pool.run {
                try fixture.catalog.write(isLong: true) { _ in
                    isBegun.withLock { $0 = true }
                    usleep(2_000)
                }
            }
            try await eventually("a transaction runs") { isBegun.withLock { $0 } }
            async let erased: Void = pool.run { try fixture.files.eraseIfUnused(id) }
            async let opened = pool.run { () throws -> OpenFile? in
                do throws(CloudFSError) {
                    return try fixture.files.acquire(id)
                } catch {
                    try #require(error.code == .notFound)
                    return nil
                }
            }
            let (_, _, file) = try await (other, erased, opened)
            if let file {
                let record = try fixture.catalog.read { try $0.item(id) }
                try #require(record != nil, "round \(round)")
                try fixture.files.release(file)
            }
            let record = try fixture.catalog.read { try $0.item(id) }
            try #require(record == nil, "round \(round)")
        }
    }

    @Test func `what was not made takes nothing from who got its number`() throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        let record = try fixture.catalog.read { try $0.existing(id) }
        func begin(_ generation: Int64) throws -> OpenFile {
            let content = try fixture.files.store.create(id, generation: generation, size: 0)
            return fixture.files.begin(record, content: content, queuedFor: CatalogFixture.now)
        }
        let first = try begin(1)
        let second = try begin(2)
        fixture.files.abandon(first)
        #expect(fixture.files.live(id) === second)
        fixture.files.abandon(second)
        #expect(fixture.files.live(id) == nil)
    }
}
