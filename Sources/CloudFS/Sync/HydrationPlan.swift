/// Decides which bytes of one item are asked for, when, and which readers go on.
///
/// A pure value: events and the time go in, actions come out, and whoever runs them reports back.
/// A reader waits for its own bytes only; everything else that is fetched is a guess, comes
/// after all readers, and is never asked for twice.
///
/// - Invariant: the ranges that running requests still owe do not overlap, and lie within the file.
struct HydrationPlan: Sendable {
    struct RequestID: Hashable, Sendable {
        let rawValue: UInt64
    }

    struct WaiterID: Hashable, Sendable {
        let rawValue: UInt64
    }

    /// How much of a file is fetched; named as in the Cloud Files API of Windows.
    enum Policy: Hashable, Sendable {
        /// What is read at once; then the whole file, if it is no longer than `limit` bytes.
        case progressive(limit: Int64)
        /// What is read, and what sequential readers are about to read.
        case partial
        /// Everything, before an open is answered.
        case full
    }

    struct Settings: Sendable {
        /// How many requests may run for readers, and how many for everything together.
        var maximumParallelRequests = 4
        /// How few bytes a request for more than what a reader waits for has.
        var shortestRequest: Int64 = 4 << 20
        /// How far is read ahead of a sequential reader at most.
        var largestWindow: Int64 = 256 << 20
        /// How long a reader waits without any progress on its bytes.
        var stallTimeout: Duration = .seconds(30)
        /// How long a range that failed goes on failing without being asked for.
        var failureMemory: Duration = .seconds(1)
    }

    enum Event: Sendable {
        /// A program reads `range`; told also when the bytes are present, as habits show there too.
        ///
        /// `handle` is `nil` for a wait that is no read and shows no habit.
        case read(WaiterID, Range<Int64>, handle: UInt64?)
        case cancelRead(WaiterID)
        /// `range` of the answer to a request is on disk.
        case delivered(RequestID, Range<Int64>)
        /// The request has delivered all that it will.
        case requestEnded(RequestID)
        case requestFailed(RequestID, CloudFSError.Code)
        /// There is no room for what a request still owes, and nobody waited for that when it was
        /// given up: who does by now is served by another one, for which more room is made.
        case requestGivenUp(RequestID, CloudFSError.Code)
        /// A program wrote `range`; what the cloud has there is no longer wanted.
        case localWrite(Range<Int64>)
        /// The file was cut here: behind it the base is zeros, whatever the cloud has.
        case truncated(to: Int64)
        /// The whole file is wanted; `forced` whatever the policy and its limit say.
        case completeAll(forced: Bool)
        /// From now on, or no longer, nothing comes beyond what is read and read ahead.
        case hold(Bool)
        /// These bytes, which were `expendable`, are not here any more.
        case thinned(ByteRangeSet)
        /// The version that was being fetched is gone from the cloud.
        case remoteChanged
        /// Readers without progress for `stallTimeout` give up with this code.
        case expireStalled(CloudFSError.Code)
        /// `nextTick` has come.
        case tick
    }

    enum Action: Hashable, Sendable {
        case fetch(RequestID, Range<Int64>)
        /// The request is over for the plan: whatever it still delivers is ignored.
        case cancel(RequestID)
        /// The bytes are there, or `failure` says why not.
        case wake(WaiterID, failure: CloudFSError.Code?)
        /// Every byte of the file is present. Said once.
        case complete
    }

    struct Waiter: Sendable {
        var id: WaiterID
        var range: Range<Int64>
        var handle: UInt64?
        var since: Duration

        /// Whether the bytes come in turns with other work, as there are too many for one request.
        var isBulk: Bool { range.count > HydrationPlan.longestRequest }
    }

    enum Reason: Hashable, Sendable {
        case reader
        case bulkReader
        case readAhead
        case completion
    }

    struct Request: Sendable {
        var id: RequestID
        var reason: Reason
        /// What was asked for.
        var range: Range<Int64>
        /// Up to where the answer is still wanted: another request may have taken over the rest.
        var end: Int64
        /// Up to where it has delivered.
        var position: Int64
        var lastProgress: Duration

