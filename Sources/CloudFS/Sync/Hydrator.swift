import Logging
import Synchronization

/// Brings absent bytes here: once for all who wait, and no sooner than somebody wants them.
///
/// The decisions are `HydrationPlan`'s; this class runs its actions. Each fetch is a task, the
/// bytes go to disk on the blocking pool, and readers wait in tasks of their own.
final class Hydrator: Sendable {
    let files: OpenFiles
    private let provider: any CloudProvider
    let pool: BlockingPool
    let hub: ChangeHub
    let mutations: RemoteMutations
    let evictor: Evictor
    let programs: ReadingPrograms
    let connection: Connection
    let logger: Logger
    /// Files that are all here, which the catalog does not know yet.
    let completed = Mutex(CompletedFiles())
    /// Files that somebody waits for.
    let watched = Mutex(WatchedFiles())
    let held = Mutex(HeldFiles())
    let counters = Mutex(FetchCounters())
    let onNews: @Sendable (ItemID, News) async -> Void

    /// What a fetch told beside the bytes.
    enum News: Sendable {
        /// The cloud does not have what the catalog says: it is found out what it has.
        case mismatch
        /// A file that was known from a listing only is more than that said.
        case details(RemoteItem)
    }

    init(
        files: OpenFiles,
        provider: any CloudProvider,
        pool: BlockingPool,
        hub: ChangeHub,
        mutations: RemoteMutations,
        evictor: Evictor,
        programs: ReadingPrograms,
        connection: Connection,
        logger: Logger,
        onNews: @escaping @Sendable (ItemID, News) async -> Void
    ) {
        self.files = files
        self.provider = provider
        self.pool = pool
        self.hub = hub
        self.mutations = mutations
        self.evictor = evictor
        self.programs = programs
        self.connection = connection
        self.logger = logger
        self.onNews = onNews
    }

    /// Fetches from the provider since the start of this process.
    var fetchCounters: FetchCounters { counters.withLock { $0 } }

    /// Content that somebody else has fetched, as for a small picture of a photo.
    func noteFetched(bytes: Int64) { counters.withLock { $0.add(bytes) } }

    // MARK: - Reading

    /// Asks for `range` of a file on behalf of a handle.
    ///
    /// - Parameter asker: For which program what comes from now on is counted; `nil` for no other.
    /// - Returns: `nil` when the bytes are here, else what to wait for.
    func begin(
        _ file: OpenFile,
        range: Range<Int64>,
        handle: UInt64?,
        asker: ReadingPrograms.Program? = nil
    ) throws(CloudFSError) -> HydrationWait? {
        let (wait, actions) = try file.state.withLock {
            state throws(CloudFSError) -> (HydrationWait?, [HydrationPlan.Action]) in
            guard let plan = state.plan else { return (nil, []) }
            if !plan.isPresent(range) { _ = try files.writableContent(of: &state, file.id) }
            guard state.plan != nil else { return (nil, []) }
            if let asker { state.asker = asker }
            let waiter = state.newWaiter()
            let pending = Pending<Void>()
            state.waits[waiter] = pending
            let now = files.clocks.elapsed()
            let actions =
                heedPause(&state)
                + files.handle(.read(waiter, range, handle: handle), &state, now)
            if actions.contains(.wake(waiter, failure: nil)) {
                state.waits[waiter] = nil
                return (nil, actions)
            }
            return (HydrationWait(file: file, waiter: waiter, pending: pending), actions)
        }
        perform(actions, on: file, from: firstOrigin(of: file, for: actions))
        if wait != nil { watch(file) }
        return wait
    }

    /// Waits until the bytes are here.
    ///
    /// - Throws: `cancelled`; what the fetch failed with; `timedOut`; `remoteChanged`.
    func finish(_ wait: HydrationWait) async throws(CloudFSError) {
        do {
            try await wait.pending.value { [self] in
                let actions = wait.file.state.withLock { state in
                    state.waits[wait.waiter] = nil
                    return files.handle(.cancelRead(wait.waiter), &state, files.clocks.elapsed())
                }
                perform(actions, on: wait.file)
            }
        } catch let error as CloudFSError {
            throw error
        } catch {
            throw CloudFSError(.cancelled, "the read was interrupted", item: wait.file.id)
        }
    }

    /// Brings the whole file here and waits for it.
    ///
    /// - Parameter admit: May refuse it before anything is fetched; blocks on the disk.
    func complete(
        _ file: OpenFile,
        once admit: @escaping @Sendable () throws(CloudFSError) -> Void = {}
    ) async throws(CloudFSError) {
        // What has just come may else be dropped before it is stored as all here.
        file.state.withLock { $0.completers += 1 }
        defer { file.state.withLock { $0.completers -= 1 } }
        try await blocking { try admit() }
        if let wait = try await blocking({ try self.beginCompleting(file) }) {
            try await finish(wait)
        }
        try await blocking { try self.markResident(file) }
    }

