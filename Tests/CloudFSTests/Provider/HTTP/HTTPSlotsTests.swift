import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct HTTPSlotsTests {
    @Test func `who receives has a slot while as many send as may`() async throws {
        let slots = HTTPSlots(count: 4)
        for _ in 0..<2 { #expect(await slots.take(.sending)) }
        let third = Task { await slots.take(.sending) }
        try await eventually("the third waits") { slots.waiterCount == 1 }
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
        let sender = Task { await slots.take(.sending) }
        try await eventually("one waits") { slots.waiterCount == 1 }
        let receiver = Task { await slots.take(.receiving) }
        try await eventually("two wait") { slots.waiterCount == 2 }
        slots.give(.sending)
        #expect(await sender.value)
        #expect(slots.waiterCount == 1)
        slots.give(.receiving)
        #expect(await receiver.value)
    }

    @Test func `who is cancelled leaves the others their places`() async throws {
        let slots = HTTPSlots(count: 1)
        #expect(await slots.take(.sending))
        let given = Task { await slots.take(.sending) }
        try await eventually("one waits") { slots.waiterCount == 1 }
        given.cancel()
        #expect(await !given.value)
        slots.give(.sending)
        #expect(await slots.take(.sending))
    }
}