        /// What it still owes.
        var outstanding: Range<Int64> { min(position, end)..<end }
    }

    struct Failure: Sendable {
        var range: Range<Int64>
        var code: CloudFSError.Code
        var until: Duration
    }

    static let blockSize: Int64 = 4096
    /// Files up to this length come whole, and guesses begin only beyond it.
    static let smallByteCount: Int64 = 64 << 10
    static let longestRequest: Int64 = 8 << 20
    /// How far ahead of a running request a reader's bytes may lie before they are fetched apart.
    static let farDistance: Int64 = 1 << 20

    /// The length of the base version; bytes behind it are the machine's own.
    let size: Int64
    let settings: Settings
    var policy: Policy

    /// Which bytes need no fetching: they were fetched or written here.
    var present: ByteRangeSet
    /// Whether everything is to come, in the background.
    var isCompleting = false
    /// Whether policy and limit have no say in that.
    var isForced = false
    /// Whether that rests, as a person wants it.
    var isHeld = false
    /// Whether bytes were dropped for want of room, so that it does not come whole unless forced.
    var isScarce = false
    /// Whether the version is gone, so that nothing more can come.
    var isOutdated = false
    /// Why the last request failed; `nil` after the next delivery.
    var lastFailure: CloudFSError.Code?

    var waiters: [Waiter] = []
    var requests: [Request] = []
    var streams: [ReadStream] = []
    var failures: [Failure] = []
    /// Guesses rest until then, after a failure.
    var guessesPausedUntil: Duration?
    var failuresInARow = 0
    var lastProgress: Duration = .zero
    var completionPosition: Int64 = 0
    var nextRequest: UInt64
    var hasSaidComplete = false

    /// Plans for a base version of `size` bytes, of which `present` are here already.
    ///
    /// - Parameter firstRequest: The number of its first request. What was decided for an earlier
    ///   plan of the same file may still be done after this one is made.
    init(
        firstRequest: UInt64 = 1,
        size: Int64,
        present: ByteRangeSet = ByteRangeSet(),
        isOutdated: Bool = false,
        policy: Policy,
        settings: Settings = Settings()
    ) {
        precondition(size >= 0 && settings.maximumParallelRequests > 0, "not a plan")
        nextRequest = firstRequest
        self.size = size
        self.present = present
        self.present.remove(size..<Int64.max)
        self.isOutdated = isOutdated
        self.policy = policy
        self.settings = settings
        isForced = policy == .full
        isCompleting = isForced
    }

    /// Whether every byte of the base is present.
    var isComplete: Bool { present.contains(0..<size) }

    /// Whether the base's bytes of `range` need no fetching.
    func isPresent(_ range: Range<Int64>) -> Bool {
        let range = range.clamped(to: 0..<size)
        return range.isEmpty || present.contains(range)
    }

    var isIdle: Bool { waiters.isEmpty && requests.isEmpty }

    /// Applies `event` and says what is to be done, in order.
    mutating func handle(_ event: Event, now: Duration) -> [Action] {
        failures.removeAll { $0.until <= now }
        var actions: [Action] = []
        switch event {
        case .read(let waiter, let range, let handle):
            read(waiter, range, handle: handle, now: now, &actions)
        case .cancelRead(let waiter):
            abandon(waiter, &actions)
        case .delivered(let request, let range):
            delivered(request, range, now: now)
        case .requestEnded(let request):
            ended(request, failure: .corrupt, now: now, &actions)
        case .requestFailed(let request, let code):
            ended(request, failure: code, now: now, &actions)
        case .requestGivenUp(let request, let code):
            giveUp(request, failure: code, now: now)
        case .localWrite(let range):
            present.insert(range.clamped(to: 0..<size))
        case .truncated(let length):
            cut(to: length)
        case .completeAll(let forced):
            isForced = isForced || forced
            if isForced || mayComplete { isCompleting = true }
        case .hold(let isHeld):
            self.isHeld = isHeld
        case .thinned(let dropped):
            thin(dropped, &actions)
        case .remoteChanged:
            outdate(&actions)
        case .expireStalled(let code):
            expireStalled(code, now: now, &actions)
        case .tick:
            break
        }
        cancelNeedless(&actions)
        wakeSatisfied(&actions)
        if isHeld { cancelUnawaited(&actions) }
        schedule(now: now, &actions)
        if isComplete && !hasSaidComplete {
            hasSaidComplete = true
            actions.append(.complete)
        }
        assert(invariantsHold, "requests overlap, or leave the file")
        return actions
    }