    /// - Returns: What to wait for, if anything is absent.
    private func beginCompleting(_ file: OpenFile) throws(CloudFSError) -> HydrationWait? {
        let plan = try file.state.withLock {
            state throws(CloudFSError) -> (size: Int64, actions: [HydrationPlan.Action])? in
            // An empty file needs no content, unless it was written to here.
            guard let plan = state.plan, plan.size > 0 || state.generation != 0 else { return nil }
            _ = try files.writableContent(of: &state, file.id)
            let now = files.clocks.elapsed()
            return (plan.size, files.handle(.completeAll(forced: true), &state, now))
        }
        guard let plan else { return nil }
        perform(plan.actions, on: file)
        return plan.size > 0 ? try begin(file, range: 0..<plan.size, handle: nil) : nil
    }

    // MARK: - Actions

    /// Runs what the plan decided.
    ///
    /// Call it with no lock held.
    ///
    /// - Parameter origin: Where the cloud has the bytes, if it was just asked for.
    func perform(
        _ actions: [HydrationPlan.Action],
        on file: OpenFile,
        from origin: Origin? = nil
    ) {
        let isToHeed = connection.isPaused || file.state.withLock { $0.plan?.isHeld == true }
        for action in isToHeed ? holding(actions, of: file) : actions {
            switch action {
            case .fetch(let request, let range):
                start(request, range, on: file, from: origin)
            case .cancel(let request):
                file.state.withLock { $0.fetches.removeValue(forKey: request) }?.cancel()
            case .wake(let waiter, let failure):
                let pending = file.state.withLock { $0.waits.removeValue(forKey: waiter) }
                pending?.finish(failure.map { .failure(Self.error($0, file.id)) } ?? .success(()))
            case .complete:
                noteComplete(file)
            }
        }
    }

    private static func error(_ code: CloudFSError.Code, _ id: ItemID) -> CloudFSError {
        switch code {
        case .timedOut: CloudFSError(code, "the cloud did not send the bytes in time", item: id)
        case .remoteChanged: CloudFSError(code, "this version is gone from the cloud", item: id)
        case .offline: CloudFSError(code, "the cloud cannot be reached", item: id)
        default: CloudFSError(code.ofCloud, "the bytes could not be fetched", item: id)
        }
    }

    private func start(
        _ request: HydrationPlan.RequestID,
        _ range: Range<Int64>,
        on file: OpenFile,
        from origin: Origin?
    ) {
        files.retain(file)
        // The task cannot end before it is registered: ending takes the same lock.
        file.state.withLock { state in
            let generation = state.generation
            state.fetches[request] = Task {
                let failure = await fetch(request, range, generation, of: file, from: origin)
                finish(request, generation, failure: failure, on: file)
                await release(file)
            }
        }
    }

    /// Fetches a range; a link that drops requests is given a few seconds to do better.
    private func fetch(
        _ request: HydrationPlan.RequestID,
        _ range: Range<Int64>,
        _ generation: Int64,
        of file: OpenFile,
        from known: Origin?
    ) async -> FetchFailure? {
        let reached = ReachedOffset(range.lowerBound)
        let patience = min(Self.patience, files.hydration.settings.stallTimeout)
        var (end, failedAt) = (files.clocks.elapsed() + patience, range.lowerBound)
        var delay = Duration.milliseconds(50)
        var (origin, next) = (known, known)
        var hasWaiter = false
        while true {
            let rest = reached.offset.withLock { $0 }..<range.upperBound
            guard !rest.isEmpty else { return nil }
            do throws(CloudFSError) {
                let current = if let next { next } else { try await self.origin(of: file) }
                (origin, next) = (current, nil)
                try await whileReachable(reached) { () async throws(CloudFSError) in
                    try await self.attempt(
                        request,
                        rest,
                        generation,
                        of: file,
                        from: current,
                        reached
                    )
                }
                return nil
            } catch {
                let outlook =
                    if error.isLackOfRoom {
                        await outlookForRoom(for: request, rest, of: file)
                    } else {
                        Outlook(chance: await chance(after: error, file, origin))
                    }
                // Who begins to wait for what nobody did has all the time that others have.
                let isFirst = error.isLackOfRoom && outlook.isAwaited && !hasWaiter
                hasWaiter = hasWaiter || isFirst
                if outlook.chance == .elsewhere || isFirst {
                    end = files.clocks.elapsed() + patience
                }
                let offset = reached.offset.withLock { $0 }
                if offset > failedAt {
                    (end, failedAt) = (files.clocks.elapsed() + patience, offset)
                    delay = .milliseconds(50)
                }
                guard outlook.chance != .none, !Task.isCancelled,
                    files.clocks.elapsed() + delay < end
                else { return FetchFailure(error: error, isUnwanted: !outlook.isAwaited) }
            }
            do {
                try await Task.sleep(for: delay)
            } catch {
                let ended = CloudFSError(.cancelled, "the fetch was ended", item: file.id)
                return FetchFailure(error: ended, isUnwanted: false)
            }
            delay = min(delay * 2, .seconds(1))
        }
    }

