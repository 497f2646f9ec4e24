/// Who may touch which items now, and who waits: the coordinator's rules as values.
///
/// Readers of an item go on together, a writer alone; claims of one purpose never wait for each
/// other. A request names all its items and gets them together, in the order of asking: a waiting
/// writer is not overtaken by later readers. Only where the one who waits first is itself waiting
/// for the newcomer's purpose does the newcomer go on, as holding it back would help nobody.
///
/// A *yielding* claim never makes another purpose wait: it is revoked instead, and the newcomer
/// goes on at once.
struct ClaimQueue: Sendable {
    struct ClaimID: Hashable, Sendable, Comparable {
        let rawValue: UInt64

        static func < (left: ClaimID, right: ClaimID) -> Bool { left.rawValue < right.rawValue }
    }

    enum Action: Hashable, Sendable {
        case granted(ClaimID)
        /// The claim would have to wait, and its owner will not.
        case refused(ClaimID)
        /// Somebody else goes on: what the holder does is to be given up, or checked again.
        case revoke(ClaimID)
    }

    /// One claim, held or waiting.
    struct Request: Sendable {
        var id: ClaimID
        var intents: [AccessIntent]
        var purpose: Purpose
        var isYielding: Bool
        var isRevoked = false
        /// The strongest wish for each item.
        fileprivate(set) var weights: [ItemID: AccessIntent.Weight] = [:]

        fileprivate func conflicts(with other: Request) -> Bool {
            purpose != other.purpose
                && weights.contains { item, weight in
                    other.weights[item].map { $0.conflicts(with: weight) } ?? false
                }
        }
    }

    private var held: [ClaimID: Request] = [:]
    private var holders: [ItemID: [ClaimID]] = [:]
    /// In the order they came.
    private(set) var waiting: [Request] = []

    /// The claims that are held, in the order they were asked for.
    var heldClaims: [Request] { held.values.sorted { $0.id < $1.id } }

    var isEmpty: Bool { held.isEmpty && waiting.isEmpty }

    /// Asks for all of `intents` together.
    ///
    /// - Parameters:
    ///   - id: A name for the claim, not used before.
    ///   - intents: What it is for; several about one item count as the strongest.
    ///   - purpose: On whose behalf.
    ///   - isYielding: Whether the claim gives way to all others.
    ///   - waits: Whether to wait where it cannot be had now; otherwise it is refused.
    /// - Returns: What happened; a request without an action of its own waits.
    mutating func request(
        _ id: ClaimID,
        _ intents: [AccessIntent],
        purpose: Purpose,
        isYielding: Bool = false,
        waits: Bool = true
    ) -> [Action] {
        var request = Request(id: id, intents: intents, purpose: purpose, isYielding: isYielding)
        for intent in intents {
            let known = request.weights[intent.item] ?? .nothing
            request.weights[intent.item] = max(known, intent.weight)
        }
        var actions: [Action] = []
        if mayGoOn(request, after: waiting[...]) {
            grant(request, &actions)
            settle(&actions)
        } else if waits {
            waiting.append(request)
            // What the newcomer holds may now be what somebody waits for in a ring: look again.
            settle(&actions)
        } else {
            actions.append(.refused(id))
        }
        return actions
    }

    /// Gives a held claim up.
    mutating func end(_ id: ClaimID) -> [Action] {
        guard let request = held.removeValue(forKey: id) else { return [] }
        for item in request.weights.keys {
            holders[item]?.removeAll { $0 == id }
            if holders[item]?.isEmpty == true { holders[item] = nil }
        }
        var actions: [Action] = []
        settle(&actions)
        return actions
    }

    /// Ends the wait of a request, or nothing if it was granted before.
    ///
    /// - Returns: Whether it was still waiting, and what that means for others.
    mutating func cancel(_ id: ClaimID) -> (wasWaiting: Bool, actions: [Action]) {
        guard let index = waiting.firstIndex(where: { $0.id == id }) else { return (false, []) }
        waiting.remove(at: index)
        var actions: [Action] = []
        settle(&actions)
        return (true, actions)
    }

    // MARK: - Rules

    /// Grants those who may go on now, in the order they came.
    private mutating func settle(_ actions: inout [Action]) {
        var index = 0
        while index < waiting.count {
            guard mayGoOn(waiting[index], after: waiting[..<index]) else {
                index += 1
                continue
            }
            grant(waiting.remove(at: index), &actions)
            // One more holder can close a ring, in which somebody earlier may then go on.
            index = 0
        }
    }

    private mutating func grant(_ request: Request, _ actions: inout [Action]) {
        for other in conflictingHolders(request) where !other.isRevoked {
            held[other.id]?.isRevoked = true
            actions.append(.revoke(other.id))
        }
        held[request.id] = request
        for item in request.weights.keys { holders[item, default: []].append(request.id) }
        actions.append(.granted(request.id))
    }

    /// Whether neither a holder nor one of the `earlier` requests is in the way.
    private func mayGoOn(_ request: Request, after earlier: ArraySlice<Request>) -> Bool {
        guard conflictingHolders(request).allSatisfy(\.isYielding) else { return false }
        return earlier.allSatisfy { other in
            other.isYielding || !other.conflicts(with: request)
                || waits(other, for: request.purpose)
        }
    }

    private func conflictingHolders(_ request: Request) -> [Request] {
        var found: [ClaimID: Request] = [:]
        for (item, weight) in request.weights {
            for id in holders[item] ?? [] {
                guard let holder = held[id], holder.purpose != request.purpose,
                    holder.weights[item]?.conflicts(with: weight) == true
                else { continue }
                found[id] = holder
            }
        }
        return found.isEmpty ? [] : found.values.sorted { $0.id < $1.id }
    }

    /// Whether `request` waits for `purpose`, directly or through others who wait.
    private func waits(_ request: Request, for purpose: Purpose) -> Bool {
        var reached: Set<Purpose> = []
        var frontier = purposes(inTheWayOf: request)
        while let next = frontier.popLast() {
            guard next != purpose else { return true }
            guard reached.insert(next).inserted else { continue }
            for other in waiting where other.purpose == next {
                frontier += purposes(inTheWayOf: other)
            }
        }
        return false
    }

    /// The purposes whose claims, held or asked for earlier, keep a waiting request back.
    private func purposes(inTheWayOf request: Request) -> [Purpose] {
        let holders = conflictingHolders(request).filter { !$0.isYielding }.map(\.purpose)
        let earlier = waiting.prefix { $0.id != request.id }
            .filter { !$0.isYielding && $0.conflicts(with: request) }
        return holders + earlier.map(\.purpose)
    }
}
