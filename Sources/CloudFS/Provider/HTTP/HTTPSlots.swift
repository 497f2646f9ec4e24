import Collections
import Synchronization

/// A bounded number of exchanges at once; the others wait in order of arrival.
///
/// The HTTP client bounds its connections too, but gives up on who waits for one too long.
final class HTTPSlots: Sendable {
    private struct State {
        var free: Int
        var next: UInt64 = 0
        var waiting: OrderedDictionary<UInt64, CheckedContinuation<Bool, Never>> = [:]
    }

    private let state: Mutex<State>

    init(count: Int) {
        precondition(count > 0, "an exchange needs a slot")
        state = Mutex(State(free: count))
    }

    /// How many wait now.
    var waiterCount: Int { state.withLock { $0.waiting.count } }

    /// Waits for a slot.
    ///
    /// - Returns: Whether there is one: `false` when the task was cancelled.
    func take() async -> Bool {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known: Bool? = state.withLock { state in
                    if Task.isCancelled { return false }
                    if state.free > 0 {
                        state.free -= 1
                        return true
                    }
                    state.waiting[id] = continuation
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            state.withLock { $0.waiting.removeValue(forKey: id) }?.resume(returning: false)
        }
    }

    func give() {
        state.withLock { state -> CheckedContinuation<Bool, Never>? in
            guard !state.waiting.isEmpty else {
                state.free += 1
                return nil
            }
            return state.waiting.removeFirst().value
        }?.resume(returning: true)
    }
}
