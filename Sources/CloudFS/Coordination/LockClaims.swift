import Synchronization

/// What owners of locks have claimed by them.
final class LockClaims: Sendable {
    struct Key: Hashable, Sendable {
        var item: ItemID
        var owner: UInt64
        var family: FileLock.Family
    }

    private struct State {
        var claims: [Key: [AccessIntent.Weight: Claim]] = [:]
        /// How many requests of an owner have claimed, and have not set their locks yet.
        var requestCounts: [Key: Int] = [:]
    }

    private let state = Mutex(State())

    /// Keeps a claim until its owner has no lock left; one of each weight is enough.
    ///
    /// To be called before the lock is set, and `settle` after that, whatever came of it: meanwhile
    /// another thread of the owner may drop all other locks.
    func add(_ claim: Claim, _ key: Key) {
        let weight = claim.intents.map(\.weight).max() ?? .nothing
        let isNew = state.withLock { state in
            state.requestCounts[key, default: 0] += 1
            guard state.claims[key]?[weight] == nil else { return false }
            state.claims[key, default: [:]][weight] = claim
            return true
        }
        if !isNew { claim.end() }
    }

    /// Ends the claims of an owner that has no lock left, and is about to set none.
    ///
    /// - Parameters:
    ///   - hasSet: Whether a request is over for which a claim was added.
    ///   - hasLock: Whether the owner has a lock, or waits for one. Asked with the mutex held, as
    ///     nobody may add a claim between the answer and the end.
    func settle(_ key: Key, hasSet: Bool = false, hasLock: () -> Bool) {
        let ended = state.withLock { state -> [Claim] in
            if hasSet {
                let count = state.requestCounts[key, default: 0] - 1
                precondition(count >= 0, "a request of a lock is over that has not begun")
                state.requestCounts[key] = count == 0 ? nil : count
            }
            guard state.requestCounts[key] == nil, state.claims[key] != nil, !hasLock() else {
                return []
            }
            return Array((state.claims.removeValue(forKey: key) ?? [:]).values)
        }
        for claim in ended { claim.end() }
    }
}
