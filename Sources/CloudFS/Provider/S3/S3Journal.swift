import Logging
import Synchronization

/// How devices tell each other what they changed: small objects, one LIST to see all new ones.
///
/// A record's key is the server's time, the device, and its count: so that records sort by time
/// and a lost one leaves a gap. What a record says is a hint; the truth is looked up.
final class S3Journal: Sendable {
    let client: S3Client
    let folder: [UInt8]
    let settings: S3ProviderSettings
    private let deviceID: String
    private let logger: Logger
    private let writing: S3JournalWriter
    private let state = Mutex(State())
    private let used = Signal()

    /// Counts of a device that were not seen, since when the first of them was missed.
    private struct Gap {
        var since: Duration
        var counts: Set<Int64> = []
    }

    private struct State {
        var epoch = 0
        /// Counts what was told since the beginning.
        var page = 0
        /// Keys of the records that were read, and of those from before the beginning.
        var seen: Set<[UInt8]> = []
        /// Keys of records that could not be read when the connection failed.
        var unread: Set<[UInt8]> = []
        /// The server's time in milliseconds up to which all is known, or the latest record's.
        var latest: Int64 = 0
        /// From when on, in the server's time, the first record of a device has the count 1.
        var countedSince: Int64 = 0
        /// The last count that was seen of each device, and since when counts are missing.
        var counts: [String: Int64] = [:]
        var gaps: [String: Gap] = [:]
        /// What other devices should have been told.
        var owed: Set<ChangeHint> = []
        /// What is told later, and when.
        var deferred: [ChangeHint: Duration] = [:]
        var lastUse = Duration.zero
        var lastPoll = Duration.zero
        var lastScan = Duration.zero
    }

    /// How long before the latest record another may still turn up.
    private static let overlap: Int64 = 120_000
    /// After which time without a look everything is compared; records may be gone by then.
    private static let longestAbsence = Duration.seconds(1_800)
    /// How long after a folder's appearance it is told that all in it is to be compared: who hears
    /// it at once does not know the folder yet, and compares the one above.
    static let subtreeDelay = Duration.seconds(3)
    /// Of how many devices, or starts of a device, counts are remembered.
    private static let mostDevices = 10_000

    init(
        client: S3Client,
        folder: [UInt8],
        deviceID: String,
        settings: S3ProviderSettings,
        logger: Logger
    ) {
        self.client = client
        self.folder = folder
        self.deviceID = deviceID
        self.settings = settings
        self.logger = logger
        writing = S3JournalWriter(client: client, folder: folder, deviceID: deviceID)
    }

    // MARK: - Writing

    /// Tells the other devices; returns when they can know.
    func record(_ hints: [ChangeHint]) async throws(CloudFSError) {
        noteUse()
        let owed = state.withLock { state in
            defer { state.owed = [] }
            return state.owed
        }
        do throws(CloudFSError) {
            try await writing.record(hints + owed)
        } catch {
            state.withLock { $0.owed.formUnion(owed) }
            throw error
        }
    }

    /// Tells the other devices of something that is done and stays done: what cannot be told now
    /// is told with the next record.
    func announce(_ hints: [ChangeHint]) async {
        do throws(CloudFSError) {
            try await record(hints)
        } catch {
            state.withLock { $0.owed.formUnion(hints) }
            logger.warning(
                "other devices could not be told of a change yet",
                metadata: ["error": "\(error)"]
            )
        }
    }

    // MARK: - Reading

    /// The drive is in use: looks into the journal follow each other quickly for a while.
    func noteUse() {
        let now = client.clocks.elapsed()
        let wasIdle = state.withLock { state in
            defer { state.lastUse = now }
            return now - state.lastUse > settings.idleAfter
        }
        if wasIdle { used.raise() }
    }

    /// Waits until there is something new after `anchor`.
    ///
    /// - Parameter whileWaiting: Called after each look that found nothing.
    func changes(
        after anchor: SyncAnchor?,
        whileWaiting: () -> Void = {}
    ) async throws(CloudFSError) -> ChangePage {
        guard let anchor else { return try await begin() }
        guard anchor == current else {
            return ChangePage(hints: [.subtree(.root)], anchor: try await begin().anchor)
        }
        while true {
            await waitForTurn()
            if Task.isCancelled { throw CloudFSError(.cancelled, "waiting for changes ended") }
            let hints = try await poll()
            guard !hints.isEmpty else {
                whileWaiting()
                continue
            }
            state.withLock { $0.page += 1 }
            return ChangePage(hints: hints, anchor: current)
        }
    }

    /// Tells a page once more: nobody has heard of it.
    func takeBack(_ page: ChangePage) {
        state.withLock { state in
            state.page -= 1
            for hint in page.hints { state.deferred[hint] = .zero }
        }
    }

    private var current: SyncAnchor {
        state.withLock { SyncAnchor("\($0.epoch).\($0.page)") }
    }

