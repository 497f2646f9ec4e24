import Synchronization

/// What the engine has changed and the kernel may still know otherwise.
///
/// A change is noted when it is there for everybody to see. It is told once the kernel was asked
/// to forget what it knew before, or has been answered from what was read since.
final class Untold<Key: Hashable & Sendable>: Sendable {
    private struct State {
        /// Each with the number of its last change.
        var young: [Key: UInt64] = [:]
        /// Those that were young when there were too many.
        var old: [Key: UInt64] = [:]
        var last: UInt64 = 0
    }

    private let state = Mutex(State())
    /// Whether there is a kernel that is told of changes, or will be.
    private let isTelling = Atomic(false)
    private let capacity: Int

    /// - Parameter capacity: How many changes are remembered at least, and half of how many at
    ///   most. Of older ones the kernel has heard long since, or does not know what they change.
    init(capacity: Int = 50_000) {
        self.capacity = capacity
    }

    /// From now on a kernel is told of what changes.
    func beginTelling() { isTelling.store(true, ordering: .relaxed) }

    /// Notes changes that everybody can see, and that the kernel is told of next.
    func note(_ keys: some Collection<Key>) {
        guard !keys.isEmpty, isTelling.load(ordering: .relaxed) else { return }
        state.withLock { state in
            for key in keys {
                if state.young.count >= capacity { (state.old, state.young) = (state.young, [:]) }
                state.last += 1
                state.young[key] = state.last
            }
        }
    }

    /// Whether the kernel may still know it as it was before.
    func contains(_ key: Key) -> Bool {
        guard isTelling.load(ordering: .relaxed) else { return false }
        return state.withLock { $0.young[key] != nil || $0.old[key] != nil }
    }

    /// What is noted by now; to be asked for before that is read which the kernel is told.
    var mark: UInt64 {
        isTelling.load(ordering: .relaxed) ? state.withLock { $0.last } : 0
    }

    /// Notes that the kernel was told what was there at `mark`, or knows nothing any more.
    func noteTold(_ key: Key, asOf mark: UInt64) {
        guard mark > 0 else { return }
        state.withLock { state in
            if let noted = state.young[key] {
                guard noted <= mark else { return }
                state.young[key] = nil
            }
            if let noted = state.old[key], noted <= mark { state.old[key] = nil }
        }
    }
}
