import Synchronization

/// The queries that clients follow: hands all of them what changes.
final class LiveQueries: Sendable {
    private struct State {
        var queries: [UInt64: LiveQuery] = [:]
        var next: UInt64 = 1
    }

    private let state = Mutex(State())

    init(_ hub: ChangeHub) {
        hub.subscribeToAll { [weak self] changes, _ in self?.note(changes) }
    }

    func add(_ query: LiveQuery) -> UInt64 {
        state.withLock { state in
            defer { state.next += 1 }
            state.queries[state.next] = query
            return state.next
        }
    }

    func remove(_ token: UInt64) {
        state.withLock { _ = $0.queries.removeValue(forKey: token) }
    }

    private func note(_ changes: [ItemChange]) {
        let queries = state.withLock { Array($0.queries.values) }
        for query in queries { query.note(changes) }
    }
}
