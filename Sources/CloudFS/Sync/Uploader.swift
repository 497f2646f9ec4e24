import Logging
import Synchronization

/// Sends what changed here: takes rows of the outbox when their time has come, and retries.
///
/// One item at a time goes through its steps (`OutboxStep`); several items do so at once.
final class Uploader: Sendable {
    let applier: RemoteApplier
    let feed: ChangeFeed
    let connection: Connection
    let coordinator: Coordinator
    let isIgnored: @Sendable (ItemName, Bool) -> Bool
    let logger: Logger
    /// Raised when the outbox may have something new.
    let wake = Signal()

    private struct State {
        var active: Set<ItemID> = []
        /// Those of them that lost their names meanwhile.
        var nameless: Set<ItemID> = []
    }

    private let state = Mutex(State())
    /// What ends the sending of bytes, for each item of which some are being sent.
    private let cancellations = Mutex<[ItemID: @Sendable () -> Void]>([:])
    let reservations = Mutex(PathReservations())
    let waiting = Mutex(WaitingItems(limit: 100_000))
    let lostFolders = LostFolders(limit: 10_000)
    /// More than are sent at once, as others meanwhile read, flush and tell of what they sent: to a
    /// bucket that takes two requests one after the other, which many share.
    private static let parallelItems = 96
    /// With fewer of them to come the queue is not looked at.
    private static let refill = 8

    var files: OpenFiles { applier.files }
    var catalog: Catalog { applier.catalog }
    var pool: BlockingPool { applier.pool }
    var provider: any CloudProvider { applier.provider }
    var clocks: Clocks { applier.files.clocks }

    init(
        applier: RemoteApplier,
        feed: ChangeFeed,
        connection: Connection,
        coordinator: Coordinator,
        isIgnored: @escaping @Sendable (ItemName, Bool) -> Bool,
        logger: Logger
    ) {
        self.applier = applier
        self.feed = feed
        self.connection = connection
        self.coordinator = coordinator
        self.isIgnored = isIgnored
        self.logger = logger
    }

    // MARK: - Control

    /// What is being sent when a pause begins goes on, but for the bytes of files.
    ///
    /// What a file lacks that is to be sent goes on coming here.
    var isPaused: Bool { connection.isPaused }

    /// Looks at once what is to be sent, now that a pause has begun or ended.
    func noticePause() {
        if isPaused { for cancel in cancellations.withLock({ Array($0.values) }) { cancel() } }
        wake.raise()
    }

