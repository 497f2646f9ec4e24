import Synchronization

/// Grants claims on items; the runner of `ClaimQueue`.
///
/// Lock order: a claim comes before a file's state and the catalog. Nothing is asked of either
/// while the mutex is held.
final class Coordinator: Sendable {
    private struct State {
        var queue = ClaimQueue()
        var pending: [ClaimRequest.ID: PendingResult<Void>] = [:]
        /// Who is to be told, of claims that may be taken away.
        var revocations: [ClaimRequest.ID: Claim.Revocation] = [:]
        var since: [ClaimRequest.ID: ContinuousClock.Instant] = [:]
        var nextID: UInt64 = 1
    }

    /// What is known of where items are.
    struct Places: Sendable {
        /// All folders around an item, in any order.
        var folders: @Sendable (ItemID) throws(CloudFSError) -> Set<ItemID> = { _ in [] }
        /// The package that an item is in, or the item itself.
        var unit: @Sendable (ItemID) throws(CloudFSError) -> ItemID = { $0 }
    }

    private let state = Mutex(State())
    private let clock: any Clock<Duration>
    private let places: Places
    private let didEnd: @Sendable () -> Void

    /// - Parameters:
    ///   - clock: Ends waits.
    ///   - places: Where items are.
    ///   - didEnd: Told that a program has let go of what it had claimed; it must not block.
    init(
        clock: any Clock<Duration> = ContinuousClock(),
        places: Places = Places(),
        didEnd: @escaping @Sendable () -> Void = {}
    ) {
        self.clock = clock
        self.places = places
        self.didEnd = didEnd
    }

    /// A claim as it is shown to people.
    struct Shown: Sendable {
        var request: ClaimRequest
        var isHeld: Bool
        var age: Duration
        /// Who keeps it waiting.
        var behind: [Claimant]
    }

    /// Every claim that is held, then those who wait, in the order of asking.
    var shown: [Shown] {
        let now = ContinuousClock.now
        return state.withLock { state in
            let all =
                state.queue.heldClaims.map { ($0, true) }
                + state.queue.waiting.map { ($0, false) }
            return all.map { request, isHeld in
                Shown(
                    request: request,
                    isHeld: isHeld,
                    age: state.since[request.id].map { now - $0 } ?? .zero,
                    behind: isHeld ? [] : state.queue.inTheWay(of: request)
                )
            }
        }
    }

    /// Claims all items of `intents` together, and waits where others are in the way.
    ///
    /// - Throws: `cancelled` when the task is; `timedOut` after `timeout`; `deadlock` if a claim in
    ///   the way waits for this claimant; `tooManyOpen` when too many wait.
    func claim(
        _ intents: [AccessIntent],
        by claimant: Claimant,
        isYielding: Bool = false,
        timeout: Duration? = nil
    ) async throws(CloudFSError) -> Claim {
        let pending = PendingResult<Void>()
        let (claim, actions) = try ask(intents, claimant, isYielding, pending)
        run(actions)
        if actions.contains(.granted(claim.id)) { return claim }
        let alarm = timeout.map { timeout in
            Task { [clock, weak self] in
                // Cancelled when the wait is over: then there is nobody left to tell.
                guard (try? await clock.sleep(for: timeout)) != nil else { return }
                self?.cancel(claim.id, .timedOut, "others hold the item for too long")
            }
        }
        defer { alarm?.cancel() }
        let answer = await withTaskCancellationHandler {
            await pending.value()
        } onCancel: {
            cancel(claim.id, .cancelled, "the wait for a claim was ended")
        }
        try answer.get()
        return claim
    }

    /// Claims all items of `intents` now.
    ///
    /// - Throws: `claimed` where it would have to wait.
    func tryClaim(
        _ intents: [AccessIntent],
        by claimant: Claimant,
        isYielding: Bool = false
    ) throws(CloudFSError) -> Claim {
        let (claim, actions) = try ask(intents, claimant, isYielding, nil)
        run(actions)
        guard actions.contains(.granted(claim.id)) else {
            throw Self.refusal(.claimed, item: intents.first?.item)
        }
        return claim
    }