    /// Notes that the file was cut; who waits for what is behind hears of it with the next event.
    mutating func cut(to length: Int64) {
        present.insert(min(length, size)..<size)
    }

    /// The parts of a delivery that may be written to the content file.
    ///
    /// Nothing for requests that were cancelled, and nothing where bytes are present already:
    /// those may have been written here since the request began.
    func wanted(of range: Range<Int64>, for request: RequestID) -> [Range<Int64>] {
        guard let request = requests.first(where: { $0.id == request }) else { return [] }
        return present.missing(in: range.clamped(to: request.range))
    }

    /// The readers whose bytes have made no progress for `stallTimeout`.
    func stalledWaiters(now: Duration) -> [WaiterID] {
        waiters.filter { isStalled($0, now: now) }.map(\.id)
    }

    /// When `tick` is wanted: something waits for time to pass, not for an event.
    var nextTick: Duration? {
        guard isCompleting, !isHeld, !isComplete, !isOutdated else { return nil }
        return guessesPausedUntil
    }

    /// Whether the ranges that requests owe are apart and within the file.
    var invariantsHold: Bool {
        let owed = requests.map(\.outstanding).filter { !$0.isEmpty }
            .sorted { $0.lowerBound < $1.lowerBound }
        return zip(owed, owed.dropFirst()).allSatisfy { $0.upperBound <= $1.lowerBound }
            && owed.allSatisfy { $0.lowerBound >= 0 && $0.upperBound <= size }
    }
}

// MARK: - Events

extension HydrationPlan {
    private mutating func read(
        _ waiter: WaiterID,
        _ range: Range<Int64>,
        handle: UInt64?,
        now: Duration,
        _ actions: inout [Action]
    ) {
        let range = range.clamped(to: 0..<size)
        guard !range.isEmpty else {
            actions.append(.wake(waiter, failure: nil))
            return
        }
        if let handle { follow(range, handle: handle) }
        let missing = present.missing(in: range)
        guard !missing.isEmpty else {
            actions.append(.wake(waiter, failure: nil))
            return
        }
        let recent = failures.first { failure in missing.contains { $0.overlaps(failure.range) } }
        if isOutdated || recent != nil {
            actions.append(.wake(waiter, failure: isOutdated ? .remoteChanged : recent?.code))
            return
        }
        waiters.append(Waiter(id: waiter, range: range, handle: handle, since: now))
    }

    private mutating func delivered(_ id: RequestID, _ range: Range<Int64>, now: Duration) {
        guard let index = requests.firstIndex(where: { $0.id == id }) else { return }
        let range = range.clamped(to: requests[index].range)
        guard !range.isEmpty else { return }
        present.insert(range)
        requests[index].position = max(requests[index].position, range.upperBound)
        requests[index].lastProgress = now
        lastProgress = now
        lastFailure = nil
        failuresInARow = 0
    }

    /// Takes a request off; what it still owed has failed.
    ///
    /// Only readers that waited for these bytes make the failure known to later ones: a guess
    /// that failed must not fail a program that never waited for it.
    private mutating func ended(
        _ id: RequestID,
        failure: CloudFSError.Code,
        now: Duration,
        _ actions: inout [Action]
    ) {
        guard let owed = giveUp(id, failure: failure, now: now) else { return }
        let missing = present.missing(in: owed)
        let failed = waiters.filter { waiter in
            missing.contains { $0.overlaps(waiter.range) }
        }
        guard !failed.isEmpty else { return }
        actions += failed.map { .wake($0.id, failure: failure) }
        failures.append(Failure(range: owed, code: failure, until: now + settings.failureMemory))
        waiters.removeAll { waiter in failed.contains { $0.id == waiter.id } }
        for waiter in failed { cancelReads(for: waiter, &actions) }
    }

