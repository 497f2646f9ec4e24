import Logging
import Synchronization

/// Makes room: drops the content of files that the cloud has too, the longest unused first.
///
/// Never bytes that exist only here, never files in use, never pinned ones.
final class Evictor: Sendable {
    private let files: OpenFiles
    private let hub: ChangeHub
    private let coordinator: Coordinator
    private let logger: Logger
    let limits: Limits
    private let wake = Signal()
    private let turns = Mutex(EvictionTurns())
    private let isTold = Atomic(false)
    /// When something was dropped because the disk was full.
    private let lastDrop = Mutex<Duration?>(nil)
    /// Held for a turn: two would drop twice as much.
    private let turn = Mutex<Void>(())
    private let filling = Mutex(Filling())
    /// How many bytes the disk had beyond what stays free, when that was last looked at.
    private let spare = Mutex(Int64.max)
    /// All that could be dropped when that was too little, and how long this is taken for true.
    private let lastLack = Mutex<(found: Int64, until: Duration)?>(nil)

    /// What has arrived since who fetches took a turn, in bytes, and when the next one may come.
    private struct Filling {
        var byteCount = 0
        var due = Duration.zero
        /// Whether somebody takes one.
        var isTaken = false
    }

    /// Bounds of what content may take of the local disk, in bytes.
    struct Limits: Sendable {
        var cacheSize: Int64
        /// What stays free on the disk, whatever `cacheSize` allows.
        var freeFloor: Int64
    }

    init(
        files: OpenFiles,
        hub: ChangeHub,
        coordinator: Coordinator,
        limits: Limits,
        logger: Logger
    ) {
        self.files = files
        self.hub = hub
        self.coordinator = coordinator
        self.limits = limits
        self.logger = logger
    }

    /// Notes files that were used or changed, so that content may have grown.
    func noticeUse(of items: [ItemID]) {
        turns.withLock { $0.note(items) }
        wake.raise()
    }

    /// Notes that files which had to stay may go now, whichever they are.
    func noticeAll() {
        turns.withLock { $0.noteAll() }
        wake.raise()
    }

    /// Waits until there may be too much again.
    ///
    /// Of what a program writes into an open file nobody is told; so while one may, it is looked
    /// again before the disk can be short of room, if nothing takes more than 1 GiB in a second.
    ///
    /// - Parameter pause: How long to rest then: many closes in a row are one occasion.
    func waitForUse(restingFor pause: Duration) async {
        let limit = files.mayBeWritten ? timeToFill : nil
        await wake.wait(atMost: limit)
        // Cancelled, its loop ends.
        try? await Task.sleep(for: limit.map { min($0, pause) } ?? pause)
    }

    /// How long it takes at least until the disk is short of room, within bounds.
    private var timeToFill: Duration {
        let time = Duration.milliseconds(spare.withLock { $0 } >> 20)
        return min(max(time, Self.shortestLook), Self.longestLook)
    }

    private static let shortestLook = Duration.seconds(1)
    private static let longestLook = Duration.seconds(60)

    /// How long it rests: 50 times as long as all the files here are counted, within bounds.
    static let shortestPause = Duration.milliseconds(250)
    private static let longestPause = Duration.seconds(5)
    private static let rest = 50

    /// Why a file's content stays.
    ///
    /// - Throws: `claimed` when it is in use, pinned, or not in the cloud yet.
    func evict(_ id: ItemID) throws(CloudFSError) {
        let claim = try coordinator.tryClaim([.writing(id, .forReplacing)], by: .besidePlain)
        defer { claim.end() }
        let file = try files.acquire(id)
        let outcome = file.state.withLock { state -> Result<DroppedTree, CloudFSError> in
            do throws(CloudFSError) {
                return .success(try drop(&state, id))
            } catch {
                return .failure(error)
            }
        }
        try files.release(file)
        let dropped = try outcome.get()
        files.forget(dropped.members)
        hub.publish(dropped.changes)
        try FaultPoint.evictDropped.pass()
    }

