import Testing

@testable import CloudFS

/// What owners of locks have claimed, while their threads set and drop locks at the same time.
@Suite struct LockClaimsTests {
    private let key = LockClaims.Key(item: ItemID(2), owner: 7, family: .posix)
    private let coordinator = Coordinator()
    private let claims = LockClaims()

    /// A request has claimed, and sets its lock next.
    private func claim(_ intent: AccessIntent) throws {
        let program = Claimant(Purpose("mount"))
        claims.add(try coordinator.tryClaim([intent], by: program), key)
    }

    private var held: [[AccessIntent]] { coordinator.shown.map(\.request.intents) }

    @Test func `a claim lasts as long as its owner has a lock`() throws {
        try claim(.reading(key.item))
        claims.settle(key, hasSet: true) { true }
        // Of each weight one.
        for _ in 0..<2 {
            try claim(.writing(key.item))
            claims.settle(key, hasSet: true) { true }
        }
        #expect(held == [[.reading(key.item)], [.writing(key.item)]])
        claims.settle(key) { true }
        #expect(held.count == 2)
        claims.settle(key) { false }
        #expect(held.isEmpty)
    }

    @Test func `the claim of a lock that was refused ends`() throws {
        try claim(.writing(key.item))
        claims.settle(key, hasSet: true) { false }
        #expect(held.isEmpty)
    }

    @Test func `regression: a claim stays while a lock is about to be set for it`() throws {
        try claim(.writing(key.item))
        claims.settle(key, hasSet: true) { true }
        // Another thread has claimed, which is the same claim, when the first drops all there is.
        try claim(.writing(key.item))
        claims.settle(key) { false }
        #expect(held == [[.writing(key.item)]])
        claims.settle(key, hasSet: true) { true }
        #expect(held.count == 1)
        claims.settle(key) { false }
        #expect(held.isEmpty)
    }

    @Test func `owners have claims of their own`() throws {
        let other = LockClaims.Key(item: key.item, owner: 8, family: .posix)
        try claim(.writing(key.item))
        claims.settle(other) { false }
        #expect(held.count == 1)
        claims.settle(key, hasSet: true) { false }
        #expect(held.isEmpty)
    }
}
