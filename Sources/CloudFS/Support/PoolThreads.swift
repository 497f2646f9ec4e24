import Collections
import Dispatch
import Glibc
import Synchronization

/// The threads of a pool, and the work that waits for one.
///
/// The first is there from the beginning, the others are made when they are needed: while the
/// system has no thread left, work is done more slowly, and no process has to end for it.
final class PoolThreads: Sendable {
    /// Who takes what was added; whoever works already does so later.
    private enum Help {
        case none
        case idleThread
        case newThread
    }

    private enum Step {
        case work(@Sendable () -> Void)
        case rest
        case end
    }

    private struct State {
        let width: Int
        var waiting: Deque<@Sendable () -> Void> = []
        var threads = 1
        /// How many threads rest that nobody is waking; the first one begins so.
        var idle = 1
        var hasEnded = false

        mutating func add(_ work: @escaping @Sendable () -> Void) -> Help {
            waiting.append(work)
            if idle > 0 {
                idle -= 1
                return .idleThread
            }
            guard threads < width else { return .none }
            threads += 1
            return .newThread
        }

        mutating func next() -> Step {
            if let work = waiting.popFirst() { return .work(work) }
            if hasEnded { return .end }
            idle += 1
            return .rest
        }
    }

    /// Starts a thread, or tells the number of the error.
    typealias Starter = @Sendable (_ body: @escaping @Sendable () -> Void) -> Int32

    /// Set on every thread of every pool.
    private static let mark = {
        var key = pthread_key_t()
        guard pthread_key_create(&key, nil) == 0 else { fatalError("no key for threads of pools") }
        return key
    }()

    private let start: Starter
    private let state: Mutex<State>
    private let wakeUp = DispatchSemaphore(value: 0)

    /// Makes a pool, which its owner has to end; without a first thread the process ends and says
    /// so.
    ///
    /// - Parameters:
    ///   - name: Shown by tools.
    ///   - width: At most so many threads.
    ///   - stackSize: Of each, in bytes; memory is taken for what is used of it only.
    convenience init(name: String, width: Int, stackSize: Int) {
        self.init(name: name, width: width) { body in
            OwnThread.attempt(name, stackSize: stackSize, body)
        }
    }

    init(name: String, width: Int, start: @escaping Starter) {
        self.start = start
        state = Mutex(State(width: width))
        let result = start { [self] in
            wakeUp.wait()
            serve()
        }
        guard result == 0 else {
            fatalError("no thread for \(name): \(String(cString: strerror(result)))")
        }
    }

    /// Has `work` done by one of the threads; what was added first begins first.
    func add(_ work: @escaping @Sendable () -> Void) {
        switch state.withLock({ $0.add(work) }) {
        case .none: break
        case .idleThread: wakeUp.signal()
        case .newThread: addThread()
        }
    }

    /// Adds a thread, unless the system has none left: then those that are here do the work, and
    /// the next piece that is added tries again.
    private func addThread() {
        if start({ [self] in serve() }) != 0 { state.withLock { $0.threads -= 1 } }
    }

    /// The threads end when no work is left.
    func end() {
        let idle = state.withLock { state in
            state.hasEnded = true
            defer { state.idle = 0 }
            return state.idle
        }
        for _ in 0..<idle { wakeUp.signal() }
    }

    /// Whether the caller runs on a thread of a pool.
    static var isOnOne: Bool { pthread_getspecific(mark) != nil }

    private func serve() {
        pthread_setspecific(Self.mark, UnsafeRawPointer(bitPattern: 1))
        while true {
            switch state.withLock({ $0.next() }) {
            case .work(let work): work()
            case .rest: wakeUp.wait()
            case .end: return
            }
        }
    }
}
