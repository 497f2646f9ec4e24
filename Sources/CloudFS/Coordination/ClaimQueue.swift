/// Who may touch which items now, and who waits: the coordinator's rules as values.
///
/// Readers of an item go on together, a writer alone; claims of one purpose never wait for each
/// other. Whoever deletes, moves or replaces a folder counts against everybody below it; other
/// claims of a folder say nothing about what is in it. A request names all its items and gets them
/// together, in the order of asking: a waiting writer is not overtaken by later readers. Only where
/// the one who waits first is itself waiting for the newcomer's purpose does the newcomer go on, as
/// holding it back would help nobody.
///
/// A request that would close a ring of claimants, each waiting for what the next holds, is
/// refused: none of them would ever go on.
///
/// A *yielding* claim never makes another purpose wait: it is revoked instead, and the newcomer
/// goes on at once.
struct ClaimQueue: Sendable {
    typealias Request = ClaimRequest
    typealias ClaimID = ClaimRequest.ID

    enum Action: Hashable, Sendable {
        case granted(ClaimID)
        /// `claimed` for one that would have to wait and will not; `deadlock`; `tooManyOpen`.
        case refused(ClaimID, CloudFSError.Code)
        /// Somebody else goes on: what the holder does is to be given up, or checked again.
        case revoke(ClaimID)
    }

    /// How many requests may wait: to look through them takes time that grows with their square.
    static let mostWaiting = 256

    private var held: [ClaimID: Request] = [:]
    private var holders: [ItemID: [ClaimID]] = [:]
    /// Held claims of folders with all that is below them.
    private var sweepers: Set<ClaimID> = []
    /// Claims of programs that ask for them, held or waiting.
    private var foreign: Set<ClaimID> = []
    /// How many claims each one has that may stand still, held and waiting.
    private var counts: [Claimant.Waiter: Int] = [:]
    /// In the order they came.
    private(set) var waiting: [Request] = []

    /// The claims that are held, in the order they were asked for.
    var heldClaims: [Request] { held.values.sorted { $0.id < $1.id } }

    func held(_ id: ClaimID) -> Request? { held[id] }

    var isEmpty: Bool { held.isEmpty && waiting.isEmpty }

    // MARK: - Places

    /// Whether it matters where items are.
    var needsFolders: Bool {
        !sweepers.isEmpty || waiting.contains { !$0.swept.isEmpty }
    }

    /// Whether programs that ask for claims have or want any.
    var hasForeign: Bool { !foreign.isEmpty }

    /// Requests of which it is not known where their items are.
    var unplaced: [(id: ClaimID, items: [ItemID])] {
        (held.values.filter { $0.folders == nil } + waiting.filter { $0.folders == nil })
            .map { ($0.id, Array($0.weights.keys)) }
    }

    /// Notes all folders around the items of a request.
    mutating func place(_ id: ClaimID, in folders: Set<ItemID>) {
        held[id]?.folders = folders
        if let index = waiting.firstIndex(where: { $0.id == id }) {
            waiting[index].folders = folders
        }
    }

    /// Forgets where those are that an item which moved is, or was, around.
    mutating func forgetPlaces(around item: ItemID) {
        for (id, request) in held where request.isTouched(by: item) { held[id]?.folders = nil }
        for index in waiting.indices where waiting[index].isTouched(by: item) {
            waiting[index].folders = nil
        }
    }

    /// Grants what may be granted now that places are known anew.
    mutating func settlePlaced() -> [Action] {
        var actions: [Action] = []
        settle(&actions)
        openRings(&actions)
        return actions
    }

    /// Has the claims of coordinated programs on `item` mean the one that took its place.
    ///
    /// Plain programs have opened or locked the old one, and go on with that; but a name that
    /// nothing has they claim for what they make there.
    mutating func pass(_ item: ItemID, to heir: ItemID) -> [Action] {
        func goesOn(_ request: Request?) -> Bool {
            item.isPromised || request?.claimant.purpose.isForeign == true
        }
        for id in holders[item] ?? [] where goesOn(held[id]) {
            held[id]?.pass(item, to: heir)
            holders[item]?.removeAll { $0 == id }
            if holders[heir]?.contains(id) != true { holders[heir, default: []].append(id) }
        }
        if holders[item]?.isEmpty == true { holders[item] = nil }
        for index in waiting.indices where goesOn(waiting[index]) {
            waiting[index].pass(item, to: heir)
        }
        var actions: [Action] = []
        settle(&actions)
        openRings(&actions)
        return actions
    }

    // MARK: - Requests

    /// Asks for all items of `request` together.
    ///
    /// - Parameters:
    ///   - request: Its id was not used before.
    ///   - waits: Whether to wait where it cannot be had now; otherwise it is refused.
    /// - Returns: What happened; a request without an action of its own waits.
    mutating func request(_ request: Request, waits: Bool = true) -> [Action] {
        note(request)
        let goesOn = mayGoOn(request, after: waiting[...])
        guard goesOn || waits else { return [refuse(request, .claimed)] }
        guard goesOn || waiting.count < Self.mostWaiting else {
            return [refuse(request, .tooManyOpen)]
        }
        // Who has nothing else is in nobody's way, and closes no ring.
        guard !waiting.isEmpty, counts[request.claimant.waiter, default: 0] > 1 else {
            return take(request, goesOn)
        }
        // On a copy: nobody may go on because of a request that is refused.
        var next = self
        let actions = next.take(request, goesOn)
        guard !next.hasRing else { return [refuse(request, .deadlock)] }
        self = next
        return actions
    }