    /// Takes a request off that has not delivered all; guesses rest.
    ///
    /// - Returns: What it still owed, unless all of that is here.
    @discardableResult
    private mutating func giveUp(
        _ id: RequestID,
        failure: CloudFSError.Code,
        now: Duration
    ) -> Range<Int64>? {
        guard let index = requests.firstIndex(where: { $0.id == id }) else { return nil }
        let owed = requests.remove(at: index).outstanding
        guard !present.missing(in: owed).isEmpty else { return nil }
        lastFailure = failure
        failuresInARow += 1
        let pause = min(60, 1 << min(failuresInARow - 1, 6))
        guessesPausedUntil = now + .seconds(pause)
        for index in streams.indices { streams[index].aheadEnd = streams[index].next }
        return owed
    }

    private mutating func abandon(_ id: WaiterID, _ actions: inout [Action]) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        let waiter = waiters.remove(at: index)
        for index in streams.indices where streams[index].handle == waiter.handle {
            streams[index].aheadEnd = streams[index].next
        }
        cancelReads(for: waiter, &actions)
    }

    private mutating func outdate(_ actions: inout [Action]) {
        isOutdated = true
        wakeSatisfied(&actions)
        actions += requests.map { .cancel($0.id) }
        actions += waiters.map { .wake($0.id, failure: .remoteChanged) }
        requests.removeAll()
        waiters.removeAll()
    }

    private mutating func expireStalled(
        _ code: CloudFSError.Code,
        now: Duration,
        _ actions: inout [Action]
    ) {
        let stalled = requests.filter { now - $0.lastProgress >= settings.stallTimeout }
        let readers = Set(stalledWaiters(now: now))
        // What waited for one of them may have been all that another was for.
        for request in stalled where requests.contains(where: { $0.id == request.id }) {
            actions.append(.cancel(request.id))
            ended(request.id, failure: code, now: now, &actions)
        }
        // Those that no request ever came to serve.
        for waiter in waiters where readers.contains(waiter.id) {
            actions.append(.wake(waiter.id, failure: code))
        }
        waiters.removeAll { readers.contains($0.id) }
    }

    private func isStalled(_ waiter: Waiter, now: Duration) -> Bool {
        let serving = requests.filter { $0.outstanding.overlaps(waiter.range) }
        let progress = serving.isEmpty ? lastProgress : serving.map(\.lastProgress).max()
        return now - max(waiter.since, progress ?? waiter.since) >= settings.stallTimeout
    }

    private mutating func wakeSatisfied(_ actions: inout [Action]) {
        waiters.removeAll { waiter in
            guard present.contains(waiter.range) else { return false }
            actions.append(.wake(waiter.id, failure: nil))
            return true
        }
    }

    /// Cancels requests all of whose bytes came from elsewhere or were taken over.
    private mutating func cancelNeedless(_ actions: inout [Action]) {
        requests.removeAll { request in
            guard request.position < request.range.upperBound,
                present.contains(request.outstanding)
            else { return false }
            actions.append(.cancel(request.id))
            return true
        }
    }

    /// Cancels what is to come beyond what is read, as far as nobody waits for it.
    private mutating func cancelUnawaited(_ actions: inout [Action]) {
        requests.removeAll { request in
            let owed = request.outstanding
            guard request.reason == .completion || request.reason == .bulkReader, !owed.isEmpty,
                !waiters.contains(where: { $0.range.overlaps(owed) })
            else { return false }
            actions.append(.cancel(request.id))
            return true
        }
    }

    /// Cancels what was fetched for a reader that is gone, and that no other reader waits for.
    private mutating func cancelReads(for waiter: Waiter, _ actions: inout [Action]) {
        guard !isCompleting else { return }
        requests.removeAll { request in
            let owed = request.outstanding
            guard request.reason == .reader || request.reason == .bulkReader,
                !owed.isEmpty, owed.overlaps(waiter.range),
                !waiters.contains(where: { $0.range.overlaps(owed) })
            else { return false }
            actions.append(.cancel(request.id))
            return true
        }
    }
}
