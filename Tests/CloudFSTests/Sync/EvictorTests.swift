import Logging
import Synchronization
import Testing

@testable import CloudFS

/// What is dropped where there is no room for anything.
@Suite struct EvictorTests {
    private let fixture: CatalogFixture
    private let evictor: Evictor
    private let makeEvictor: (Evictor.Limits) -> Evictor
    private let claimed = Claimed()
    private var catalog: Catalog { fixture.catalog }

    /// The items that were claimed.
    private final class Claimed: Sendable {
        let items = Mutex<Set<ItemID>>([])
    }

    init() throws {
        let claimed = claimed
        let places = Coordinator.Places(
            unit: { id in
                claimed.items.withLock { _ = $0.insert(id) }
                return id
            }
        )
        let fixture = try CatalogFixture()
        let coordinator = Coordinator(places: places)
        makeEvictor = { limits in
            Evictor(
                files: fixture.files,
                hub: ChangeHub(),
                coordinator: coordinator,
                limits: limits,
                logger: Logger(label: "evict")
            )
        }
        self.fixture = fixture
        evictor = makeEvictor(Evictor.Limits(cacheSize: 0, freeFloor: 0))
    }

    private func addFolder(_ name: String, in parent: ItemID = .root) throws -> ItemID {
        let new = NewItem(
            container: ContainerID(1),
            kind: .folder,
            metadata: CatalogFixture.metadata
        )
        return try catalog.write { writer in
            try writer.insert(new, name: Array(name.utf8), in: parent, at: CatalogFixture.now).id
        }
    }

    /// Adds a file that the cloud has, with all its bytes here.
    private func addFile(
        _ name: String,
        in parent: ItemID = .root,
        localBytes: Int64 = 4096,
        residency: Residency = .resident
    ) throws -> ItemID {
        let new = NewItem(
            container: ContainerID(1),
            kind: .file,
            metadata: CatalogFixture.metadata,
            size: 3
        )
        let id = try catalog.write { writer in
            let id = try writer.insert(
                new,
                name: Array(name.utf8),
                in: parent,
                at: CatalogFixture.now
            ).id
            try writer.setBase(
                CatalogFixture.base(of: id, named: name, in: parent, version: name)
            )
            try writer.setContent(
                of: id,
                generation: 1,
                residency: residency,
                localBytes: localBytes
            )
            return id
        }
        _ = try fixture.files.store.create(id, generation: 1, size: 3)
        return id
    }

    private func isHere(_ id: ItemID) throws -> Bool {
        try catalog.read { try $0.existing(id) }.item.content.generation != 0
    }

    @Test func `what is pinned by a folder around it is not even claimed`() throws {
        let folder = try addFolder("folder")
        let inner = try addFolder("inner", in: folder)
        try catalog.write { try $0.setPolicy(.pinned, of: folder) }
        let pinned = try (1...200).map { try addFile("\($0)", in: inner) }
        let loose = try addFile("loose", in: .root)
        let own = try addFile("own", in: inner)
        try catalog.write { try $0.setPolicy(.onDemand, of: own) }
        _ = try evictor.takeTurn()
        #expect(try !isHere(loose))
        #expect(try !isHere(own))
        #expect(try pinned.allSatisfy { try isHere($0) })
        #expect(claimed.items.withLock { $0 } == [loose, own])
    }

    /// It is shown as local a moment before the last of its fetches, and who asked for it, has
    /// ended.
    @Test func `what is stored as all here can be evicted at once`() throws {
        let id = try addFile("file")
        let file = try fixture.files.acquire(id)
        file.state.withLock { state in
            state.fetches[HydrationPlan.RequestID(rawValue: 1)] = Task {}
            state.completers = 1
            #expect(state.plan == nil)
        }
        try evictor.evict(id)
        #expect(try !isHere(id))
        // What comes again is another matter.
        #expect(file.state.withLock { $0.isBeingFetched })
        file.state.withLock { $0.fetches = [:] }
        #expect(file.state.withLock { $0.isBeingFetched })
        file.state.withLock { $0.completers = 0 }
        try fixture.files.release(file)
    }

    @Test func `after a look at all files only those that were used are looked at`() throws {
        let folder = try addFolder("folder")
        try catalog.write { try $0.setPolicy(.pinned, of: folder) }
        let pinned = try addFile("pinned", in: folder)
        _ = try evictor.takeTurn()
        let used = try addFile("used", in: .root)
        evictor.noticeUse(of: [used, pinned])
        _ = try evictor.takeTurn()
        #expect(try !isHere(used))
        #expect(try isHere(pinned))
        try catalog.write { try $0.setPolicy(.inherited, of: folder) }
        evictor.noticeAll()
        _ = try evictor.takeTurn()
        #expect(try !isHere(pinned))
    }

    @Test func `who waits for room has all files looked at`() throws {
        let folder = try addFolder("folder")
        try catalog.write { try $0.setPolicy(.pinned, of: folder) }
        _ = try addFile("pinned", in: folder)
        _ = try evictor.takeTurn()
        let other = try addFile("other", in: .root)
        #expect(try evictor.makeRoom(for: 1) > 0)
        #expect(try !isHere(other))
    }

    // MARK: - Room for downloads

    /// An evictor of a disk that lacks 1 GiB.
    private func poorEvictor() throws -> Evictor {
        let available = try fixture.files.store.space().available
        return makeEvictor(Evictor.Limits(cacheSize: .max, freeFloor: available + 1 << 30))
    }

