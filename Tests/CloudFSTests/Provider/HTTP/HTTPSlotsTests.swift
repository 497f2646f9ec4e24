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
}
