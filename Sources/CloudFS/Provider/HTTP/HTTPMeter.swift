import Synchronization

/// The bounds of one exchange, in time spent on the network.
struct HTTPLimits: Sendable, Equatable {
    /// For the whole exchange; where a body is sent, from the first byte of the answer.
    var total: Duration
    /// From the end of the request to the first byte of the answer.
    var firstByte: Duration
    /// Between two pieces in either direction.
    var idle: Duration
}

/// Tells how long an exchange has waited for the network, in all and since something last moved.
///
/// The time that this machine takes for itself does not count: a limit of bandwidth or a slow
/// disk must not look like a dead server.
final class HTTPMeter: Sendable {
    private struct State {
        var spent = Duration.zero
        var since: Duration?
        /// A meter begins paused, until there is a connection to wait for.
        var pauses = 1
        var movedAt = Duration.zero
        var allowance: Duration
        /// When the bound of the whole began to count; `nil` until a body is answered.
        var countedFrom: Duration? = .zero
        var isAnswered = false
        var status: Int?
        var hasExpired = false

        func networkTime(at now: Duration) -> Duration {
            spent + (since.map { now - $0 } ?? .zero)
        }
    }

    let limits: HTTPLimits
    private let elapsed: @Sendable () -> Duration
    private let state: Mutex<State>

    init(limits: HTTPLimits, elapsed: @escaping @Sendable () -> Duration) {
        self.limits = limits
        self.elapsed = elapsed
        state = Mutex(State(allowance: limits.firstByte))
    }

    /// The time spent on the network so far.
    var networkTime: Duration {
        let now = elapsed()
        return state.withLock { $0.networkTime(at: now) }
    }

    /// Whether the exchange was ended for being too slow.
    var hasExpired: Bool { state.withLock { $0.hasExpired } }

    /// What the last try was answered; `nil` where it was not.
    var status: Int? { state.withLock { $0.status } }

    func note(status: Int) {
        state.withLock { $0.status = status }
    }

    /// Something of the answer came.
    func move() {
        let now = elapsed()
        state.withLock { state in
            state.movedAt = state.networkTime(at: now)
            state.allowance = limits.idle
            state.isAnswered = true
            state.countedFrom = state.countedFrom ?? state.movedAt
        }
    }

    /// Something of the body was taken; the next movement may take `allowance`.
    ///
    /// How long all of it takes is the link's affair: the bound of the whole counts only once
    /// there is an answer.
    func send(allowing allowance: Duration) {
        let now = elapsed()
        state.withLock { state in
            guard !state.isAnswered else { return }
            state.movedAt = state.networkTime(at: now)
            state.allowance = allowance
            state.countedFrom = nil
        }
    }

    /// This machine is busy with itself until `resume`.
    func pause() {
        let now = elapsed()
        state.withLock { state in
            state.spent = state.networkTime(at: now)
            state.since = nil
            state.pauses += 1
        }
    }

    func resume() {
        let now = elapsed()
        state.withLock { state in
            precondition(state.pauses > 0, "a pause ends once")
            state.pauses -= 1
            if state.pauses == 0 { state.since = now }
        }
    }

    /// The time until a limit is reached if nothing moves; `nil` once one is.
    func remaining() -> Duration? {
        let now = elapsed()
        return state.withLock { state in
            let networkTime = state.networkTime(at: now)
            let untilIdle = state.movedAt + state.allowance - networkTime
            let untilEnd = state.countedFrom.map { $0 + limits.total - networkTime }
            let left = min(untilEnd ?? untilIdle, untilIdle)
            guard left <= .zero else { return left }
            state.hasExpired = true
            return nil
        }
    }

    /// Returns when a limit is reached, or when the task is cancelled.
    func waitUntilExpired(by alarms: AlarmClock) async {
        while let left = remaining() {
            do {
                // An allowance may have become smaller meanwhile, down to that of idleness.
                try await alarms.sleep(for: max(min(left, limits.idle), .milliseconds(5)))
            } catch {
                return
            }
        }
    }
}
