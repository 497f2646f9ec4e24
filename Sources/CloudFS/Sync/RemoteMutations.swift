import Synchronization

/// Which items this machine is changing in the cloud, so that a listing taken meanwhile is not
/// mistaken for somebody else's change.
final class RemoteMutations: Sendable {
    private struct State {
        var clock: UInt64 = 0
        var active: [ItemID: Int] = [:]
        var ended: [ItemID: UInt64] = [:]
        var listings = 0
    }

    private let state = Mutex(State())

    /// Notes that a request that changes `id` in the cloud begins.
    func begin(_ id: ItemID) {
        state.withLock { $0.active[id, default: 0] += 1 }
    }

    /// Notes that it ended, and that the catalog knows its outcome.
    func end(_ id: ItemID) {
        state.withLock { state in
            state.clock += 1
            let count = state.active[id, default: 1] - 1
            state.active[id] = count == 0 ? nil : count
            if state.listings > 0 { state.ended[id] = state.clock }
        }
    }

    /// Begins a listing; the mark tells which mutations it may have seen half of.
    func beginListing() -> UInt64 {
        state.withLock { state in
            state.listings += 1
            return state.clock
        }
    }

    func endListing() {
        state.withLock { state in
            state.listings -= 1
            if state.listings == 0 { state.ended.removeAll() }
        }
    }

    /// Whether a listing begun at `mark` says nothing sure about the item.
    func blurs(_ id: ItemID, since mark: UInt64) -> Bool {
        state.withLock { state in
            state.active[id] != nil || state.ended[id].map { $0 > mark } == true
        }
    }
}
