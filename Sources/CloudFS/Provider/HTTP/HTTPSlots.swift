import Collections
import Synchronization

/// A bounded number of exchanges at once; the others wait in order of arrival.
///
/// Those that change something have no more than half of the slots, so that who reads never waits
/// for an upload, nor for a copy that the server takes its time for. Where they are too many for
/// the link they become fewer for a while. Those that fetch many bytes leave a sixth of the slots
/// to what is answered at once: who looks something up, or renews a lease, does not wait for films.
/// The HTTP client bounds its connections too, but gives up on who waits for one too long.
final class HTTPSlots: Sendable {
    /// What an exchange is for.
    enum Lane: Hashable, Sendable {
        /// It changes nothing.
        case receiving
        /// It changes nothing, and may take long for what it brings.
        case fetching
        /// It changes something, whether it carries bytes or not.
        case sending
    }

    private struct State {
        /// Of each lane; what one takes counts for the other too.
        var free: Int
        var freeToSend: Int
        /// How many may send at once; they may be more for a moment after it became less.
        var mostToSend: Int
        /// How many are kept from who fetches.
        var kept: Int
        var next: UInt64 = 0
        var waiting: [Lane: OrderedDictionary<UInt64, CheckedContinuation<Bool, Never>>] = [:]

        func isFree(_ lane: Lane) -> Bool {
            switch lane {
            case .receiving: free > 0
            case .fetching: free > kept
            case .sending: free > 0 && freeToSend > 0
            }
        }

        mutating func add(_ count: Int, to lane: Lane) {
            free += count
            if lane == .sending { freeToSend += count }
        }

        /// Gives a free slot to who has waited longest of those that may have it.
        mutating func admitNext() -> CheckedContinuation<Bool, Never>? {
            let firsts = waiting.compactMap { lane, queue in
                queue.keys.first.flatMap { isFree(lane) ? (lane, $0) : nil }
            }
            guard let (lane, id) = firsts.min(by: { $0.1 < $1.1 }) else { return nil }
            add(-1, to: lane)
            return waiting[lane]?.removeValue(forKey: id)
        }
    }

    private let state: Mutex<State>
    /// How many may send at once if nothing is wrong.
    private let senderCount: Int
    /// Not fewer, so that one that hangs does not stop all others.
    private static let fewestSenders = 4

    init(count: Int) {
        precondition(count > 0, "an exchange needs a slot")
        senderCount = max(1, count / 2)
        state = Mutex(
            State(
                free: count,
                freeToSend: senderCount,
                mostToSend: senderCount,
                kept: count / 6
            )
        )
    }

    /// How many wait now.
    var waiterCount: Int { state.withLock { $0.waiting.values.reduce(0) { $0 + $1.count } } }

    /// Waits for a slot.
    ///
    /// - Returns: Whether there is one: `false` when the task was cancelled.
    func take(_ lane: Lane) async -> Bool {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        return await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known: Bool? = state.withLock { state in
                    if Task.isCancelled { return false }
                    if state.isFree(lane) {
                        state.add(-1, to: lane)
                        return true
                    }
                    state.waiting[lane, default: [:]][id] = continuation
                    return nil
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            state.withLock { $0.waiting[lane]?.removeValue(forKey: id) }?.resume(returning: false)
        }
    }

    /// Gives back a slot of the lane it was taken for.
    func give(_ lane: Lane) {
        state.withLock { state in
            state.add(1, to: lane)
            return state.admitNext()
        }?.resume(returning: true)
    }

    /// Something was sent too slowly: half as many may send at once from now on.
    func narrow() {
        state.withLock { state in
            let fewest = min(Self.fewestSenders, senderCount)
            let fewer = max(fewest, state.mostToSend / 2)
            state.freeToSend -= state.mostToSend - fewer
            state.mostToSend = fewer
        }
    }

    /// Something was sent in time: one more may send at once, up to half of the slots.
    func widen() {
        let next: CheckedContinuation<Bool, Never>? = state.withLock { state in
            guard state.mostToSend < senderCount else { return nil }
            state.mostToSend += 1
            state.freeToSend += 1
            return state.admitNext()
        }
        next?.resume(returning: true)
    }
}
