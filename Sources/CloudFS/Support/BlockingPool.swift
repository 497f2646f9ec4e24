/// A bounded number of threads for work that blocks: file copies, hashing, SQL, slow system calls.
///
/// Swift's cooperative pool has as many threads as the machine has cores, so a blocking call in a
/// task can stop every other task. Tasks await their blocking work here instead. The threads are
/// the pool's own: libdispatch would wake the process for those it lends.
public final class BlockingPool: Sendable {
    private let threads: PoolThreads?
    private let runner: Runner

    /// Sees to it that a piece of work is run, soon and once.
    typealias Runner = @Sendable (_ work: @escaping @Sendable () -> Void) -> Void

    /// Makes a pool with one thread, to which more come when they are needed.
    ///
    /// - Parameters:
    ///   - name: Shown as the threads' name.
    ///   - width: How many pieces of work run at once; the others wait in order.
    public init(name: String, width: Int) {
        precondition(width > 0, "a pool needs a thread")
        let threads = PoolThreads(name: name, width: width, stackSize: 1 << 20)
        self.threads = threads
        runner = { threads.add($0) }
    }

    /// A pool without threads: `runner` has its work done where and when it likes.
    init(runner: @escaping Runner) {
        threads = nil
        self.runner = runner
    }

    /// Another pool, with threads of its own if this one has any.
    func another(name: String, width: Int) -> BlockingPool {
        threads == nil ? BlockingPool(runner: runner) : BlockingPool(name: name, width: width)
    }

    deinit {
        threads?.end()
    }

    /// Has `work` done on one of the pool's threads; nobody waits for it.
    public func start(_ work: @escaping @Sendable () -> Void) {
        runner(work)
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