    /// Runs `body` with the items claimed.
    func withAccess<Value>(
        to intents: [AccessIntent],
        for claimant: Claimant,
        isYielding: Bool = false,
        timeout: Duration? = nil,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Claim) async throws -> Value
    ) async throws -> Value {
        let claim = try await claim(
            intents,
            by: claimant,
            isYielding: isYielding,
            timeout: timeout
        )
        defer { claim.end() }
        return try await body(claim)
    }

    /// Whether a claim of `intents` would have to wait, though nothing says that it will in a
    /// moment.
    func isFree(_ intents: [AccessIntent], for claimant: Claimant) throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            try tryClaim(intents, by: claimant).end()
            return true
        } catch  where error.code == .claimed {
            return false
        }
    }

    /// Takes a claim away from a program that asked for it, held or waiting.
    ///
    /// - Throws: `notFound`; `denied` for what plain programs and the drive itself have.
    func takeAway(_ number: UInt64) throws(CloudFSError) {
        let id = ClaimRequest.ID(rawValue: number)
        guard let found = shown.first(where: { $0.request.id == id }) else {
            throw CloudFSError(.notFound, "there is no claim \(number)")
        }
        guard found.request.claimant.purpose.isForeign else {
            throw CloudFSError(
                .denied,
                "claim \(number) ends when its program closes the file"
            )
        }
        guard found.isHeld else { return cancel(id, .claimed, "the claim was taken away") }
        let revocation = state.withLock { $0.revocations[id] }
        end(id)
        revocation?.revoke()
    }

    /// Who would keep a claim waiting now.
    func holders(
        inTheWayOf intents: [AccessIntent],
        for claimant: Claimant
    ) throws(CloudFSError) -> [Claimant] {
        let request = try prepare(intents, claimant, isYielding: false)
        return state.withLock { $0.queue.inTheWay(of: request(ClaimRequest.ID(rawValue: 0))) }
    }

    /// What a held claim is for now: a document may have gone on as another item.
    func intents(of claim: Claim) -> [AccessIntent] {
        state.withLock { $0.queue.held(claim.id)?.intents } ?? claim.intents
    }

    // MARK: - Items that change places

    /// Notes that an item is in another folder now, and with it all that is below it.
    func noteMoved(_ item: ItemID) {
        let mayMatter = state.withLock { state in
            guard !state.queue.isEmpty else { return false }
            state.queue.forgetPlaces(around: item)
            return state.queue.needsFolders
        }
        guard mayMatter else { return }
        settlePlaces()
        run(state.withLock { $0.queue.settlePlaced() })
    }

    /// Has the claims of an item mean another that took its place, as a save by renaming does.
    func pass(_ item: ItemID, to heir: ItemID) {
        let actions = state.withLock { state in
            state.queue.isEmpty ? [] : state.queue.pass(item, to: heir)
        }
        run(actions)
    }

    /// Looks up where the items of all requests are.
    ///
    /// A request whose items cannot be found stays in the way of whoever claims a whole folder.
    private func settlePlaces() {
        for (id, items) in state.withLock({ $0.queue.unplaced }) {
            guard let folders = try? folders(around: items) else { continue }
            state.withLock { $0.queue.place(id, in: folders) }
        }
    }

    /// All folders around `items`; an item that is gone is in none.
    private func folders(around items: [ItemID]) throws(CloudFSError) -> Set<ItemID> {
        var found: Set<ItemID> = []
        for item in items {
            do throws(CloudFSError) {
                found.formUnion(try places.folders(item))
            } catch  where error.code == .notFound {
                continue
            }
        }
        return found
    }

    // MARK: - Plain programs of a claimant

    /// The purposes of the coordinated programs that a plain one belongs to, of those who have
    /// claimed `items`.
    ///
    /// What holds a claim may touch its items by plain calls, and so may the programs that it has
    /// started: they would wait for it for ever.
    func sponsors(
        of process: Int32,
        touching items: [ItemID]
    ) throws(CloudFSError) -> Set<Purpose> {
        var units: Set<ItemID> = []
        for item in items { units.insert(try places.unit(item)) }
        let holders = state.withLock { state in
            state.queue.heldClaims.filter { held in
                held.claimant.purpose.isForeign && held.claimant.process > 0
                    && (!units.isDisjoint(with: held.weights.keys) || !held.swept.isEmpty)
            }.map(\.claimant)
        }
        guard !holders.isEmpty, process > 0 else { return [] }
        let family = Set(ProcessTree.ancestors(of: process))
        return Set(holders.filter { family.contains($0.process) }.map(\.purpose))
    }

    // MARK: - Running the queue

    func end(_ id: ClaimRequest.ID) {
        let (actions, isForeign) = state.withLock { state in
            state.revocations[id] = nil
            state.since[id] = nil
            let isForeign = state.queue.held(id)?.claimant.purpose.isForeign == true
            return (state.queue.end(id), isForeign)
        }
        run(actions)
        if isForeign { didEnd() }
    }

    private func ask(
        _ intents: [AccessIntent],
        _ claimant: Claimant,
        _ isYielding: Bool,
        _ pending: PendingResult<Void>?
    ) throws(CloudFSError) -> (Claim, [ClaimQueue.Action]) {
        let request = try prepare(intents, claimant, isYielding: isYielding)
        return state.withLock { state in
            let id = ClaimRequest.ID(rawValue: state.nextID)
            state.nextID += 1
            let request = request(id)
            let claim = Claim(self, id, request.intents, claimant)
            let actions = state.queue.request(request, waits: pending != nil)
            if isYielding || claimant.purpose.isForeign {
                state.revocations[id] = claim.revocation
            }
            if let pending, !actions.contains(.granted(id)) { state.pending[id] = pending }
            if claimant.purpose.isForeign { state.since[id] = .now }
            return (claim, actions)
        }
    }

    /// Looks up what is to be known of the items of a request, which gets its number later.
    private func prepare(
        _ intents: [AccessIntent],
        _ claimant: Claimant,
        isYielding: Bool
    ) throws(CloudFSError) -> (ClaimRequest.ID) -> ClaimRequest {
        var intents = intents
        for index in intents.indices {
            let unit = try places.unit(intents[index].item)
            intents[index].package = unit == intents[index].item ? nil : unit
        }
        var folders: Set<ItemID>?
        let isSweeping = intents.contains(where: \.isSweeping)
        // Plain programs and the engine are in nobody's way among themselves.
        let matters = state.withLock { state in
            (claimant.purpose.isForeign || state.queue.hasForeign)
                && (isSweeping || state.queue.needsFolders)
        }
        if matters {
            folders = try self.folders(around: intents.map(\.unit))
            settlePlaces()
        }
        return { [intents, folders] id in
            ClaimRequest(id, intents, by: claimant, isYielding: isYielding, folders: folders)
        }
    }

    private func cancel(
        _ id: ClaimRequest.ID,
        _ code: CloudFSError.Code,
        _ message: String
    ) {
        let (pending, actions) = state.withLock { state in
            let (wasWaiting, actions) = state.queue.cancel(id)
            if wasWaiting {
                state.since[id] = nil
                state.revocations[id] = nil
            }
            return (wasWaiting ? state.pending.removeValue(forKey: id) : nil, actions)
        }
        pending?.resolve(.failure(CloudFSError(code, message)))
        run(actions)
    }

    /// Tells those concerned, with no mutex held.
    private func run(_ actions: [ClaimQueue.Action]) {
        for action in actions {
            switch action {
            case .granted(let id):
                state.withLock { $0.pending.removeValue(forKey: id) }?.resolve(.success(()))
            case .revoke(let id):
                state.withLock { $0.revocations[id] }?.revoke()
            case .refused(let id, let code):
                let pending = state.withLock { state in
                    state.since[id] = nil
                    state.revocations[id] = nil
                    return state.pending.removeValue(forKey: id)
                }
                pending?.resolve(.failure(Self.refusal(code)))
            }
        }
    }

    private static func refusal(
        _ code: CloudFSError.Code,
        item: ItemID? = nil
    ) -> CloudFSError {
        let reason =
            switch code {
            case .deadlock: "who holds the item waits for this program"
            case .tooManyOpen: "too many programs wait for items of this drive"
            default: "another program uses the item"
            }
        return CloudFSError(code, reason, item: item)
    }
}
