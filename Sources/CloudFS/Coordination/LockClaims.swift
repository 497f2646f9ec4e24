import Synchronization

/// What owners of locks have claimed by them.
final class LockClaims: Sendable {
    struct Key: Hashable, Sendable {
        var item: ItemID
        var owner: UInt64
        var family: FileLock.Family
    }

    private let claims = Mutex<[Key: [AccessIntent.Weight: Claim]]>([:])

    /// Keeps a claim until its owner has no lock left; one of each weight is enough.
    func add(_ claim: Claim, _ key: Key) {
        let weight = claim.intents.map(\.weight).max() ?? .nothing
        let isNew = claims.withLock { claims in
            guard claims[key]?[weight] == nil else { return false }
            claims[key, default: [:]][weight] = claim
            return true
        }
        if !isNew { claim.end() }
    }

    func contains(_ key: Key) -> Bool { claims.withLock { $0[key] != nil } }

    func end(_ key: Key) {
        let ended = claims.withLock { $0.removeValue(forKey: key) }
        for claim in (ended ?? [:]).values { claim.end() }
    }
}
