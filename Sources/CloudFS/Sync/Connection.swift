import Synchronization

/// Whether the cloud can be reached, as the last request found it.
enum ConnectionState: Sendable, Equatable {
    case connecting
    case online
    case offline(reason: String, since: Timestamp)
}

/// The state of the connection, shared by everything that talks to the provider.
final class Connection: Sendable {
    private struct State {
        var connection = ConnectionState.connecting
        var quota: Quota?
        var pausedSince: Timestamp?
        /// Who waits to hear how the first attempt to connect ends.
        var waiting: [Signal] = []

        mutating func set(_ connection: ConnectionState) -> [Signal] {
            self.connection = connection
            defer { waiting = [] }
            return waiting
        }
    }

    private let state = Mutex(State())
    private let clocks: Clocks
    /// Raised when the cloud went out of reach.
    let lost = Signal()
    init(clocks: Clocks) {
        self.clocks = clocks
    }

    var current: ConnectionState { state.withLock { $0.connection } }

    var isOnline: Bool { current == .online }

    /// Space at the provider, as last asked; `nil` when it has no limit.
    var quota: Quota? { state.withLock { $0.quota } }

    func setQuota(_ quota: Quota?) {
        state.withLock { $0.quota = quota }
    }

    func didConnect() {
        for waiting in state.withLock({ $0.set(.online) }) { waiting.raise() }
    }

    /// Waits until it is known whether the cloud can be reached: a drive that has just begun has
    /// not asked yet.
    func untilKnown(atMost limit: Duration) async {
        let known = Signal()
        let isConnecting = state.withLock { state in
            guard state.connection == .connecting else { return false }
            state.waiting.append(known)
            return true
        }
        if isConnecting { await known.wait(atMost: limit) }
    }

    /// Since when nothing is to be sent or fetched that nobody waits for; `nil` for no pause.
    var pausedSince: Timestamp? { state.withLock { $0.pausedSince } }

    var isPaused: Bool { pausedSince != nil }

    func setPaused(since moment: Timestamp?) {
        state.withLock { $0.pausedSince = moment }
    }

    /// Notes an error of the provider; only those of the network mean that it is out of reach.
    ///
    /// While the first attempt to connect is under way, that one tells: other requests may fail
    /// just because it has not ended.
    func didFail(_ error: CloudFSError) {
        if error.isOfConnection, current != .connecting { didLose(error) }
    }

    /// Connects, and notes why if that fails, whatever the reason is.
    func noting<Value>(
        _ connect: () async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        do throws(CloudFSError) {
            return try await connect()
        } catch {
            if error.code != .cancelled { didLose(error) }
            throw error
        }
    }

    private func didLose(_ error: CloudFSError) {
        let now = clocks.now()
        let waiting = state.withLock { state in
            if case .offline(_, let since) = state.connection {
                state.set(.offline(reason: error.message, since: since))
            } else {
                state.set(.offline(reason: error.message, since: now))
            }
        }
        for waiting in waiting { waiting.raise() }
        lost.raise()
    }
}

extension CloudFSError {
    /// Whether it tells that the provider is out of reach, and nothing about what was asked for.
    var isOfConnection: Bool {
        switch code {
        case .offline, .timedOut, .unauthenticated: true
        default: false
        }
    }
}
