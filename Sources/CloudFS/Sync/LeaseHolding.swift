import Synchronization

/// One lease that this device wants or has, shared by all here who took it.
final class LeaseHolding: Sendable {
    /// What the keeper has to do for it.
    enum Turn: Sendable {
        case now
        case later(Duration)
        /// Something is being done already; time runs out nevertheless.
        case busy(until: Duration?)
        case over
    }

    private struct State {
        var plan: LeasePlan
        /// Told when the lease is lost.
        var users: [UInt64: @Sendable () -> Void] = [:]
        var nextUser: UInt64 = 0
        var isBusy = false
        var isGivenUp = false
        var restUntil = Duration.zero
        var pauses = 0
        /// Until when it is kept without users.
        var keptUntil = Duration.zero

        mutating func giveUp() {
            plan.release()
            restUntil = .zero
            isGivenUp = isBusy
        }
    }

    let document: DocumentID
    private let state: Mutex<State>

    init(_ plan: LeasePlan) {
        document = plan.document
        state = Mutex(State(plan: plan))
    }

    var plan: LeasePlan { state.withLock { $0.plan } }

    /// Changes the plan, and tells the users if the lease is lost by that.
    func update<Value: Sendable>(_ change: (inout LeasePlan) -> Value) -> Value {
        let (value, losers) = state.withLock { state in
            let value = change(&state.plan)
            guard state.plan.phase == .lost else { return (value, [@Sendable () -> Void]()) }
            defer { state.users = [:] }
            return (value, Array(state.users.values))
        }
        for loser in losers { loser() }
        return value
    }

    // MARK: - Users

    /// Adds a user, or returns `nil` if the lease is not held any more.
    func join(at now: Duration, whenLost: @escaping @Sendable () -> Void) -> UInt64? {
        state.withLock { state in
            guard state.plan.isHeld(at: now) else { return nil }
            state.nextUser += 1
            state.users[state.nextUser] = whenLost
            return state.nextUser
        }
    }

    /// Removes a user; the last one gives the lease up.
    ///
    /// - Returns: Whether the cloud is to be told.
    func leave(_ user: UInt64) -> Bool {
        state.withLock { state in
            guard state.users.removeValue(forKey: user) != nil, state.users.isEmpty else {
                return false
            }
            state.giveUp()
            return true
        }
    }

    /// Keeps the lease for users who are about to join.
    func keepUnused(until moment: Duration) {
        state.withLock { $0.keptUntil = moment }
    }

    /// Gives the lease up for all its users.
    func abandon() {
        state.withLock { state in
            state.users = [:]
            state.giveUp()
        }
    }

    /// Whether a user's lease still is one.
    func isHeld(for user: UInt64, at now: Duration) -> Bool {
        state.withLock { $0.users[user] != nil && $0.plan.isHeld(at: now) }
    }

    // MARK: - Turns

    /// Says what is due, and marks the holding busy if it is now.
    func takeTurn(at now: Duration) -> Turn {
        update { $0.noteTime(now) }
        return state.withLock { state in
            let deadline = state.plan.heldDeadline
            guard !state.isBusy else { return .busy(until: deadline) }
            if state.plan.phase == .ended || state.plan.phase == .lost { return .over }
            // Who wanted it has gone while it was taken.
            if state.users.isEmpty, now >= state.keptUntil { state.plan.release() }
            guard now < state.restUntil else {
                state.isBusy = true
                return .now
            }
            return .later(min(state.restUntil, deadline ?? state.restUntil))
        }
    }

    /// Ends a turn.
    func endTurn(restingUntil moment: Duration) {
        state.withLock { state in
            state.isBusy = false
            // A lease that was given up meanwhile is ended at once.
            state.restUntil = state.isGivenUp ? .zero : moment
            state.isGivenUp = false
        }
    }

    /// Counts the waits in a row; those of a lease that is held begin anew.
    func countPause() -> Int {
        state.withLock { state in
            state.pauses += 1
            return state.pauses
        }
    }

    func forgetPauses() {
        state.withLock { $0.pauses = 0 }
    }
}
