import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct WaitingItemsTests {
    private static let one = ItemID(2)
    private static let other = ItemID(3)
    private static let third = ItemID(4)
    private static let now = Timestamp(seconds: 1_000, nanoseconds: 0)

    private static func add(
        _ id: ItemID,
        for other: ItemID,
        at now: Timestamp = Self.now,
        _ waiting: inout WaitingItems
    ) -> Duration {
        var random = SeededRandom(seed: 1)
        return waiting.add(id, for: other, at: now, using: &random).since(now)
    }

    @Test func `who waits again and again is put off for longer, and never for long`() {
        var waiting = WaitingItems(limit: 10)
        var pauses: [Duration] = []
        for _ in 0..<20 { pauses.append(Self.add(Self.one, for: Self.other, &waiting)) }
        #expect(pauses[0] <= .milliseconds(200))
        #expect(pauses[19] >= .seconds(5))
        #expect(pauses.allSatisfy { $0 <= WaitingItems.longestPause })
        #expect(Self.add(Self.one, for: Self.third, &waiting) <= .milliseconds(200))
    }

    @Test func `who waits for what has got on is told once`() {
        var waiting = WaitingItems(limit: 10)
        let pause = Self.add(Self.one, for: Self.other, &waiting)
        #expect(waiting.isAwaited(Self.other))
        let waiter = WaitingItems.Waiter(item: Self.one, until: Self.now + pause)
        #expect(waiting.takeWaiters(of: Self.other) == [waiter])
        #expect(waiting.takeWaiters(of: Self.other).isEmpty)
        #expect(waiting.endOfWait(of: Self.one) == nil)
        _ = Self.add(Self.one, for: Self.other, &waiting)
        waiting.end(Self.one)
        #expect(!waiting.isAwaited(Self.other))
    }

    @Test func `a circle is seen whatever its length, and from outside of it too`() {
        var waiting = WaitingItems(limit: 10_000)
        for number in Int64(10)..<5_000 {
            _ = Self.add(ItemID(number), for: ItemID(number + 1), &waiting)
        }
        #expect(waiting.leads(from: ItemID(11), to: ItemID(5_000)))
        #expect(!waiting.leads(from: ItemID(5_000), to: ItemID(11)))
        _ = Self.add(ItemID(5_000), for: ItemID(10), &waiting)
        #expect(waiting.leads(from: ItemID(11), to: ItemID(10)))
        _ = Self.add(Self.one, for: ItemID(10), &waiting)
        #expect(!waiting.leads(from: ItemID(10), to: Self.one))
    }

    @Test func `more than can be remembered are put off for long, until others are past`() {
        var waiting = WaitingItems(limit: 1)
        _ = Self.add(Self.one, for: Self.other, &waiting)
        #expect(Self.add(Self.third, for: Self.other, &waiting) == WaitingItems.longestPause)
        #expect(waiting.endOfWait(of: Self.third) == nil)
        let later = Self.now + .seconds(60)
        #expect(Self.add(Self.third, for: Self.other, at: later, &waiting) <= .milliseconds(200))
        #expect(waiting.endOfWait(of: Self.one) == nil)
    }
}
