import Synchronization

/// Permission to touch items, until it is ended or let go of.
///
/// A claim that yields can be revoked: others then touch the items too, and the holder gives up
/// what it does, or checks at its end that nothing changed.
final class Claim: Sendable {
    /// What the coordinator has to tell the holder.
    ///
    /// Apart from the claim, so that the coordinator does not keep alive who let go of it.
    fileprivate final class Revocation: Sendable {
        private struct State {
            var isRevoked = false
            var isEnded = false
            var callbacks: [@Sendable () -> Void] = []
        }

        private let state = Mutex(State())

        var isRevoked: Bool { state.withLock { $0.isRevoked } }

        /// Notes the end of the claim, and says whether it was the first.
        func end() -> Bool {
            state.withLock { state in
                defer { state.isEnded = true }
                state.callbacks = []
                return !state.isEnded
            }
        }

        func onRevoke(_ callback: @escaping @Sendable () -> Void) {
            let isLate = state.withLock { state in
                guard !state.isEnded else { return false }
                if !state.isRevoked { state.callbacks.append(callback) }
                return state.isRevoked
            }
            if isLate { callback() }
        }

        func revoke() {
            let callbacks = state.withLock { state in
                state.isRevoked = true
                defer { state.callbacks = [] }
                return state.callbacks
            }
            for callback in callbacks { callback() }
        }
    }

    let intents: [AccessIntent]
    let purpose: Purpose
    fileprivate let id: ClaimQueue.ClaimID
    fileprivate let revocation = Revocation()
    private let coordinator: Coordinator

    fileprivate init(
        _ coordinator: Coordinator,
        _ id: ClaimQueue.ClaimID,
        _ intents: [AccessIntent],
        _ purpose: Purpose
    ) {
        self.coordinator = coordinator
        self.id = id
        self.intents = intents
        self.purpose = purpose
    }

    deinit {
        end()
    }

    /// Gives the claim up; a second time does nothing.
    func end() {
        if revocation.end() { coordinator.end(id) }
    }

    /// Whether somebody else goes on with the items.
    var isRevoked: Bool { revocation.isRevoked }

    /// Calls `callback` once when the claim is revoked, at once if it is; never after its end.
    ///
    /// It runs on the thread of whoever came in between, so it must not block.
    func onRevoke(_ callback: @escaping @Sendable () -> Void) {
        revocation.onRevoke(callback)
    }
}

/// Grants claims on items; the runner of `ClaimQueue`.
final class Coordinator: Sendable {
    private struct State {
        var queue = ClaimQueue()
        var pending: [ClaimQueue.ClaimID: PendingResult<Void>] = [:]
        /// Who is to be told; only claims that yield ever are.
        var revocations: [ClaimQueue.ClaimID: Claim.Revocation] = [:]
        var nextID: UInt64 = 1
    }

    private let state = Mutex(State())
    private let clock: any Clock<Duration>

    /// Makes a coordinator whose waits end by `clock`.
    init(clock: any Clock<Duration> = ContinuousClock()) {
        self.clock = clock
    }

    /// Every claim that is held, then those who wait, in the order of asking.
    var requests: (held: [ClaimQueue.Request], waiting: [ClaimQueue.Request]) {
        state.withLock { ($0.queue.heldClaims, $0.queue.waiting) }
    }

    /// Claims all items of `intents` together, and waits where others are in the way.
    ///
    /// - Throws: `cancelled` when the task is; `timedOut` after `timeout`.
    func claim(
        _ intents: [AccessIntent],
        purpose: Purpose,
        isYielding: Bool = false,
        timeout: Duration? = nil
    ) async throws(CloudFSError) -> Claim {
        let pending = PendingResult<Void>()
        let (claim, actions) = ask(intents, purpose, isYielding, pending)
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
        purpose: Purpose,
        isYielding: Bool = false
    ) throws(CloudFSError) -> Claim {
        let (claim, actions) = ask(intents, purpose, isYielding, nil)
        run(actions)
        guard actions.contains(.granted(claim.id)) else {
            throw CloudFSError(.claimed, "another program uses the item", item: intents.first?.item)
        }
        return claim
    }

    /// Runs `body` with the items claimed.
    func withAccess<Value>(
        to intents: [AccessIntent],
        for purpose: Purpose,
        isYielding: Bool = false,
        timeout: Duration? = nil,
        isolation: isolated (any Actor)? = #isolation,
        _ body: (Claim) async throws -> Value
    ) async throws -> Value {
        let claim = try await claim(
            intents,
            purpose: purpose,
            isYielding: isYielding,
            timeout: timeout
        )
        defer { claim.end() }
        return try await body(claim)
    }

    fileprivate func end(_ id: ClaimQueue.ClaimID) {
        let actions = state.withLock { state in
            state.revocations[id] = nil
            return state.queue.end(id)
        }
        run(actions)
    }

    private func ask(
        _ intents: [AccessIntent],
        _ purpose: Purpose,
        _ isYielding: Bool,
        _ pending: PendingResult<Void>?
    ) -> (Claim, [ClaimQueue.Action]) {
        state.withLock { state in
            let id = ClaimQueue.ClaimID(rawValue: state.nextID)
            state.nextID += 1
            let claim = Claim(self, id, intents, purpose)
            let actions = state.queue.request(
                id,
                intents,
                purpose: purpose,
                isYielding: isYielding,
                waits: pending != nil
            )
            if isYielding { state.revocations[id] = claim.revocation }
            if let pending, !actions.contains(.granted(id)) { state.pending[id] = pending }
            return (claim, actions)
        }
    }

    private func cancel(
        _ id: ClaimQueue.ClaimID,
        _ code: CloudFSError.Code,
        _ message: String
    ) {
        let (pending, actions) = state.withLock { state in
            let (wasWaiting, actions) = state.queue.cancel(id)
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
            case .refused:
                break
            }
        }
    }
}