    private mutating func take(_ request: Request, _ goesOn: Bool) -> [Action] {
        var actions: [Action] = []
        if goesOn { grant(request, &actions) } else { waiting.append(request) }
        // What the newcomer has now may be what somebody waits for who keeps it waiting.
        settle(&actions)
        return actions
    }

    /// Gives a held claim up.
    mutating func end(_ id: ClaimID) -> [Action] {
        guard let request = held.removeValue(forKey: id) else { return [] }
        sweepers.remove(id)
        forget(request)
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
        forget(waiting.remove(at: index))
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

    private mutating func refuse(_ request: Request, _ code: CloudFSError.Code) -> Action {
        forget(request)
        return .refused(request.id, code)
    }

    private mutating func note(_ request: Request) {
        if request.claimant.purpose.isForeign { foreign.insert(request.id) }
        counts[request.claimant.waiter, default: 0] += 1
    }

    private mutating func forget(_ request: Request) {
        foreign.remove(request.id)
        let left = (counts[request.claimant.waiter] ?? 1) - 1
        counts[request.claimant.waiter] = left == 0 ? nil : left
    }

    private mutating func grant(_ request: Request, _ actions: inout [Action]) {
        for other in conflictingHolders(request) where !other.isRevoked {
            held[other.id]?.isRevoked = true
            actions.append(.revoke(other.id))
        }
        held[request.id] = request
        if !request.swept.isEmpty { sweepers.insert(request.id) }
        for item in request.weights.keys { holders[item, default: []].append(request.id) }
        actions.append(.granted(request.id))
    }

    /// Whether neither a holder nor one of the `earlier` requests is in the way.
    private func mayGoOn(_ request: Request, after earlier: ArraySlice<Request>) -> Bool {
        guard conflictingHolders(request).allSatisfy(\.isYielding) else { return false }
        return earlier.allSatisfy { other in
            other.isYielding || !other.conflicts(with: request)
                || request.claimant.purposes.contains { waits(other, for: $0) }
        }
    }

    private func conflictingHolders(_ request: Request) -> [Request] {
        guard request.swept.isEmpty else {
            return held.values.filter { $0.conflicts(with: request) }.sorted { $0.id < $1.id }
        }
        var found: [ClaimID: Request] = [:]
        for item in request.weights.keys {
            for id in holders[item] ?? [] where found[id] == nil { note(id, request, &found) }
        }
        for id in sweepers where found[id] == nil { note(id, request, &found) }
        return found.isEmpty ? [] : found.values.sorted { $0.id < $1.id }
    }

    private func note(_ id: ClaimID, _ request: Request, _ found: inout [ClaimID: Request]) {
        if let holder = held[id], holder.conflicts(with: request) { found[id] = holder }
    }

    /// Whether `request` waits for `purpose`, directly or through others who wait.
    private func waits(_ request: Request, for purpose: Purpose) -> Bool {
        var reached: Set<Purpose> = []
        var frontier = inTheWay(of: request).flatMap(\.purposes)
        while let next = frontier.popLast() {
            guard next != purpose else { return true }
            guard reached.insert(next).inserted else { continue }
            for other in waiting where other.claimant.purposes.contains(next) {
                frontier += inTheWay(of: other).flatMap(\.purposes)
            }
        }
        return false
    }

    private var hasRing: Bool { waiting.contains { isInRing($0) } }

    /// Refuses the youngest request of each ring that items have closed by going elsewhere.
    private mutating func openRings(_ actions: inout [Action]) {
        while let last = waiting.lastIndex(where: { isInRing($0) }) {
            actions.append(refuse(waiting.remove(at: last), .deadlock))
            settle(&actions)
        }
    }

    /// Whether a waiting request waits, through others who wait, for its own claimant.
    private func isInRing(_ request: Request) -> Bool {
        guard counts[request.claimant.waiter, default: 0] > 1 else { return false }
        var reached: Set<Claimant.Waiter> = []
        var frontier = inTheWay(of: request).map(\.waiter)
        while let next = frontier.popLast() {
            guard next != request.claimant.waiter else { return true }
            guard reached.insert(next).inserted else { continue }
            for other in waiting where other.claimant.waiter == next {
                frontier += inTheWay(of: other).map(\.waiter)
            }
        }
        return false
    }

    /// Whose claims, held or asked for earlier, keep a waiting request back.
    func inTheWay(of request: Request) -> [Claimant] {
        let holders = conflictingHolders(request).filter { !$0.isYielding }.map(\.claimant)
        let earlier = waiting.prefix { $0.id != request.id }
            .filter { !$0.isYielding && $0.conflicts(with: request) }
        return holders + earlier.map(\.claimant)
    }
}

extension ClaimRequest {
    /// Whether its place changes when `item` moves.
    fileprivate func isTouched(by item: ItemID) -> Bool {
        weights[item] != nil || folders?.contains(item) == true
    }
}
