import Dispatch
import Logging
import Synchronization

/// Counts the requests of one mount, so that the end of the session can wait for the last one.
final class RequestLedger: Sendable {
    let logger: Logger
    /// Where replies are sent that may read the disk and have no kernel thread to do it on.
    let replies = BlockingPool(name: "cloudfs-replies", width: 4)
    let waits = WaitingRequests()
    let failures = FailureLines()
    private let live = DispatchGroup()

    init(logger: Logger) {
        self.logger = logger
    }

    func requestBegan() { live.enter() }

    func requestEnded() { live.leave() }

    /// Cancels whatever still waits, and waits until every request has been answered.
    ///
    /// - Returns: Whether all are; if not, libfuse's session must be kept, because they point
    ///   into it.
    func finishRequests(within limit: DispatchTimeInterval) -> Bool {
        waits.interruptAll()
        return live.wait(timeout: .now() + limit) == .success
    }
}

/// The requests that wait in tasks, so that the end of the session can end them.
final class WaitingRequests: Sendable {
    private struct State {
        var isOver = false
        var waiting: [ObjectIdentifier: Interruption] = [:]
    }

    private let state = Mutex(State())

    func insert(_ interruption: Interruption) {
        let isOver = state.withLock { state in
            state.waiting[ObjectIdentifier(interruption)] = interruption
            return state.isOver
        }
        if isOver { interruption.interrupt() }
    }

    func remove(_ interruption: Interruption) {
        state.withLock { _ = $0.waiting.removeValue(forKey: ObjectIdentifier(interruption)) }
    }

    /// Interrupts every waiting request, and every later one as soon as it begins to wait.
    func interruptAll() {
        let waiting = state.withLock { state in
            state.isOver = true
            return Array(state.waiting.values)
        }
        for interruption in waiting { interruption.interrupt() }
    }
}
