import Logging
import Synchronization

/// Takes leases of documents at the cloud, renews them, and knows who has the others.
///
/// Programs of this device that take the lease of one document share it: who may write here at one
/// moment is the coordinator's business. `LeasePlan` decides; this only asks and waits.
final class LeaseKeeper: Sendable {
    /// What is known of a document's lease from looks.
    private struct Known {
        var watch = LeaseWatch()
        var lookedAt = Duration.zero
        /// Why the last look failed.
        var trouble: CloudFSError?
    }

    private struct State {
        /// All that need turns: held, or being ended.
        var served: [ObjectIdentifier: LeaseHolding] = [:]
        var held: [DocumentID: LeaseHolding] = [:]
        var known: [DocumentID: Known] = [:]
        var nextInstance: UInt64 = 0
    }

    private let leases: @Sendable () -> (any LeaseStore)?
    private let device: String
    private let duration: Duration
    private let time: LeaseClock
    private let logger: Logger
    /// Half of all instances of this device, by which it knows its own records.
    private let instance: UInt64
    private let pursuits = SingleFlight<DocumentID, Void>()
    private let woken = Signal()
    private let state = Mutex(State())
    private let backoff = Backoff(
        first: .milliseconds(250),
        longest: .seconds(5),
        certainPart: 0.5
    )

    static let defaultDuration = Duration.seconds(60)
    /// How long who wanted a lease has to join it once it is held.
    private static let joiningTime = Duration.seconds(5)
    /// Of how many documents looks are remembered.
    private static let mostKnown = 1_000

    /// - Parameters:
    ///   - leases: The provider's; asked for each use, as they may turn up later.
    ///   - device: This device's name, for the others' users.
    ///   - instance: The device's own number; the same as before, so that it need not wait for a
    ///     lease that an earlier process of it has left behind.
    ///   - duration: How long others wait for this device if it goes away without a word.
    ///   - clock: Must go on while the machine sleeps.
    ///   - logger: Hears of leases that are lost.
    init(
        leases: @escaping @Sendable () -> (any LeaseStore)?,
        device: String,
        instance: UInt64 = DocumentID.random().high,
        duration: Duration = LeaseKeeper.defaultDuration,
        clock: any Clock<Duration> = ContinuousClock(),
        logger: Logger
    ) {
        self.leases = leases
        self.device = device
        self.instance = instance
        self.duration = duration
        self.logger = logger
        time = LeaseClock.from(clock)
    }

    var now: Duration { time.elapsed() }

    /// Whether the cloud has leases, as far as that is known.
    var isAvailable: Bool { leases() != nil }

    /// How long one request is waited for; it may be carried out later all the same.
    private var requestLimit: Duration { max(.seconds(1), duration / 6) }

    // MARK: - Taking

    /// Takes the lease of a document, or joins those here who have it.
    ///
    /// - Parameters:
    ///   - document: The document.
    ///   - process: The program, for the others' users: `soffice (4711)`.
    ///   - timeout: How long it is waited for others; with zero not at all.
    ///   - whenLost: Called once if it is lost before its end.
    /// - Throws: `claimed` (no time to wait) or `timedOut`, whose messages name the holder;
    ///   `offline` and its like when the cloud cannot be reached; `unsupported` where it has no
    ///   leases; `denied`, `readOnly`; `cancelled`.
    func take(
        _ document: DocumentID,
        for process: String,
        within timeout: Duration,
        whenLost: @escaping @Sendable () -> Void = {}
    ) async throws(CloudFSError) -> Lease {
        let deadline = now + (timeout > .zero ? timeout : requestLimit * 2)
        while true {
            if let lease = join(document, whenLost) { return lease }
            if timeout <= .zero { try await requireFree(document) }
            guard now < deadline else { throw lateness(document) }
            try await hold(document, for: process, until: deadline)
        }
    }

    private func join(_ document: DocumentID, _ whenLost: @escaping @Sendable () -> Void) -> Lease?
    {
        guard let holding = state.withLock({ $0.held[document] }),
            let user = holding.join(at: now, whenLost: whenLost)
        else { return nil }
        return Lease(self, holding, user: user)
    }

    /// Waits until this device has the lease.
    private func hold(
        _ document: DocumentID,
        for process: String,
        until deadline: Duration
    ) async throws(CloudFSError) {
        let outcome = await withTaskGroup(of: Result<Void, CloudFSError>.self) { group in
            group.addTask {
                do {
                    try await self.pursuits.value(for: document) {
                        try await self.pursue(document, for: process)
                    }
                    return .success(())
                } catch {
                    return .failure(error as? CloudFSError ?? Self.cancelled)
                }
            }
            group.addTask {
                do {
                    try await self.time.sleep(deadline)
                    return .failure(self.lateness(document))
                } catch {
                    return .failure(Self.cancelled)
                }
            }
            defer { group.cancelAll() }
            return await group.next() ?? .failure(Self.cancelled)
        }
        try outcome.get()
    }

