import CSimulation
import CloudFSTestSupport
import Synchronization

/// The one queue of all that runs: every job of every task, and what engines do on threads.
///
/// One thread takes one after the other; which comes next is drawn from the seed, and so is how
/// long some are put off. When nothing can run, time jumps to the next thing that waits for it.
final class Scheduler: Sendable {
    /// Something that runs until it waits for something else.
    fileprivate enum Work {
        case job(UInt)
        case call(context: UInt, @convention(c) (UnsafeMutableRawPointer?) -> Void)
        case closure(@Sendable () -> Void)
    }

    fileprivate struct Timer {
        var due: Int64
        var number: UInt64
        var work: Work
    }

    fileprivate struct State {
        var random = SeededRandom(seed: 0)
        var now = Scheduler.epoch
        var ready: [Work] = []
        /// By the moment at which they are due, the last first.
        var timers: [Timer] = []
        var number: UInt64 = 0
        var steps = 0
        /// How many of a thousand are put off.
        var lateness: UInt64 = 0
        var digest: UInt64 = 0xcbf2_9ce4_8422_2325
    }

    /// 2100-01-01: behind every time that the real disk gives a file meanwhile.
    static let epoch: Int64 = 4_102_444_800_000_000_000

    static let shared = Scheduler()

    private let state = Mutex(State())

    /// Takes the place of the runtime's executor, for good.
    static func takeOver() {
        csimulation_take_over(
            { job in Scheduler.shared.add(.job(UInt(bitPattern: job))) },
            { due, context, work in
                guard let work else { return }
                let call = Work.call(context: UInt(bitPattern: context), work)
                if due == 0 {
                    Scheduler.shared.add(call)
                } else {
                    Scheduler.shared.add(call, due: Int64(due))
                }
            }
        )
        csimulation_set_time(epoch)
    }

    /// Begins anew; whatever was left is never run.
    func reset(seed: UInt64) {
        state.withLock { state in
            state = State()
            state.random = SeededRandom(seed: seed)
            state.lateness = [0, 0, 20, 100, 300][Int(state.random.next() % 5)]
        }
        csimulation_set_seed(seed &+ 1)
        csimulation_set_time(Self.epoch)
    }

    // MARK: - Work

    /// Runs something some time soon.
    func run(_ work: @escaping @Sendable () -> Void) { add(.closure(work)) }

    private func add(_ work: Work) {
        state.withLock { state in
            guard state.lateness > 0, state.random.next() % 1_000 < state.lateness else {
                state.ready.append(work)
                return
            }
            // As if its thread had been kept waiting for a while.
            let delay = Int64(state.random.next() % 30_000_000)
            state.insert(work, due: state.now + delay)
        }
    }

    private func add(_ work: Work, due: Int64) {
        state.withLock { $0.insert(work, due: max(due, $0.now)) }
    }

    /// Runs one thing; false if nothing is left at all.
    func step() -> Bool {
        let (work, now) = state.withLock { state in (state.take(), state.now) }
        guard let work else { return false }
        csimulation_set_time(now)
        switch work {
        case .job(let job): csimulation_run(UnsafeMutableRawPointer(bitPattern: job))
        case .call(let context, let work): work(UnsafeMutableRawPointer(bitPattern: context))
        case .closure(let work): work()
        }
        return true
    }

    // MARK: - What is known

    /// How much was run.
    var steps: Int { state.withLock { $0.steps } }

    /// How long it took, by the clocks inside.
    var elapsed: Duration { .nanoseconds(state.withLock { $0.now } - Self.epoch) }

    /// What was noted so far, in one number: the same for the same seed.
    var digest: UInt64 { state.withLock { $0.digest } }

    /// Adds to the digest.
    func note(_ text: String) {
        state.withLock { state in
            for byte in text.utf8 { state.mix(UInt64(byte)) }
            state.mix(UInt64(bitPattern: state.now))
        }
    }
}

extension Scheduler.State {
    fileprivate mutating func insert(_ work: Scheduler.Work, due: Int64) {
        number += 1
        let index = timers.firstIndex { $0.due <= due } ?? timers.count
        timers.insert(Scheduler.Timer(due: due, number: number, work: work), at: index)
    }

    /// The next thing to run.
    fileprivate mutating func take() -> Scheduler.Work? {
        if ready.isEmpty {
            guard let next = timers.last?.due else { return nil }
            now = max(now, next)
        } else {
            // Work takes a little time, or deadlines would never be missed.
            now += 1_000
        }
        while let timer = timers.last, timer.due <= now {
            timers.removeLast()
            ready.append(timer.work)
        }
        steps += 1
        let index = Int(random.next() % UInt64(ready.count))
        mix(UInt64(index) << 32 | UInt64(ready.count))
        ready.swapAt(index, ready.count - 1)
        return ready.removeLast()
    }

    fileprivate mutating func mix(_ value: UInt64) {
        digest = (digest ^ value) &* 0x100_0000_01b3
    }
}