    /// Takes what is there for known: what comes later is news.
    ///
    /// Not so of the last minutes when a drive starts: what was told while it was gone for a moment
    /// may be of the same second as what it knows, and then no listing tells it.
    private func begin() async throws(CloudFSError) -> ChangePage {
        let time = try await serverMilliseconds()
        let keys = try await list(from: time - Self.overlap).keys
        let now = client.clocks.elapsed()
        state.withLock { state in
            let isStart = state.epoch == 0
            state.seen = Set(isStart ? keys.dropLast(Self.mostAtStart)[...] : keys[...])
            state.epoch += 1
            state.latest = time
            state.countedSince = time
            state.counts = [:]
            for key in keys.compactMap({ S3JournalKey($0) }) {
                state.counts[key.device] = max(state.counts[key.device] ?? 0, key.count)
            }
            state.gaps = [:]
            state.deferred = [:]
            state.lastPoll = now
            state.lastScan = now
            state.lastUse = now
        }
        return ChangePage(hints: [], anchor: current)
    }

    func serverMilliseconds() async throws(CloudFSError) -> Int64 {
        if client.serverNow == nil {
            _ = try await client.list(prefix: folder, delimiter: false, limit: 1)
        }
        return (client.serverNow ?? client.clocks.now()).nanoseconds / 1_000_000
    }

    private func waitForTurn() async {
        let (lastPoll, lastUse) = state.withLock { ($0.lastPoll, $0.lastUse) }
        let now = client.clocks.elapsed()
        let isIdle = now - lastUse > settings.idleAfter
        let interval = isIdle ? settings.idlePollInterval : settings.pollInterval
        let rest = lastPoll + interval - now
        if rest > .zero { await used.wait(atMost: rest) }
    }

    private func poll() async throws(CloudFSError) -> [ChangeHint] {
        let begun = client.clocks.elapsed()
        // A server's clock may go back.
        let start = min(state.withLock { $0.latest }, try await serverMilliseconds()) - Self.overlap
        let known = state.withLock { $0.seen }
        let (listed, isWhole) = try await list(from: start, knowing: known)
        let time = try await serverMilliseconds()
        let now = client.clocks.elapsed()
        let fresh = listed.filter { !known.contains($0) }
        var (hints, unread) = await read(fresh.filter { S3JournalFloor.milliseconds($0) == nil })
        // Of the future it says nothing.
        let floor = listed.compactMap(S3JournalFloor.milliseconds).filter { $0 <= time }.max() ?? 0
        // Only what was read is known: the rest is news again.
        let mustScan = state.withLock { state in
            let listedAt = time - (now - begun).milliseconds
            // This machine's own clock stands still while it sleeps.
            let away = max(now - state.lastPoll, .milliseconds(listedAt - state.latest))
            let wasAway = away > Self.longestAbsence || state.latest < floor
            // What is older than the overlap is never listed again.
            let isLost = !state.unread.isSubset(of: listed)
            state.seen = Self.seen(listed, isWhole: isWhole, known).subtracting(unread)
            state.unread = unread
            state.latest = max(state.latest, listedAt)
            state.lastPoll = now
            // What was not listed is found by comparing.
            var isScanDue = !isWhole || now - state.lastScan > settings.scanInterval
            if !fresh.isEmpty { state.lastUse = now }
            note(fresh, at: now, notAfter: time, &state)
            if !isWhole {
                // Counts that were not listed are not missing.
                state.gaps = [:]
                state.counts = [:]
                state.countedSince = time
            }
            if let gap = state.gaps.values.map(\.since).min(),
                now - gap > .milliseconds(Self.overlap)
            {
                state.gaps = [:]
                isScanDue = true
            }
            if isLost { isScanDue = true }
            if wasAway || isScanDue { state.lastScan = now }
            return wasAway || isScanDue
        }
        if mustScan { hints.insert(.subtree(.root)) }
        return Array(deferring(hints, at: now))
    }

    /// Takes those hints out that are for later, and adds those whose time has come.
    private func deferring(_ hints: Set<ChangeHint>, at now: Duration) -> Set<ChangeHint> {
        state.withLock { state in
            var told = hints
            for case .subtree(let path) in hints where !path.isRoot {
                told.remove(.subtree(path))
                state.deferred[.subtree(path)] = now + Self.subtreeDelay
            }
            let due = state.deferred.filter { $0.value <= now }.map(\.key)
            for hint in due { state.deferred[hint] = nil }
            // Comparing everything is comparing this too.
            if hints.contains(.subtree(.root)) { state.deferred = [:] }
            return told.union(due)
        }
    }