    /// Goes on until the lease is held; the task is cancelled when nobody wants it any more.
    private func pursue(_ document: DocumentID, for process: String) async throws(CloudFSError) {
        let (instance, watch) = state.withLock { state in
            state.nextInstance += 1
            return (state.nextInstance, state.known[document]?.watch ?? LeaseWatch())
        }
        let holding = LeaseHolding(
            LeasePlan(
                document: document,
                holder: LeaseHolder(
                    device: device,
                    process: process,
                    instance: DocumentID(high: self.instance, low: instance)
                ),
                duration: duration,
                watch: watch
            )
        )
        do throws(CloudFSError) {
            try await pursue(holding)
        } catch {
            // A record may be on its way; then others are told not to wait for it.
            holding.update { $0.release() }
            serve(holding)
            throw error
        }
    }

    private func pursue(_ holding: LeaseHolding) async throws(CloudFSError) {
        var pauses = 0
        while true {
            guard !Task.isCancelled else { throw Self.cancelled }
            switch await advance(holding) {
            case .rest:
                holding.keepUnused(until: now + Self.joiningTime)
                state.withLock { $0.held[holding.document] = holding }
                return serve(holding)
            case .pause:
                if let trouble = trouble(of: holding.document) {
                    // Who finds the cloud out of reach decides for himself what to do without.
                    guard trouble.isTransient, pauses > 0 else { throw trouble }
                }
                pauses += 1
                try await pause(pauses)
            case .nothing, .look, .append:
                throw CloudFSError(.corrupt, "the document's leases are damaged in the cloud")
            }
        }
    }

    private func pause(_ count: Int) async throws(CloudFSError) {
        do {
            try await time.sleep(now + delay(count))
        } catch {
            throw Self.cancelled
        }
    }

    private func delay(_ count: Int) -> Duration {
        var random = SystemRandomNumberGenerator()
        return backoff.delay(afterFailures: count, using: &random)
    }

    /// - Throws: `claimed` when somebody else has the lease.
    private func requireFree(_ document: DocumentID) async throws(CloudFSError) {
        let asked = now
        let record = try await request { store throws(CloudFSError) in
            try await store.latest(of: document)
        }
        let now = now
        let watch = state.withLock { state in
            state.known[document, default: Known()].watch.saw(record, asked: asked, at: now)
            state.known[document]?.lookedAt = now
            return state.known[document]?.watch
        }
        guard watch?.isFree == false, let record, !isOwn(record) else { return }
        throw Self.occupied(.claimed, by: record)
    }

    // MARK: - Requests

    /// Does what the plan wants until it wants to wait.
    private func advance(_ holding: LeaseHolding) async -> LeasePlan.Step {
        while true {
            let now = now
            let step = holding.update { $0.next(at: now) }
            switch step {
            case .look: await look(holding)
            case .append(let record): await append(record, holding)
            case .pause, .rest, .nothing: return step
            }
        }
    }

    private func look(_ holding: LeaseHolding) async {
        let (document, asked) = (holding.document, now)
        do throws(CloudFSError) {
            let record = try await request { store throws(CloudFSError) in
                try await store.latest(of: document)
            }
            let now = now
            holding.update { $0.saw(record, asked: asked, at: now) }
            note(holding, nil)
        } catch {
            fail(holding, error)
        }
    }

    private func append(_ record: LeaseRecord, _ holding: LeaseHolding) async {
        do throws(CloudFSError) {
            let isLatest = try await request { store throws(CloudFSError) in
                try await store.append(record)
            }
            let now = now
            holding.update { $0.appended(isLatest, at: now) }
            note(holding, nil)
        } catch {
            fail(holding, error)
        }
    }

    private func fail(_ holding: LeaseHolding, _ error: CloudFSError) {
        let now = now
        holding.update { $0.failed(at: now) }
        // That somebody did not want to wait says nothing of the cloud.
        note(holding, error.code == .cancelled ? nil : error)
    }

    private func note(_ holding: LeaseHolding, _ trouble: CloudFSError?) {
        let (now, watch) = (now, holding.plan.watch)
        state.withLock { state in
            if state.known.count >= Self.mostKnown {
                // What is forgotten costs whoever wants it the time to watch it anew.
                state.known = state.known.filter { state.held[$0.key] != nil }
            }
            state.known[holding.document] = Known(watch: watch, lookedAt: now, trouble: trouble)
        }
    }