    /// Sends the bytes of an item, unless a pause comes: then that is given up, and what became of
    /// it is found out as after a connection that broke.
    func untilPaused<Value: Sendable>(
        _ id: ItemID,
        _ send: @escaping @Sendable () async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        let task = Task { () async -> Result<Value, CloudFSError> in
            do throws(CloudFSError) {
                return .success(try await send())
            } catch {
                return .failure(error)
            }
        }
        cancellations.withLock { $0[id] = { task.cancel() } }
        defer { cancellations.withLock { $0[id] = nil } }
        // It may have begun since it was decided to send this.
        if isPaused { task.cancel() }
        return try await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }.get()
    }

    /// Items that are being sent right now.
    var active: Set<ItemID> { state.withLock { $0.active } }

    /// Makes everything that waits ready at once: quiet times end.
    ///
    /// - Parameter alsoFailed: Whether delays after failures end too.
    func hurry(alsoFailed: Bool) async throws(CloudFSError) {
        try await pool.engine {
            try self.catalog.write(isLong: true) {
                try $0.makeAllReady(at: self.clocks.now(), alsoFailed: alsoFailed)
            }
        }
        wake.raise()
    }

    // MARK: - Running

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.noticeQueued() }
            while !Task.isCancelled {
                let ready = await takeReady()
                for id in ready {
                    group.addTask {
                        await self.send(id)
                        self.finish(id)
                    }
                }
                await waitForWork()
            }
        }
    }

    /// Has the queue looked at when something was queued.
    ///
    /// It rests for the quiet time, so many changes in a row are one look.
    private func noticeQueued() async {
        let pause = min(files.quietTime, Self.gatheringTime)
        while !Task.isCancelled {
            await catalog.queued.wait()
            do { try await Task.sleep(for: pause) } catch { return }
            wake.raise()
        }
    }

    private static let gatheringTime = Duration.milliseconds(50)

    private func takeReady() async -> [ItemID] {
        guard connection.isOnline else { return [] }
        let room = Self.parallelItems - active.count
        guard room >= Self.refill else { return [] }
        let taken = active
        do {
            let isPaused = isPaused
            let items = try await pool.engine {
                // Not from the writer's cache: a disk that fails must be noticed before items are.
                try self.catalog.read { reader in
                    let now = self.clocks.now()
                    // What became of earlier requests is found out during a pause too.
                    guard !isPaused else { return try reader.unheard(readyAt: now) }
                    let limit = room + taken.count
                    return try reader.outbox(readyAt: now, limit: limit).map(\.item)
                }
            }
            let ready = items.filter { !taken.contains($0) }.prefix(room)
            return state.withLock { state in
                ready.filter { state.active.insert($0).inserted }
            }
        } catch {
            logger.error("the outbox cannot be read", metadata: ["error": "\(error)"])
            return []
        }
    }

    /// Longer than any row is put off: after a failure, or because a program writes the file.
    private var longestDelay: Duration {
        max(RetrySchedule.userInterval, files.quietTime * Self.quietTimesOfOpenFiles) * 2
    }

    /// Whether an item that lost its name is being sent: it is erased when that has ended.
    func erasesLater(_ id: ItemID) -> Bool {
        state.withLock { state in
            guard state.active.contains(id) else { return false }
            state.nameless.insert(id)
            return true
        }
    }

    /// Takes up the steps of an item that another one waits for.
    ///
    /// - Returns: Whether nobody else takes them.
    func begin(_ id: ItemID) -> Bool {
        state.withLock { $0.active.insert(id).inserted }
    }

    func finish(_ id: ItemID) {
        let isNameless = state.withLock { state in
            state.active.remove(id)
            return state.nameless.remove(id) != nil
        }
        // The outbox may have nothing more of it to say.
        if isNameless { Task { try await pool.engine { self.files.eraseSoon(id) } } }
        feed.lookAgain()
        wake.raise()
    }

    private func waitForWork() async {
        let isFull = Self.parallelItems - active.count < Self.refill
        guard connection.isOnline, !isFull else {
            return await wake.wait()
        }
        do {
            let (taken, isPaused) = (active, isPaused)
            let next = try await pool.engine { () throws -> Timestamp? in
                try self.catalog.read { reader in
                    guard !isPaused else { return try reader.nextUnheard(apartFrom: taken) }
                    return try reader.outbox(offset: 0, limit: taken.count + 1)
                        .first { !taken.contains($0.item) }?.notBefore
                }
            }
            guard let next else { return await wake.wait() }
            let delay = next.since(clocks.now())
            // No row was ever put off for so long: the clock was set back since.
            if delay > longestDelay { return try await hurry(alsoFailed: true) }
            if delay > .zero { await wake.wait(atMost: delay) }
        } catch {
            logger.error("the outbox cannot be read", metadata: ["error": "\(error)"])
            await wake.wait(atMost: .seconds(5))
        }
    }

    // MARK: - One item

    private func send(_ id: ItemID) async {
        await applier.precedence.giveWay(with: .upload)
        let begun = clocks.now()
        do throws(CloudFSError) {
            try await run(id, chain: [])
        } catch {
            await didFail(id, error, queuedBy: begun)
        }
    }

    /// How long an item keeps its place, unsent, when the catalog cannot take down that it failed.
    private static let unrecordedPause = Duration.seconds(1)

    /// - Parameter latest: The latest that a change can have been due which was tried.
    func didFail(_ id: ItemID, _ error: CloudFSError, queuedBy latest: Timestamp) async {
        connection.didFail(error)
        do {
            if error.code == .cancelled || error.code == .claimed {
                let pause = error.code == .claimed ? .milliseconds(200) : files.quietTime
                let later = clocks.now() + min(pause, files.quietTime)
                try await pool.engine {
                    try self.catalog.write { try $0.postpone(id, until: later) }
                }
                return
            }
            logger.notice(
                "a change could not be sent",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
            try await pool.engine {
                try self.catalog.write { writer in
                    let attempts = try writer.reader.outboxEntry(of: id)?.attempts ?? 0
                    var random = SystemRandomNumberGenerator()
                    let decision = RetrySchedule().decision(
                        after: error.code,
                        failureCount: attempts + 1,
                        using: &random
                    )
                    try writer.recordFailure(
                        id,
                        error: error,
                        queuedBy: latest,
                        retryAt: self.clocks.now() + decision.delay
                    )
                }
            }
        } catch {
            logger.error("a failure could not be recorded", metadata: ["error": "\(error)"])
            // Nothing puts the row off then, and it would be sent again at once, over and over.
            // Cancelled early, the wait is over.
            try? await Task.sleep(for: Self.unrecordedPause)
        }
    }

    /// Takes the item through its steps until nothing is left to send.
    ///
    /// - Parameter chain: Items that wait for this one, the first first.
    func run(_ id: ItemID, chain: [ItemID]) async throws(CloudFSError) {
        var refreshes = 0
        var last: OutboxStep?
        while !Task.isCancelled {
            guard let (step, facts) = try await next(id, chain: chain) else { return }
            defer { release(id) }
            // A step that changed nothing would be taken for ever: it waits its turn again.
            guard step != last else {
                throw CloudFSError(.cancelled, "\(step) did not help", item: id)
            }
            last = step
            guard step == .ask || !isPaused else { return }
            applier.precedence.noteUpload()
            do throws(CloudFSError) {
                let goesOn = try await take(step, id, facts, chain: chain)
                if !step.isOfAnother { try await noteProgress(of: id, since: facts) }
                guard goesOn else { return }
            } catch {
                guard !step.isOfAnother,
                    [.remoteChanged, .exists, .notFound].contains(error.code)
                else { throw error }
                // The cloud is not as the catalog says: look, let the reconciler decide, go on.
                // Whoever gives up has asked too, or listings would go on leaving the item out.
                try await hear(id)
                guard refreshes < 3 else {
                    guard error.code == .exists, try await leaveToTwin(id, facts.facts.place) else {
                        throw error
                    }
                    return
                }
                refreshes += 1
                last = nil
                if error.code == .remoteChanged { try await doubt(facts.base) }
                try await look(at: facts)
                try await feed.lookAtDeparted(id)
            }
        }
    }

    /// Makes the next listing look closer at an item of which the cloud has another version: what
    /// was written within the same second, or beside the same bytes, it may not tell.
    private func doubt(_ known: BaseRecord?) async throws(CloudFSError) {
        guard let known, !known.version.isSketch else { return }
        try await pool.engine {
            try self.catalog.write { writer in
                guard try writer.reader.base(of: known.item) == known else { return }
                try writer.doubt(known)
            }
        }
    }

    /// Looks at the folders that a step was about, and applies what is there.
    private func look(at facts: OutboxFacts) async throws(CloudFSError) {
        let folders = Set([facts.facts.place?.parent, facts.facts.base?.parent].compactMap { $0 })
        for folder in folders {
            do throws(CloudFSError) {
                try await feed.refresh(folder)
            } catch  where error.code == .notFound || error.code == .notDirectory {
                await feed.hintParent(of: folder)
            } catch  where error.code == .denied {
                // What may not be listed may be written all the same.
            }
        }
    }

    /// How long an item waits before it looks again where it is.
    static let waitingPause = Duration.milliseconds(200)
}
