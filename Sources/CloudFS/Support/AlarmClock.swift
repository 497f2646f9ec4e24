import Synchronization

/// Lets tasks sleep, many of them with one timer.
///
/// A task that is cancelled in `Task.sleep` leaves a timer behind, which wakes two threads for
/// nothing when its time comes. Most sleeps beside requests are limits that nobody reaches: here
/// each of them is an entry in a table.
final class AlarmClock: Sendable {
    private struct Sleeper {
        var end: ContinuousClock.Instant
        var continuation: CheckedContinuation<Void, Never>
    }

    private struct State {
        var next: UInt64 = 0
        var sleepers: [UInt64: Sleeper] = [:]
        /// When timers that were set will go off.
        var timers: Set<ContinuousClock.Instant> = []

        /// Whether a timer has to be set for somebody who sleeps until `end`.
        mutating func needsTimer(at end: ContinuousClock.Instant) -> Bool {
            guard !timers.contains(where: { $0 <= end }) else { return false }
            timers.insert(end)
            return true
        }

        mutating func takeDue(at now: ContinuousClock.Instant) -> [Sleeper] {
            let due = sleepers.filter { $0.value.end <= now }
            for id in due.keys { sleepers[id] = nil }
            return Array(due.values)
        }
    }

    private let state = Mutex(State())

    /// How many timers are set now.
    var timerCount: Int { state.withLock { $0.timers.count } }

    /// Sleeps until the time is over or the task is cancelled.
    ///
    /// - Throws: `CancellationError`.
    func sleep(for duration: Duration) async throws {
        let end = ContinuousClock.now + duration
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let (isCancelled, needsTimer) = state.withLock { state in
                    if Task.isCancelled { return (true, false) }
                    state.sleepers[id] = Sleeper(end: end, continuation: continuation)
                    return (false, state.needsTimer(at: end))
                }
                if isCancelled { continuation.resume() }
                if needsTimer { setTimer(at: end) }
            }
        } onCancel: {
            state.withLock { $0.sleepers.removeValue(forKey: id) }?.continuation.resume()
        }
        try Task.checkCancellation()
    }

    private func setTimer(at end: ContinuousClock.Instant) {
        Task { [weak self] in
            // Nobody cancels this task.
            try? await ContinuousClock().sleep(until: end, tolerance: nil)
            self?.ring(end)
        }
    }

    private func ring(_ timer: ContinuousClock.Instant) {
        let (due, next) = state.withLock { state in
            state.timers.remove(timer)
            let due = state.takeDue(at: .now)
            let next = state.sleepers.values.map(\.end).min()
            return (due, next.flatMap { state.needsTimer(at: $0) ? $0 : nil })
        }
        for sleeper in due { sleeper.continuation.resume() }
        if let next { setTimer(at: next) }
    }
}