    private func trouble(of document: DocumentID) -> CloudFSError? {
        state.withLock { $0.known[document]?.trouble }
    }

    private func request<Value: Sendable>(
        _ body: @escaping @Sendable (any LeaseStore) async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        guard let store = leases() else {
            throw CloudFSError(.unsupported, "this cloud cannot give leases to its devices")
        }
        let late = CloudFSError(.offline, "the cloud did not answer when asked for a lease")
        do {
            return try await withDeadline(requestLimit, or: late) { try await body(store) }
        } catch let error as CloudFSError where error.code == .timedOut {
            // To whoever wants the lease, that would mean that somebody else has it.
            throw CloudFSError(.offline, error.message, cause: error)
        } catch {
            throw error as? CloudFSError ?? Self.cancelled
        }
    }

    // MARK: - Keeping

    /// Renews what is held, and tells the cloud of ends, until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            while !Task.isCancelled {
                let (due, next) = collect()
                for holding in due { group.addTask { await self.turn(holding) } }
                await rest(until: next)
            }
        }
    }

    /// Ends all leases, for the end of a drive; those of who cannot be told end by themselves.
    func endAll() async {
        let all = state.withLock { Array($0.served.values) }
        await withDiscardingTaskGroup { group in
            for holding in all {
                holding.abandon()
                // One that is being asked about already is ended by whoever asks.
                guard case .now = holding.takeTurn(at: now) else { continue }
                group.addTask { await self.turn(holding) }
            }
        }
    }

    /// Lets a change be noticed.
    func wake() {
        woken.raise()
    }

    private func serve(_ holding: LeaseHolding) {
        state.withLock { $0.served[ObjectIdentifier(holding)] = holding }
        wake()
    }

    private func collect() -> (due: [LeaseHolding], next: Duration?) {
        let now = now
        var due: [LeaseHolding] = []
        var next: Duration?
        for (id, holding) in state.withLock({ $0.served }) {
            switch holding.takeTurn(at: now) {
            case .now: due.append(holding)
            case .later(let moment), .busy(until: let moment?): next = min(next ?? moment, moment)
            case .busy(until: nil): break
            case .over: remove(holding, id)
            }
        }
        return (due, next)
    }

    private func remove(_ holding: LeaseHolding, _ id: ObjectIdentifier) {
        if holding.plan.phase == .lost {
            logger.notice(
                "a lease was lost",
                metadata: ["document": "\(holding.document)"]
            )
        }
        state.withLock { state in
            state.served[id] = nil
            if state.held[holding.document] === holding { state.held[holding.document] = nil }
        }
    }

    private func turn(_ holding: LeaseHolding) async {
        switch await advance(holding) {
        case .pause:
            holding.endTurn(restingUntil: now + delay(holding.countPause()))
        case .rest(let moment):
            holding.forgetPauses()
            holding.endTurn(restingUntil: moment)
        case .nothing, .look, .append: holding.endTurn(restingUntil: now)
        }
        wake()
    }

    private func rest(until moment: Duration?) async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.woken.wait(atMost: nil) }
            if let moment {
                group.addTask { do { try await self.time.sleep(moment) } catch { return } }
            }
            await group.next()
            group.cancelAll()
        }
    }

    // MARK: - For people

    /// The records of the leases that this device holds.
    var held: [LeaseRecord] {
        let now = now
        return state.withLock { Array($0.held.values) }.compactMap { holding in
            let plan = holding.plan
            return plan.isHeld(at: now) ? plan.record : nil
        }
    }

    /// The records of others that this device has met lately.
    var foreign: [LeaseRecord] {
        let now = now
        return state.withLock { Array($0.known.values) }.compactMap { known in
            guard let record = known.watch.record, !known.watch.isFree, !isOwn(record),
                now - known.lookedAt < LeaseTerm(record.duration).watched
            else { return nil }
            return record
        }
    }

    private func isOwn(_ record: LeaseRecord) -> Bool { record.holder?.instance.high == instance }

    private func lateness(_ document: DocumentID) -> CloudFSError {
        let known = state.withLock { $0.known[document] }
        if let trouble = known?.trouble { return trouble }
        guard let record = known?.watch.record, known?.watch.isFree == false else {
            return CloudFSError(.timedOut, "the document's lease was not given in time; try again")
        }
        return Self.occupied(.timedOut, by: record)
    }

    private static func occupied(
        _ code: CloudFSError.Code,
        by record: LeaseRecord
    ) -> CloudFSError {
        let holder = record.holder.map { "\($0)" } ?? "a device that does not say its name"
        return CloudFSError(code, "the document is being changed by \(holder); try again later")
    }

    private static let cancelled = CloudFSError(.cancelled, "taking a lease was cancelled")
}
