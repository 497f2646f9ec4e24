import Dispatch
import Synchronization

/// Runs one piece of work for everybody who asked before it began.
///
/// For work such as a flush, which does for all that came before it what it does for one: callers
/// that meet a run under way wait for the next one, together.
final class SharedRun: Sendable {
    private typealias Outcome = Result<Void, any Error>

    /// A caller that waits: it is told the outcome, or to run the work for those behind it.
    private final class Waiter: Sendable {
        private let semaphore = DispatchSemaphore(value: 0)
        private let turn = Mutex<Turn?>(nil)

        func give(_ turn: Turn) {
            self.turn.withLock { $0 = turn }
            semaphore.signal()
        }

        func wait() -> Turn {
            semaphore.wait()
            return turn.withLock { $0 } ?? .lead([])
        }
    }

    private enum Turn: Sendable {
        case done(Outcome)
        case lead([Waiter])
    }

    private struct State {
        var isRunning = false
        var waiting: [Waiter] = []
    }

    private let state = Mutex(State())

    /// Returns after a run of `work` that began after this was called.
    ///
    /// Blocks the thread. All callers must pass the same work.
    func run(_ work: () throws -> Void) throws {
        let waiter = Waiter()
        let isFirst = state.withLock { state in
            guard state.isRunning else {
                state.isRunning = true
                return true
            }
            state.waiting.append(waiter)
            return false
        }
        switch isFirst ? .lead([]) : waiter.wait() {
        case .done(let outcome): try outcome.get()
        case .lead(let followers): try lead(followers, work)
        }
    }

    private func lead(_ followers: [Waiter], _ work: () throws -> Void) throws {
        let outcome = Outcome { try work() }
        for follower in followers { follower.give(.done(outcome)) }
        let next = state.withLock { state in
            defer { state.waiting = [] }
            if state.waiting.isEmpty { state.isRunning = false }
            return state.waiting
        }
        next.first?.give(.lead(Array(next.dropFirst())))
        try outcome.get()
    }
}