    @Test func `what would not be enough is not dropped for a download`() throws {
        let small = try addFile("small", localBytes: 512 << 20)
        let failure = #expect(throws: CloudFSError.self) {
            try poorEvictor().requireRoom(for: 1, of: ItemID(1000), .keeping)
        }
        #expect(failure?.code == .diskFull)
        #expect(try isHere(small))
        let large = try addFile("large", localBytes: 4 << 30)
        try poorEvictor().requireRoom(for: 1, of: ItemID(1000), .keeping)
        #expect(try !isHere(large))
    }

    @Test func `neither the file itself nor what is used is room for a download`() throws {
        let own = try addFile("own", localBytes: 4 << 30, residency: .partial)
        let played = try addFile("played", localBytes: 4 << 30)
        let (downloaded, open) = (try fixture.files.acquire(own), try fixture.files.acquire(played))
        downloaded.state.withLock { $0.completers = 1 }
        open.state.withLock { $0.handles = 1 }
        #expect(throws: CloudFSError.self) {
            try poorEvictor().requireRoom(for: 1, of: own, .keeping)
        }
        _ = try addFile("other", localBytes: 4 << 30)
        try poorEvictor().requireRoom(for: 1, of: own, .keeping)
        #expect(try isHere(own) && isHere(played))
    }

    /// Else nobody could send what was changed, and so nothing could be dropped.
    @Test func `the rest of a small file that is to be sent has room where others have none`()
        throws
    {
        let evictor = try poorEvictor()
        try evictor.requireRoom(for: 1 << 20, of: ItemID(1000), .sending)
        let available = try fixture.files.store.space().available
        #expect(throws: CloudFSError.self) {
            try evictor.requireRoom(for: available, of: ItemID(1000), .sending)
        }
    }

    @Test func `a file as long as numbers go has no room, and is none to count with`() throws {
        #expect(Int64.max.addingOrMost(1) == .max)
        #expect(Int64.min.addingOrMost(-1) == .min)
        #expect(Int64.max.addingOrMost(-1) == .max - 1)
        let rich = makeEvictor(Evictor.Limits(cacheSize: .max, freeFloor: 0))
        for evictor in [rich, try poorEvictor()] {
            let failure = #expect(throws: CloudFSError.self) {
                try evictor.requireRoom(for: .max, of: ItemID(1000), .keeping)
            }
            #expect(failure?.code == .diskFull)
        }
    }

    @Test func `what is all here needs no room`() throws {
        try poorEvictor().requireRoom(for: 0, of: ItemID(1000), .keeping)
    }

    // MARK: - Turns of who fetches

    @Test func `one of those who fetch takes a turn, after many bytes, and then they rest`() {
        #expect(!evictor.isDue(afterFilling: 1 << 20))
        #expect(evictor.isDue(afterFilling: 32 << 20))
        #expect(!evictor.isDue(afterFilling: 64 << 20))
        evictor.rest(for: .zero)
        #expect(evictor.isDue(afterFilling: 0))
        evictor.rest(for: .seconds(1000))
        #expect(!evictor.isDue(afterFilling: 64 << 20))
    }

    @Test func `where what has arrived may have taken all the room nobody rests`() throws {
        let evictor = try poorEvictor()
        _ = try evictor.takeTurn()
        #expect(evictor.isDue(afterFilling: 32 << 20))
        evictor.rest(for: .seconds(1000))
        #expect(!evictor.isDue(afterFilling: 1 << 20))
        #expect(evictor.isDue(afterFilling: 31 << 20))
    }

    @Test(arguments: [true, false])
    func `files in use make up for a lack of room, and for no more than they take`(
        isFull: Bool
    ) throws {
        let file = try PartialFile(in: fixture, isDirty: false)
        let pinned = try addFile("pinned", localBytes: 1 << 30)
        try catalog.write { try $0.setPolicy(.pinned, of: pinned) }
        let open = try fixture.files.acquire(file.id)
        open.state.withLock { $0.handles = 1 }
        let available = try fixture.files.store.space().available
        let evictor = makeEvictor(
            Evictor.Limits(cacheSize: 1 << 20, freeFloor: isFull ? available + 1 << 30 : 0)
        )
        let outcome = try evictor.takeTurn()
        #expect(outcome.excess > 0)
        #expect((outcome.excessInUse > 0) == isFull)
        withExtendedLifetime(open) {}
    }

    // MARK: - Turns

    @Test func `the pause is in proportion to how long it took to look at all files`() {
        var turns = EvictionTurns()
        #expect(turns.next(at: .zero) == .all)
        #expect(turns.next(at: .zero) == .all)
        turns.noteLack(from: .zero, to: .seconds(1))
        turns.note([ItemID(2), ItemID(3)])
        #expect(turns.next(at: .seconds(2)) == .used([ItemID(2), ItemID(3)]))
        #expect(turns.next(at: .seconds(50)) == .used([]))
        #expect(turns.next(at: .seconds(51)) == .all)
        turns.noteLack(from: .seconds(100), to: .seconds(200))
        #expect(turns.next(at: .seconds(259)) == .used([]))
        #expect(turns.next(at: .seconds(260)) == .all)
    }

    @Test func `what may concern all files ends the pause, also while they are looked at`() {
        var turns = EvictionTurns()
        #expect(turns.next(at: .zero) == .all)
        turns.noteAll()
        turns.noteLack(from: .zero, to: .seconds(1))
        #expect(turns.next(at: .seconds(2)) == .all)
        #expect(turns.next(at: .seconds(2)) == .used([]))
    }

    @Test func `of very many files that are used the rest is left to the next look at all`() {
        var turns = EvictionTurns()
        turns.noteLack(from: .zero, to: .seconds(1))
        turns.note((1...10_000).map { ItemID($0) })
        guard case .used(let items) = turns.next(at: .seconds(2)) else {
            Issue.record("all files are looked at")
            return
        }
        #expect(items.count == EvictionTurns.mostUsed)
    }
}
