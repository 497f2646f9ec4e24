import Foundation
@_spi(ExperimentalCustomExecutors) @_spi(ExperimentalScheduling) import _Concurrency

/// The threads that run this process's tasks, instead of libdispatch's.
///
/// libdispatch looks every second whether one of its threads is blocked, for as long as the process
/// lives, and a drive at rest must not wake its machine. How executors are replaced is not settled
/// in Swift yet: with a compiler that is not known here, libdispatch's stay ([0017]).
///
/// [0017]: docs/decisions/0017-threads-of-tasks.md
package enum TaskThreads {
    /// Has all tasks of this process run here; to be called before there is one.
    package static func takeOver() {
        #if compiler(>=6.3) && compiler(<6.4)
        // Without a timer tasks could not sleep.
        guard TaskExecutors.executor != nil else { return }
        _createExecutors(factory: TaskExecutors.self)
        #endif
    }
}

#if compiler(>=6.3) && compiler(<6.4)
private struct TaskExecutors: ExecutorFactory {
    static let executor = PooledExecutor()

    static var mainExecutor: any MainExecutor { PlatformExecutorFactory.mainExecutor }
    static var defaultExecutor: any TaskExecutor {
        guard let executor else { preconditionFailure("these executors are in use without one") }
        return executor
    }
}

/// One queue, and as many threads as there are processors, for tasks do not block.
private final class PooledExecutor: TaskExecutor, SchedulingExecutor {
    private let threads: PoolThreads
    private let clock: TimerThread<UnownedJob>

    init?() {
        guard let clock = TimerThread<UnownedJob>() else { return nil }
        self.clock = clock
        threads = PoolThreads(
            name: "cloudfs-tasks",
            width: max(2, ProcessInfo.processInfo.activeProcessorCount),
            stackSize: OwnThread.usualStackSize
        )
        clock.start("cloudfs-clock") { [weak self] in self?.enqueue($0) }
    }

    func enqueue(_ job: consuming ExecutorJob) { enqueue(UnownedJob(job)) }

    func enqueue(_ job: UnownedJob) {
        threads.add { [self] in job.runSynchronously(on: asUnownedTaskExecutor()) }
    }

    // MARK: - Sleeping

    var asSchedulingExecutor: (any SchedulingExecutor)? { self }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        at instant: C.Instant,
        tolerance: C.Duration?,
        clock: C
    ) {
        let delay = clock.now.duration(to: instant)
        enqueue(job, after: delay, tolerance: tolerance, clock: clock)
    }

    func enqueue<C: Clock>(
        _ job: consuming ExecutorJob,
        after delay: C.Duration,
        tolerance: C.Duration?,
        clock: C
    ) {
        // Clocks of other measures sleep in ways of their own.
        guard let delay = delay as? Duration else { preconditionFailure("a clock of \(C.self)") }
        self.clock.add(UnownedJob(job), at: .now + delay)
    }
}
#endif
