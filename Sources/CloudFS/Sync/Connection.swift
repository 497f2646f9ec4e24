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
        state.withLock { $0.connection = .online }
    }

    /// Since when nothing is to be sent or fetched that nobody waits for; `nil` for no pause.
    var pausedSince: Timestamp? { state.withLock { $0.pausedSince } }

    var isPaused: Bool { pausedSince != nil }

    func setPaused(since moment: Timestamp?) {
        state.withLock { $0.pausedSince = moment }
    }

    /// Notes an error of the provider; only those of the network mean that it is out of reach.
    func didFail(_ error: CloudFSError) {
        if error.isOfConnection { didLose(error) }
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
        state.withLock { state in
            if case .offline(_, let since) = state.connection {
                state.connection = .offline(reason: error.message, since: since)
            } else {
                state.connection = .offline(reason: error.message, since: now)
            }
        }
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
