import CloudFSTestSupport
import Testing

@testable import CloudFS

private let mib: Int64 = 1 << 20

/// While a plan is held, what is read comes, and nothing beyond it.
@Suite struct HydrationPlanPausingTests {
    @Test func `what nobody waits for ends with a pause and goes on after it`() throws {
        var harness = HydrationPlanHarness(size: 64 * mib)
        harness.send(.completeAll(forced: true))
        #expect(!harness.running.isEmpty)
        harness.send(.hold(true))
        #expect(harness.running.isEmpty)
        #expect(harness.plan.nextTick == nil)
        harness.send(.hold(false))
        harness.settle()
        #expect(harness.completions == 1)
    }

    @Test func `what is read during a pause comes, and nothing beyond it`() throws {
        var harness = HydrationPlanHarness(size: 64 * mib)
        harness.send(.hold(true))
        harness.send(.completeAll(forced: true))
        #expect(harness.fetched.isEmpty)
        let waiter = harness.read(32 * mib..<32 * mib + 4096)
        #expect(harness.fetched == [32 * mib..<32 * mib + 4096])
        harness.settle()
        #expect(harness.succeeded(waiter))
        #expect(harness.fetched.count == 1 && harness.running.isEmpty)
        #expect(!harness.plan.isComplete)
    }

    @Test func `a reader keeps the request that it waits for when a pause begins`() throws {
        var harness = HydrationPlanHarness(size: 64 * mib)
        harness.send(.completeAll(forced: true))
        let waiter = harness.read(0..<4096)
        harness.send(.hold(true))
        #expect(harness.running.count == 1)
        try harness.deliver(0..<4096)
        #expect(harness.succeeded(waiter))
        #expect(harness.running.isEmpty)
    }

    @Test func `who waits for a whole file gets it during a pause, or lets go of it`() throws {
        var harness = HydrationPlanHarness(size: 64 * mib)
        harness.send(.hold(true))
        harness.send(.completeAll(forced: true))
        let gone = harness.read(0..<64 * mib)
        #expect(!harness.running.isEmpty)
        harness.send(.cancelRead(.init(rawValue: gone)))
        #expect(harness.running.isEmpty)
        let waiter = harness.read(0..<64 * mib)
        harness.settle()
        #expect(harness.succeeded(waiter))
        #expect(harness.plan.isComplete)
    }
}