    /// Notes counts and times, and which counts are missing.
    ///
    /// - Parameter time: The server's, in milliseconds: a record of the future says nothing of it.
    private func note(
        _ keys: [[UInt8]],
        at now: Duration,
        notAfter time: Int64,
        _ state: inout State
    ) {
        var missingCount = state.gaps.values.reduce(0) { $0 + $1.counts.count }
        for key in keys.compactMap({ S3JournalKey($0) }) {
            if state.counts.count > Self.mostDevices || missingCount > Self.mostMissing {
                // What was missing is found by comparing, when it would have turned up by then.
                let since = state.gaps.values.map(\.since).min()
                state.gaps = since.map { ["": Gap(since: $0)] } ?? [:]
                state.counts = [:]
                state.countedSince = time
                missingCount = 0
            }
            state.latest = max(state.latest, min(key.milliseconds, time))
            let isNew = (key.begun ?? 0) > state.countedSince
            let last = state.counts[key.device] ?? (isNew ? 0 : nil)
            if let last, key.count > last + 1 {
                // Of a long gap the end will do: who comes late comes soon.
                let missing = (last + 1..<key.count).suffix(Self.mostRecords)
                state.gaps[key.device, default: Gap(since: now)].counts.formUnion(missing)
                missingCount += missing.count
            } else if state.gaps[key.device]?.counts.remove(key.count) != nil,
                state.gaps[key.device]?.counts.isEmpty == true
            {
                state.gaps[key.device] = nil
            }
            state.counts[key.device] = max(last ?? 0, key.count)
        }
    }

    /// Lists records in their order, but no more than can be of use.
    ///
    /// - Parameter known: Those that are no news; `nil`: none is, and all of them are wanted.
    /// - Returns: The keys, and whether there are no others.
    private func list(
        from milliseconds: Int64,
        knowing known: Set<[UInt8]>? = nil
    ) async throws(CloudFSError) -> (keys: [[UInt8]], isWhole: Bool) {
        var keys: [[UInt8]] = []
        var isWhole = true
        var newCount = 0
        let start = folder + S3JournalKey.time(max(0, milliseconds))
        try await client.listAll(prefix: folder, delimiter: false, startAfter: start) {
            page throws(CloudFSError) in
            let listed = page.objects.map(\.key)
            keys += listed
            if let known { newCount += listed.count { !known.contains($0) && isOthers($0) } }
            isWhole = page.next == nil
            return keys.count < Self.mostListed && newCount <= Self.mostRecords
        }
        return (keys, isWhole)
    }

    /// What counts as seen after a listing; that of one that was broken off only adds to it.
    private static func seen(
        _ listed: [[UInt8]],
        isWhole: Bool,
        _ known: Set<[UInt8]>
    ) -> Set<[UInt8]> {
        let all = isWhole ? Set(listed) : known.union(listed)
        return all.count <= mostListed * 2 ? all : Set(listed)
    }

    private func isOthers(_ key: [UInt8]) -> Bool { S3JournalKey(key)?.owner != deviceID[...] }

    /// Reads records; one that cannot be read means that everything may have changed.
    ///
    /// - Returns: What they say, and which are to be read again, as the connection failed.
    private func read(
        _ keys: [[UInt8]]
    ) async -> (hints: Set<ChangeHint>, unread: Set<[UInt8]>) {
        let others = keys.filter(isOthers)
        guard others.count <= Self.mostRecords else { return ([.subtree(.root)], []) }
        return await withTaskGroup(of: ([UInt8], Set<ChangeHint>?).self) { group in
            for key in others {
                group.addTask { (key, await self.hints(in: key)) }
            }
            return await group.reduce(into: ([], [])) { result, read in
                if let hints = read.1 {
                    result.hints.formUnion(hints)
                } else {
                    result.unread.insert(read.0)
                }
            }
        }
    }

    /// Of more new records than this, comparing everything is the shorter way.
    private static let mostRecords = 500
    /// A listing of more, with those that were seen, is broken off, whoever made it so long.
    ///
    /// So many new ones in each second of the overlap.
    private static let mostListed = mostRecords * 120
    /// How many missing counts are remembered.
    private static let mostMissing = 100_000
    /// How many of the last minutes' records are heard of by a drive that starts.
    private static let mostAtStart = 250

    /// - Returns: `nil` if the connection failed.
    private func hints(in key: [UInt8]) async -> Set<ChangeHint>? {
        let bytes = S3Bytes()
        do throws(CloudFSError) {
            let limit = Int64(S3JournalRecord.maximumByteCount) + 1
            _ = try await client.get(key, range: 0..<limit, ifMatch: nil) { _, piece in
                bytes.append(piece)
            }
        } catch {
            logger.notice("a record cannot be read", metadata: ["error": "\(error)"])
            return error.isTransient ? nil : [.subtree(.root)]
        }
        guard bytes.all.count <= S3JournalRecord.maximumByteCount else { return [.subtree(.root)] }
        return S3JournalRecord.hints(in: bytes.all)
    }
}

extension Duration {
    /// Whole milliseconds.
    fileprivate var milliseconds: Int64 {
        components.seconds * 1_000 + components.attoseconds / 1_000_000_000_000_000
    }
}
