import CloudFS
import NIOCore
import Synchronization

/// What all connections of a `FakeS3Server` share.
final class FakeS3Core: Sendable {
    struct State {
        var store = FakeS3Store()
        var faults: [FakeS3Fault] = []
        var requests: [FakeS3Request] = []
        var requestCount = 0
        var connectionCount = 0
        var connections: [Int: any Channel] = [:]
        var mostConnections = 0
        /// The numbers of the requests that are not answered yet.
        var active: Set<Int> = []
        var mostActive = 0
        var sentByteCount: Int64 = 0
    }

    let state = Mutex(State())

    var settings: FakeS3Settings { state.withLock { $0.store.settings } }

    /// The time by the server's clock.
    var now: Timestamp { state.withLock { $0.store.now } }

    // MARK: - Connections

    func opened(_ channel: any Channel) -> Int {
        state.withLock { state in
            state.connectionCount += 1
            state.connections[state.connectionCount] = channel
            state.mostConnections = max(state.mostConnections, state.connections.count)
            return state.connectionCount
        }
    }

    func closed(_ connection: Int) {
        state.withLock { $0.connections[connection] = nil }
    }

    // MARK: - A request from its head to its answer

    /// Records a request whose head has come; returns it with its number, and what is to go wrong.
    func begin(_ request: FakeS3Request) -> (FakeS3Request, [FakeS3Fault.Action]) {
        state.withLock { state in
            var request = request
            state.requestCount += 1
            request.number = state.requestCount
            state.requests.append(request)
            state.active.insert(request.number)
            state.mostActive = max(state.mostActive, state.active.count)
            var actions: [FakeS3Fault.Action] = []
            for index in state.faults.indices where state.faults[index].hits(request) {
                actions.append(state.faults[index].action)
            }
            state.faults.removeAll { $0.count == 0 }
            return (request, actions)
        }
    }

    func received(_ byteCount: Int64, of request: FakeS3Request) {
        change(request) { $0.bodyByteCount = byteCount }
    }

    func perform(
        _ request: FakeS3Request,
        body: ByteBuffer,
        disregarding: Set<FakeS3Fault.Disregard>
    ) -> FakeS3Answer {
        state.withLock { state in
            state.store.isIgnoring = disregarding
            defer { state.store.isIgnoring = [] }
            do throws(FakeS3Failure) {
                return try state.store.perform(request, body: body)
            } catch {
                return error.answer(to: request)
            }
        }
    }

    func answers(_ request: FakeS3Request, status: Int) {
        change(request) { $0.status = status }
    }

    func finished(_ request: FakeS3Request) {
        state.withLock { _ = $0.active.remove(request.number) }
    }

    func sent(_ byteCount: Int) {
        state.withLock { $0.sentByteCount += Int64(byteCount) }
    }

    private func change(_ request: FakeS3Request, _ body: (inout FakeS3Request) -> Void) {
        state.withLock { state in
            // A test may have forgotten the requests meanwhile.
            let index = state.requests.lastIndex { $0.number == request.number }
            if let index { body(&state.requests[index]) }
        }
    }
}
