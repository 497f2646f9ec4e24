/// The right to change a document while other devices wait, until it is ended or let go of.
///
/// It can be lost: to a network that is away for longer than the lease lasts. What was written
/// then is still protected by the base version that every upload names.
final class Lease: Sendable {
    let document: DocumentID
    /// Rises with every taking of the document's lease, by whomever.
    let generation: Int64
    private let keeper: LeaseKeeper
    private let holding: LeaseHolding
    private let user: UInt64

    init(_ keeper: LeaseKeeper, _ holding: LeaseHolding, user: UInt64) {
        self.keeper = keeper
        self.holding = holding
        self.user = user
        document = holding.document
        generation = holding.plan.record?.generation ?? 0
    }

    deinit {
        end()
    }

    /// Whether others may have the lease by now; true also after its end.
    ///
    /// Goes by the clock: a lease whose renewal is late is lost at the moment, not when somebody
    /// notices.
    var isLost: Bool { !holding.isHeld(for: user, at: keeper.now) }

    /// Gives the lease up; a second time does nothing.
    ///
    /// The cloud is told beside everything else.
    func end() {
        if holding.leave(user) { keeper.wake() }
    }
}
