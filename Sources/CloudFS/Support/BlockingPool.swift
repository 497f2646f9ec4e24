import Collections
import Dispatch
import Foundation
import Synchronization

/// A bounded number of threads for work that blocks: file copies, hashing, SQL, slow system calls.
///
/// Swift's cooperative pool has as many threads as the machine has cores, so a blocking call in a
/// task can stop every other task. Tasks await their blocking work here instead. The threads are
/// the pool's own: libdispatch would share its few with the cooperative pool.
public final class BlockingPool: Sendable {
    private let workers: Workers?
    private let runner: Runner

    /// Sees to it that a piece of work is run, soon and once.
    typealias Runner = @Sendable (_ work: @escaping @Sendable () -> Void) -> Void

    /// - Parameters:
    ///   - name: Shown as the threads' name.
    ///   - width: How many pieces of work run at once; the others wait in order.
    public init(name: String, width: Int) {
        precondition(width > 0, "a pool needs a thread")
        let workers = Workers(name: name, width: width)
        self.workers = workers
        runner = { workers.add($0) }
    }

    /// A pool without threads: `runner` has its work done where and when it likes.
    init(runner: @escaping Runner) {
        workers = nil
        self.runner = runner
    }

    /// Another pool, with threads of its own if this one has any.
    func another(name: String, width: Int) -> BlockingPool {
        workers == nil ? BlockingPool(runner: runner) : BlockingPool(name: name, width: width)
    }

    deinit {
        workers?.end()
    }

    /// Runs `work` on one of the pool's threads and returns what it returns.
    public func run<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            runner { continuation.resume(with: Result(catching: work)) }
        }
    }
}

/// The threads of a pool, made when they are first needed, and the work that waits for one.
private final class Workers: Sendable {
    private struct State {
        var waiting: Deque<@Sendable () -> Void> = []
        var threads = 0
        var idle = 0
        var hasEnded = false

    }

    private let name: String
    private let width: Int
    private let state = Mutex(State())
    private let available = DispatchSemaphore(value: 0)

    init(name: String, width: Int) {
        self.name = name
        self.width = width
    }

    func add(_ work: @escaping @Sendable () -> Void) {
        let needsThread = state.withLock { state in
            state.waiting.append(work)
            guard state.waiting.count > state.idle, state.threads < width
            else { return false }
            state.threads += 1
            return true
        }
        if needsThread {
            let thread = Thread { [self] in serve() }
            thread.name = name
            thread.stackSize = 1 << 20
            thread.start()
        }
        available.signal()
    }

    func end() {
        let threads = state.withLock { state in
            state.hasEnded = true
            return state.threads
        }
        for _ in 0..<threads { available.signal() }
    }

    private func serve() {
        while true {
            state.withLock { $0.idle += 1 }
            available.wait()
            let (work, hasEnded) = state.withLock { state in
                state.idle -= 1
                return (state.waiting.popFirst(), state.hasEnded)
            }
            if let work {
                work()
            } else if hasEnded {
                return
            }
        }
    }
}
