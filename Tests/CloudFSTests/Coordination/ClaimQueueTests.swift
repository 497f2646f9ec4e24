import Testing

@testable import CloudFS

private let posix = Purpose("posix")
private let app = Purpose("app")
private let sync = Purpose("sync")
private let one = ItemID(1)
private let two = ItemID(2)

/// A queue, and what was said of each claim so far.
private struct Harness {
    var queue = ClaimQueue()
    var granted: [UInt64] = []
    var revoked: [UInt64] = []
    var refused: [UInt64] = []
    var next: UInt64 = 1

    mutating func take(_ actions: [ClaimQueue.Action]) {
        for action in actions {
            switch action {
            case .granted(let id): granted.append(id.rawValue)
            case .revoke(let id): revoked.append(id.rawValue)
            case .refused(let id): refused.append(id.rawValue)
            }
        }
    }

    @discardableResult
    mutating func ask(
        _ purpose: Purpose,
        _ intents: AccessIntent...,
        isYielding: Bool = false,
        waits: Bool = true
    ) -> UInt64 {
        let id = next
        next += 1
        take(
            queue.request(
                .init(rawValue: id),
                intents,
                purpose: purpose,
                isYielding: isYielding,
                waits: waits
            )
        )
        return id
    }

    mutating func end(_ id: UInt64) {
        take(queue.end(.init(rawValue: id)))
    }

    func isHeld(_ id: UInt64) -> Bool { queue.heldClaims.contains { $0.id.rawValue == id } }
}

@Suite struct ClaimQueueTests {
    @Test func `readers go on together and a writer alone`() {
        var harness = Harness()
        let first = harness.ask(app, .reading(one))
        let second = harness.ask(posix, .reading(one))
        let writer = harness.ask(Purpose("writer"), .writing(one))
        #expect(harness.granted == [first, second])
        harness.end(first)
        #expect(!harness.isHeld(writer))
        harness.end(second)
        #expect(harness.isHeld(writer))
        let late = harness.ask(app, .reading(one))
        #expect(!harness.isHeld(late))
        harness.end(writer)
        #expect(harness.isHeld(late))
    }

    @Test func `claims on different items do not meet`() {
        var harness = Harness()
        let first = harness.ask(app, .writing(one))
        let second = harness.ask(posix, .writing(two))
        #expect(harness.granted == [first, second])
    }

    @Test func `one purpose never blocks itself`() {
        var harness = Harness()
        let first = harness.ask(posix, .writing(one))
        let second = harness.ask(posix, .writing(one, .forReplacing))
        #expect(harness.granted == [first, second])
    }

    @Test func `a waiting writer is not overtaken by later readers`() {
        var harness = Harness()
        let reader = harness.ask(app, .reading(one))
        let writer = harness.ask(posix, .writing(one))
        let late = harness.ask(Purpose("late"), .reading(one))
        #expect(harness.granted == [reader])
        harness.end(reader)
        #expect(harness.granted == [reader, writer])
        harness.end(writer)
        #expect(harness.granted == [reader, writer, late])
    }

    @Test func `a nested read passes the writer that waits for it`() {
        var harness = Harness()
        harness.ask(app, .reading(one))
        let writer = harness.ask(posix, .writing(one))
        let nested = harness.ask(app, .reading(one))
        #expect(harness.isHeld(nested))
        #expect(!harness.isHeld(writer))
    }

    @Test func `a nested request passes those who wait for it through others`() {
        var harness = Harness()
        // `posix` waits for `app`, and `other` waits behind `posix`.
        harness.ask(app, .reading(one))
        harness.ask(posix, .writing(one), .writing(two))
        let other = Purpose("other")
        harness.ask(other, .writing(two))
        let nested = harness.ask(app, .reading(two))
        #expect(harness.isHeld(nested))
    }

    @Test func `a ring through the order of waiting is opened`() {
        var harness = Harness()
        let holder = Purpose("holder")
        let behind = Purpose("behind")
        let third = ItemID(3)
        harness.ask(behind, .writing(third))
        harness.ask(holder, .reading(one))
        // Waits for `holder`; `behind` waits only for its turn after it.
        harness.ask(app, .writing(one))
        let passing = harness.ask(behind, .reading(one))
        #expect(!harness.isHeld(passing))
        // Now `holder` waits for `behind`, so its turn would never come.
        harness.ask(holder, .writing(third))
        #expect(harness.isHeld(passing))
    }

    @Test func `several items are granted together`() {
        var harness = Harness()
        let reader = harness.ask(app, .reading(two))
        let both = harness.ask(posix, .writing(one), .writing(two))
        #expect(!harness.isHeld(both))
        // What waits holds nothing: but it comes first.
        let late = harness.ask(Purpose("late"), .reading(one))
        #expect(!harness.isHeld(late))
        harness.end(reader)
        #expect(harness.isHeld(both))
        harness.end(both)
        #expect(harness.isHeld(late))
    }

    @Test func `two intents about one item count as the stronger`() {
        var harness = Harness()
        harness.ask(app, .reading(one), .writing(one))
        let reader = harness.ask(posix, .reading(one))
        #expect(!harness.isHeld(reader))
    }

    @Test func `reading metadata only waits for nobody and keeps nobody waiting`() {
        var harness = Harness()
        harness.ask(app, .writing(one))
        let reader = harness.ask(posix, .reading(one, .metadataOnly))
        #expect(harness.isHeld(reader))
        let writer = harness.ask(app, .writing(one, .forDeleting))
        #expect(harness.isHeld(writer))
    }

    @Test func `a yielding holder is revoked and the newcomer goes on at once`() {
        var harness = Harness()
        let engine = harness.ask(sync, .writing(one, .forReplacing), isYielding: true)
        let reader = harness.ask(posix, .reading(one))
        #expect(harness.isHeld(reader))
        #expect(harness.revoked == [engine])
        harness.ask(app, .reading(one))
        #expect(harness.revoked == [engine])
    }

    @Test func `a yielding request waits for others and keeps nobody behind it`() {
        var harness = Harness()
        let reader = harness.ask(posix, .reading(one))
        let engine = harness.ask(sync, .writing(one), isYielding: true)
        let late = harness.ask(app, .reading(one))
        #expect(harness.granted == [reader, late])
        harness.end(reader)
        harness.end(late)
        #expect(harness.isHeld(engine))
    }

    @Test func `a request that will not wait is refused and leaves nothing`() {
        var harness = Harness()
        let writer = harness.ask(app, .writing(one))
        let second = harness.ask(posix, .writing(one), waits: false)
        #expect(harness.refused == [second])
        harness.end(writer)
        #expect(harness.queue.isEmpty)
    }

    @Test func `those behind a request that gives up go on`() {
        var harness = Harness()
        harness.ask(app, .reading(one))
        let writer = harness.ask(posix, .writing(one))
        let reader = harness.ask(Purpose("late"), .reading(one))
        let (wasWaiting, actions) = harness.queue.cancel(.init(rawValue: writer))
        harness.take(actions)
        #expect(wasWaiting)
        #expect(harness.isHeld(reader))
        let isOver = harness.queue.cancel(.init(rawValue: writer))
        #expect(!isOver.wasWaiting)
    }
}
