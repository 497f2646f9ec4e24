import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct HTTPSlotsTests {
    /// Asks for a slot that is not free; returns when `count` wait, this one among them.
    private static func waiter(
        for lane: HTTPSlots.Lane,
        of slots: HTTPSlots,
        count: Int
    ) async throws -> Task<Bool, Never> {
        let waiter = Task { await slots.take(lane) }
        try await eventually("\(count) wait") { slots.waiterCount == count }
        return waiter
    }

    @Test func `who receives has a slot while as many send as may`() async throws {
        let slots = HTTPSlots(count: 4)
        for _ in 0..<2 { #expect(await slots.take(.sending)) }
        let third = try await Self.waiter(for: .sending, of: slots, count: 1)
        for _ in 0..<2 { #expect(await slots.take(.receiving)) }
        // All are taken, two of them to send: what is free now is nothing for a third sender.
        slots.give(.receiving)
        #expect(slots.waiterCount == 1)
        slots.give(.sending)
        #expect(await third.value)
    }

    @Test func `those that fetch much leave slots to what is answered at once`() async throws {
        let slots = HTTPSlots(count: 12)
        for _ in 0..<10 { #expect(await slots.take(.fetching)) }
        let fetcher = try await Self.waiter(for: .fetching, of: slots, count: 1)
        for _ in 0..<2 { #expect(await slots.take(.receiving)) }
        slots.give(.receiving)
        #expect(slots.waiterCount == 1)
        for _ in 0..<2 { slots.give(.fetching) }
        #expect(await fetcher.value)
    }

    @Test func `those that wait come in order of arrival`() async throws {
        let slots = HTTPSlots(count: 2)
        #expect(await slots.take(.sending))
        #expect(await slots.take(.receiving))
        let sender = try await Self.waiter(for: .sending, of: slots, count: 1)
        let receiver = try await Self.waiter(for: .receiving, of: slots, count: 2)
        slots.give(.sending)
        #expect(await sender.value)
        #expect(slots.waiterCount == 1)
        slots.give(.receiving)
        #expect(await receiver.value)
    }

    @Test func `who is cancelled leaves the others their places`() async throws {
        let slots = HTTPSlots(count: 1)
        #expect(await slots.take(.sending))
        let leaving = try await Self.waiter(for: .sending, of: slots, count: 1)
        leaving.cancel()
        #expect(await !leaving.value)
        slots.give(.sending)
        #expect(await slots.take(.sending))
    }

    @Test func `where sending is too slow fewer do, and more as it goes well`() async throws {
        let slots = HTTPSlots(count: 24)
        for _ in 0..<12 { #expect(await slots.take(.sending)) }
        slots.narrow()
        // Six may send, and twelve do: six that end make room for nobody.
        let waiter = try await Self.waiter(for: .sending, of: slots, count: 1)
        for _ in 0..<6 { slots.give(.sending) }
        #expect(slots.waiterCount == 1)
        slots.give(.sending)
        #expect(await waiter.value)
        let second = try await Self.waiter(for: .sending, of: slots, count: 1)
        slots.widen()
        #expect(await second.value)
    }

    @Test func `a few send however slow all are, and half of the slots at most`() async throws {
        let slots = HTTPSlots(count: 24)
        for _ in 0..<10 { slots.narrow() }
        for _ in 0..<4 { #expect(await slots.take(.sending)) }
        let waiter = try await Self.waiter(for: .sending, of: slots, count: 1)
        slots.give(.sending)
        #expect(await waiter.value)
        for _ in 0..<20 { slots.widen() }
        for _ in 0..<8 { #expect(await slots.take(.sending)) }
        let last = try await Self.waiter(for: .sending, of: slots, count: 1)
        last.cancel()
        #expect(await !last.value)
    }
}
