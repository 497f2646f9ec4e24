import Synchronization

/// Permission to touch items, until it is ended or let go of.
///
/// A claim that yields can be revoked: others then touch the items too, and the holder gives up
/// what it does, or checks at its end that nothing changed.
final class Claim: Sendable {
    /// What the coordinator has to tell the holder.
    ///
    /// Apart from the claim, so that the coordinator does not keep alive who let go of it.
    final class Revocation: Sendable {
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
    let claimant: Claimant
    let id: ClaimRequest.ID
    let revocation = Revocation()
    private let coordinator: Coordinator

    /// Made by the coordinator alone.
    init(
        _ coordinator: Coordinator,
        _ id: ClaimRequest.ID,
        _ intents: [AccessIntent],
        _ claimant: Claimant
    ) {
        self.coordinator = coordinator
        self.id = id
        self.intents = intents
        self.claimant = claimant
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