    private func drop(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> DroppedTree {
        guard state.generation != 0 || state.isPackage else { return DroppedTree() }
        try files.observe(&state, id)
        guard !state.isDirty, state.base != nil else {
            throw CloudFSError(.claimed, "its changes are not uploaded yet", item: id)
        }
        guard !state.isInUse else {
            throw CloudFSError(.claimed, "the file is open", item: id)
        }
        guard !state.isBeingFetched else {
            throw CloudFSError(.claimed, "the file is being downloaded", item: id)
        }
        var dropped = try files.catalog.write { writer in
            guard try writer.reader.effectivePolicy(of: id) != .pinned else {
                throw CloudFSError(.claimed, "the file is pinned", item: id)
            }
            try writer.setWanted(false, of: id)
            let record = try writer.reader.existing(id)
            guard try writer.reader.isInCloud(record) else {
                throw CloudFSError(.claimed, "its changes are not uploaded yet", item: id)
            }
            let tree = try dropTree(of: record, writer)
            try writer.dropContent(of: record)
            return tree
        }
        _ = files.reload(&state, id)
        dropped.changes.append(.content(id))
        return dropped
    }

    /// What of a package is open keeps all of it.
    private func dropTree(
        of record: ItemRecord,
        _ writer: CatalogWriter
    ) throws -> DroppedTree {
        guard record.item.isPackage, record.isListed else { return DroppedTree() }
        for member in try writer.reader.members(of: record.id) where files.live(member) != nil {
            throw CloudFSError(.claimed, "something in the package is open", item: record.id)
        }
        return try writer.dropTree(of: record)
    }

    /// Drops what was not used for longest because the disk is full, whatever the limits are.
    ///
    /// Content files are removed a moment later, and file systems give their room back later still.
    ///
    /// - Returns: How many bytes were dropped.
    func makeRoom(for byteCount: Int64) throws(CloudFSError) -> Int64 {
        let dropped = try drop(byteCount)
        if dropped > 0 { lastDrop.withLock { $0 = files.clocks.elapsed() } }
        return dropped
    }

    /// Whether something was dropped, for whomever, of which the room may still be to come.
    var hasJustDropped: Bool {
        let now = files.clocks.elapsed()
        return lastDrop.withLock { $0.map { now - $0 < Self.settling } ?? false }
    }

    /// What bytes that are to come are for.
    enum Purpose {
        /// A person wants the file here.
        case keeping
        /// The rest of a file that was changed here, without which it cannot be sent: half of what
        /// stays free may be used for that, and of a small file more, as it is not here for long.
        case sending
    }

    /// What stays free of the disk for others while bytes come.
    private func floor(for byteCount: Int64, _ purpose: Purpose) -> Int64 {
        switch purpose {
        case .keeping: limits.freeFloor
        case .sending:
            min(limits.freeFloor / 2, max(Self.leastFree, byteCount.addingOrMost(byteCount)))
        }
    }

    /// What a small file that is to be sent leaves free.
    private static let leastFree: Int64 = 64 << 20

    /// Makes room for bytes of a file; drops nothing if that would not do.
    ///
    /// - Throws: `diskFull` where the disk would be left with less than it should.
    func requireRoom(
        for byteCount: Int64,
        of id: ItemID,
        _ purpose: Purpose
    ) throws(CloudFSError) {
        guard byteCount > 0 else { return }
        let needed = byteCount.addingOrMost(byteCount / 64).addingOrMost(Self.overhead)
        let floor = floor(for: byteCount, purpose)
        let lack = needed.addingOrMost(floor - (try files.store.space().available))
        guard lack > 0 else { return }
        let found = try droppable(lack)
        let gained = found < lack ? found : try dropInTurn(lack)
        guard gained < lack else { return }
        throw CloudFSError(
            .diskFull,
            "the disk lacks at least \(Self.mebibytes(lack - gained)) MiB for it, "
                + "as \(Self.mebibytes(floor)) MiB are kept free",
            item: id
        )
    }

    /// Rounded up, so that nobody is told that nothing is lacking.
    static func mebibytes(_ byteCount: Int64) -> Int64 {
        byteCount.addingOrMost(1 << 20 - 1) >> 20
    }

    /// How many bytes could be dropped, up to those that are wanted.
    ///
    /// Of many files for which there is no room, not each has all others looked at.
    private func droppable(_ byteCount: Int64) throws(CloudFSError) -> Int64 {
        let now = files.clocks.elapsed()
        if let known = lastLack.withLock({ $0 }), now < known.until, known.found < byteCount {
            return known.found
        }
        let found = try gather(byteCount) { files.isEngaged($0.id) ? 0 : $0.localBytes }
        if found < byteCount { lastLack.withLock { $0 = (found, now + Self.settling) } }
        return found
    }

    /// What the disk and the catalog may need beside the bytes, and a 64th of these.
    private static let overhead: Int64 = 8 << 20

    private func dropInTurn(_ byteCount: Int64) throws(CloudFSError) -> Int64 {
        try turn.withLock { _ throws(CloudFSError) in try drop(byteCount) }
    }

    /// How long room that was made may take to be there.
    private static let settling = Duration.seconds(5)

    /// What came of a turn.
    struct Outcome {
        /// How many bytes are still too many.
        var excess: Int64 = 0
        /// How many of these files in use have to make up for: what the disk lacks, and what they
        /// take by themselves beyond what all content may.
        var excessInUse: Int64 = 0
        /// How long to rest.
        var pause: Duration
    }

    /// Whether so much has arrived that it is time for a turn; said to one who asks, until `rest`.
    ///
    /// That ends early where what has arrived could have taken all the room that there was.
    func isDue(afterFilling count: Int) -> Bool {
        let spare = spare.withLock { $0 }
        return filling.withLock { filling in
            filling.byteCount += count
            guard filling.byteCount >= Self.step, !filling.isTaken,
                filling.due <= files.clocks.elapsed() || filling.byteCount >= spare
            else { return false }
            filling = Filling(isTaken: true)
            return true
        }
    }

    /// Ends the turn of who fetches.
    func rest(for pause: Duration) {
        filling.withLock { filling in
            filling.isTaken = false
            filling.due = files.clocks.elapsed() + pause
        }
    }

    /// After how many bytes who fetches takes a turn.
    private static let step = 32 << 20

    /// Drops what is too much, as far as that can be known without looking at everything each time.
    func takeTurn() throws(CloudFSError) -> Outcome {
        try turn.withLock { _ throws(CloudFSError) in try takeOnlyTurn() }
    }

    private func takeOnlyTurn() throws(CloudFSError) -> Outcome {
        files.catalog.refillReserve()
        let begin = files.clocks.elapsed()
        let inUse = files.partialBytes
        let lacking = limits.freeFloor - (try files.store.space().available)
        spare.withLock { $0 = max(0, 0 - lacking) }
        let used = try files.catalog.read { try $0.localBytes() }.addingOrMost(inUse.unstored)
        let excess = max(0, lacking, used - limits.cacheSize)
        let counting = files.clocks.elapsed() - begin
        let pause = min(max(Self.shortestPause, counting * Self.rest), Self.longestPause)
        guard excess > 0 else {
            turns.withLock { $0 = EvictionTurns() }
            return Outcome(pause: pause)
        }
        let dropped = try takeTurn(dropping: excess)
        let inUseAlone = min(inUse.all, used) - limits.cacheSize
        return Outcome(
            excess: max(0, excess - dropped),
            excessInUse: inUse.all == 0 ? 0 : max(0, max(lacking, inUseAlone) - dropped),
            pause: dropped > 0 ? Self.shortestPause : pause
        )
    }

    private func takeTurn(dropping excess: Int64) throws(CloudFSError) -> Int64 {
        let begin = files.clocks.elapsed()
        switch turns.withLock({ $0.next(at: begin) }) {
        case .used(let items):
            return try drop(excess, of: items)
        case .all:
            let dropped = try drop(excess)
            let end = files.clocks.elapsed()
            if dropped < excess { turns.withLock { $0.noteLack(from: begin, to: end) } }
            return dropped
        }
    }

    /// Drops content, the longest unused first, until so many bytes are gone or no more can be.
    ///
    /// - Returns: How many bytes were dropped.
    private func drop(_ byteCount: Int64) throws(CloudFSError) -> Int64 {
        try files.saveUses()
        return try gather(byteCount) { record throws(CloudFSError) in try tryEvict(record) }
    }

    /// Goes through what may be dropped, the longest unused first, until `take` has found so many
    /// bytes in it.
    ///
    /// - Returns: How many there are.
    private func gather(
        _ byteCount: Int64,
        _ take: (ItemRecord) throws(CloudFSError) -> Int64
    ) throws(CloudFSError) -> Int64 {
        var excess = byteCount
        var position = (lastUsed: Int64.min, item: ItemID(0))
        var pinned = PinnedFolders()
        while excess > 0 {
            // All files may be pinned: they must not cost a claim and a transaction each.
            let (page, candidates) = try files.catalog.read { reader in
                let page = try reader.localFiles(limit: 64, after: position)
                let candidates = try page.filter { file in
                    try file.record.item.content.isEvictable && !pinned.hold(file, reader)
                }
                return (page, candidates.map(\.record))
            }
            for record in candidates where excess > 0 { excess -= try take(record) }
            guard let last = page.last else { break }
            position = (last.lastUsed, last.record.id)
        }
        return byteCount - excess
    }

    /// Drops content of these files in the same manner.
    private func drop(
        _ byteCount: Int64,
        of items: Set<ItemID>
    ) throws(CloudFSError) -> Int64 {
        guard !items.isEmpty else { return 0 }
        let candidates = try files.catalog.read { reader in
            try items.compactMap { try reader.item($0) }.filter { record in
                try record.item.content.generation != 0 && record.item.content.isEvictable
                    && reader.effectivePolicy(of: record.id) != .pinned
            }
        }
        var dropped: Int64 = 0
        for record in candidates.sorted(by: { ($0.lastUsed, $0.id) < ($1.lastUsed, $1.id) })
        where dropped < byteCount {
            dropped += try tryEvict(record)
        }
        return dropped
    }

    /// - Returns: How many bytes it had here; 0 if it stays.
    private func tryEvict(_ record: ItemRecord) throws(CloudFSError) -> Int64 {
        do throws(CloudFSError) {
            try evict(record.id)
            return record.localBytes
        } catch  where Self.reasonsToStay.contains(error.code) {
            return 0
        }
    }

    /// Why one file stays, or is gone already, and the next one may go.
    private static let reasonsToStay: Set<CloudFSError.Code> = [
        .claimed, .denied, .exists, .notFound,
    ]

    /// Says once that there is no room, until there is again; a few blocks are no lack of it.
    func tell(_ excess: Int64) {
        let isLack = excess >= 1 << 20
        let wasTold = isTold.exchange(isLack, ordering: .relaxed)
        guard isLack, !wasTold else { return }
        logger.warning(
            "content takes more room than it may, and nothing more can be dropped",
            metadata: ["bytes": "\(excess)"]
        )
    }
}
