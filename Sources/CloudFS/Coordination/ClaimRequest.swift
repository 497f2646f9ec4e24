/// One claim, held or waiting.
struct ClaimRequest: Sendable {
    struct ID: Hashable, Sendable, Comparable {
        let rawValue: UInt64

        static func < (left: ID, right: ID) -> Bool { left.rawValue < right.rawValue }
    }

    let id: ID
    private(set) var intents: [AccessIntent]
    let claimant: Claimant
    /// Whether it gives way to all others.
    let isYielding: Bool
    var isRevoked = false
    /// The strongest wish for each item, or for the package that it is in.
    private(set) var weights: [ItemID: AccessIntent.Weight] = [:]
    /// Folders claimed with all that is below them.
    private(set) var swept: Set<ItemID> = []
    /// All folders around its items; `nil` while they are not known.
    var folders: Set<ItemID>?

    init(
        _ id: ID,
        _ intents: [AccessIntent],
        by claimant: Claimant,
        isYielding: Bool = false,
        folders: Set<ItemID>? = nil
    ) {
        self.id = id
        self.intents = intents
        self.claimant = claimant
        self.isYielding = isYielding
        self.folders = folders
        for intent in intents {
            weights[intent.unit] = max(weights[intent.unit] ?? .nothing, intent.weight)
            if intent.isSweeping { swept.insert(intent.unit) }
        }
    }

    /// Whether it counts against anybody.
    var hasWeight: Bool { weights.values.contains { $0 != .nothing } }

    /// Whether the two cannot be held at once.
    func conflicts(with other: ClaimRequest) -> Bool {
        guard !claimant.goesAlong(with: other.claimant) else { return false }
        return weights.contains { item, weight in
            other.weights[item].map { $0.conflicts(with: weight) } ?? false
        } || sweeps(other) || other.sweeps(self)
    }

    /// Whether an item of `other` is below a folder that is claimed with all of it.
    ///
    /// One that is nobody knows where may be there.
    private func sweeps(_ other: ClaimRequest) -> Bool {
        guard !swept.isEmpty, other.hasWeight else { return false }
        return other.folders.map { !$0.isDisjoint(with: swept) } ?? true
    }

    /// Has the claim mean `heir` where it meant `item`.
    mutating func pass(_ item: ItemID, to heir: ItemID) {
        guard let weight = weights.removeValue(forKey: item) else { return }
        weights[heir] = max(weights[heir] ?? .nothing, weight)
        if swept.remove(item) != nil { swept.insert(heir) }
        for index in intents.indices where intents[index].unit == item {
            if intents[index].package == nil { intents[index].item = heir }
            if intents[index].package == item { intents[index].package = heir }
        }
    }
}