    /// How long a fetch is tried again, without a byte more, while the cloud is out of reach or the
    /// disk is full.
    static let patience = Duration.seconds(5)

    /// Where the cloud has the bytes of a file: what one attempt relies on.
    struct Origin: Equatable, Sendable {
        /// The item and the folders above it.
        var lineage: [BaseRecord]
        var path: RemotePath
        var version: ItemVersion
    }

    /// Where to fetch from now.
    ///
    /// The content is the open file's own, never a newer one that the catalog may know by now:
    /// bytes of two versions must not meet in one file. Where this machine itself wrote the item's
    /// metadata, `Uploader` tells the file that its bytes have other tokens.
    func origin(of file: OpenFile) async throws(CloudFSError) -> Origin {
        try await blocking { try self.originNow(of: file) }
    }

    /// The same for who may block and begins to read: most fetches need no other.
    ///
    /// - Returns: `nil` if nothing is to be fetched, or it is to be asked for later.
    private func firstOrigin(
        of file: OpenFile,
        for actions: [HydrationPlan.Action]
    ) -> Origin? {
        guard actions.contains(where: { if case .fetch = $0 { true } else { false } }) else {
            return nil
        }
        // What fails is tried again by the fetch, and told to who waits for that.
        return try? originNow(of: file)
    }

    private func originNow(of file: OpenFile) throws(CloudFSError) -> Origin {
        let gone = CloudFSError(.remoteChanged, "the cloud no longer has it", item: file.id)
        // Of an item that lost its base, another one has none of the bytes.
        let (base, heir) = file.state.withLock { ($0.lostSize == nil ? $0.base : nil, $0.heir) }
        let lineage = try files.catalog.readFew { reader in
            // Until what was saved in its place is sent, the cloud has the bytes there.
            try reader.remoteLineage(of: file.id)
                ?? heir.flatMap { try reader.remoteLineage(of: $0) }
        }
        guard let lineage, let known = lineage.first, let base else { throw gone }
        return Origin(
            lineage: lineage,
            path: try RemotePath(lineage: lineage),
            // Other metadata beside the same bytes is news that does not concern the open file.
            version: known.version.content == base.version.content ? known.version : base.version
        )
    }

    private func attempt(
        _ request: HydrationPlan.RequestID,
        _ range: Range<Int64>,
        _ generation: Int64,
        of file: OpenFile,
        from origin: Origin,
        _ reached: ReachedOffset
    ) async throws(CloudFSError) {
        counters.withLock { $0.requests += 1 }
        let item = try await provider.fetch(
            origin.path,
            range: range,
            version: origin.version
        ) {
            offset,
            bytes throws(CloudFSError) in
            let actions = try await self.blocking {
                try self.fill(request, generation, offset, bytes, of: file)
            }
            reached.offset.withLock { $0 = offset + Int64(bytes.count) }
            self.perform(actions, on: file)
            if self.evictor.isDue(afterFilling: bytes.count) {
                var pause = Evictor.shortestPause
                defer { self.evictor.rest(for: pause) }
                pause = try await self.blocking { self.keepRoom() }
            }
        }
        if let item { Task { await onNews(file.id, .details(item)) } }
    }

    private func finish(
        _ request: HydrationPlan.RequestID,
        _ generation: Int64,
        failure: FetchFailure?,
        on file: OpenFile
    ) {
        let actions = file.state.withLock { state -> [HydrationPlan.Action] in
            state.fetches[request] = nil
            guard state.generation == generation else { return [] }
            let event = failure?.event(of: request) ?? .requestEnded(request)
            return files.handle(event, &state, files.clocks.elapsed())
        }
        perform(actions, on: file)
        if let error = failure?.error, error.code != .cancelled {
            logger.debug(
                "a fetch failed",
                metadata: ["item.id": "\(file.id)", "error": "\(error)"]
            )
        }
    }

    private func release(_ file: OpenFile) async {
        do throws(CloudFSError) {
            try await files.release(file, on: pool)
        } catch {
            report(error, onRelease: file)
        }
    }

    /// Ends one use of a file; a failure is logged.
    ///
    /// May block on the disk.
    func releaseNow(_ file: OpenFile) {
        do throws(CloudFSError) {
            try files.release(file)
        } catch {
            report(error, onRelease: file)
        }
    }

    private func report(_ error: any Error, onRelease file: OpenFile) {
        logger.error(
            "the state of a file could not be stored",
            metadata: ["item.id": "\(file.id)", "error": "\(error)"]
        )
    }

    func blocking<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws(CloudFSError) -> Value {
        try await pool.engine(work)
    }
}

/// A read that waits for its bytes.
struct HydrationWait: Sendable {
    let file: OpenFile
    let waiter: HydrationPlan.WaiterID
    let pending: Pending<Void>
}
