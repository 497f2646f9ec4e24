import CLinux
import Collections
import Glibc
import Synchronization

/// A thread that hands values over when their moments have come.
///
/// Time goes on while the machine is suspended. The timer is set only where the earliest moment
/// changes. The thread lives as long as the process.
final class TimerThread<Value: Sendable>: Sendable {
    private struct Waiting: Comparable, Sendable {
        let end: ContinuousClock.Instant
        /// Of those that end together the first one comes first.
        let number: UInt64
        let value: Value

        static func < (one: Self, other: Self) -> Bool {
            (one.end, one.number) < (other.end, other.number)
        }

        static func == (one: Self, other: Self) -> Bool { one.number == other.number }
    }

    private struct State: Sendable {
        var count: UInt64 = 0
        var entries = Heap<Waiting>()

        mutating func takeDue(at now: ContinuousClock.Instant) -> [Value] {
            var due: [Value] = []
            while let first = entries.min, first.end <= now {
                due.append(first.value)
                entries.removeMin()
            }
            return due
        }
    }

    private let timer: Int32
    private let state = Mutex(State())

    /// None if there is no descriptor left for its timer.
    init?() {
        timer = clinux_timer_open()
        guard timer >= 0 else { return nil }
    }

    /// - Parameters:
    ///   - name: Of the thread, as tools show it.
    ///   - handOver: Called on the thread, once for each value; must not block.
    func start(_ name: String, _ handOver: @escaping @Sendable (Value) -> Void) {
        OwnThread.start(name) { [self] in
            while true {
                awaitTimer()
                for value in takeDue() { handOver(value) }
            }
        }
    }

    /// Has `value` handed over at `end`, or at once if that has passed.
    func add(_ value: Value, at end: ContinuousClock.Instant) {
        state.withLock { state in
            state.count += 1
            let waiting = Waiting(end: end, number: state.count, value: value)
            state.entries.insert(waiting)
            // Under the mutex: no later timer may take the place of an earlier one.
            if state.entries.min == waiting { setTimer(to: end) }
        }
    }

    private func takeDue() -> [Value] {
        state.withLock { state in
            let due = state.takeDue(at: .now)
            if let next = state.entries.min { setTimer(to: next.end) }
            return due
        }
    }

    private func setTimer(to end: ContinuousClock.Instant) {
        let longest = Duration.seconds(1 << 30)
        let (seconds, attoseconds) = min(ContinuousClock.now.duration(to: end), longest).components
        let nanoseconds = seconds * 1_000_000_000 + attoseconds / 1_000_000_000
        let result = clinux_timer_set(timer, max(1, nanoseconds))
        precondition(result == 0, "a timer cannot be set: \(errno)")
    }

    private func awaitTimer() {
        var count: UInt64 = 0
        while read(timer, &count, MemoryLayout.size(ofValue: count)) < 0 {
            precondition(errno == EINTR, "a timer cannot be read: \(errno)")
        }
    }
}
