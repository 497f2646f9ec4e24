import Testing

@testable import CloudFS

private let kib: Int64 = 1 << 10
private let mib: Int64 = 1 << 20
private let gib: Int64 = 1 << 30

/// What a plan does when bytes change or do not come.
@Suite struct HydrationPlanTroubleTests {
    @Test func `a failed range fails its readers and fails again at once for a second`() throws {
        var harness = HydrationPlanHarness(size: gib)
        let waiter = harness.read(0..<4096)
        let request = try harness.request(at: 0)
        harness.running[request] = nil
        harness.send(.requestFailed(request, .offline))
        #expect(harness.failure(waiter) == .offline)

        harness.now += .milliseconds(999)
        let answered = harness.read(0..<4096)
        #expect(harness.failure(answered) == .offline)
        #expect(harness.fetched.count == 1)

        let elsewhere = harness.read(mib..<mib + 4096)
        #expect(harness.woken[elsewhere] == nil)

        harness.now += .milliseconds(1)
        let again = harness.read(0..<4096)
        #expect(harness.woken[again] == nil)
        harness.settle()
        #expect(harness.succeeded(again) && harness.succeeded(elsewhere))
    }

    @Test func `bytes delivered before a failure can be read`() throws {
        var harness = HydrationPlanHarness(size: gib)
        harness.read(0..<64 * kib)
        let request = try harness.request(at: 0)
        harness.send(.delivered(request, 0..<32 * kib))
        harness.send(.requestFailed(request, .offline))
        let answered = harness.read(0..<32 * kib)
        #expect(harness.succeeded(answered))
    }

    @Test func `a guess that failed does not fail a later reader`() throws {
        var harness = HydrationPlanHarness(size: 100 * mib)
        harness.send(.completeAll(forced: true))
        let request = try harness.request(at: 0)
        harness.running[request] = nil
        harness.send(.requestFailed(request, .offline))
        let waiter = harness.read(0..<4096)
        #expect(harness.woken[waiter] == nil)
        try harness.deliver(0..<4096)
        #expect(harness.succeeded(waiter))
    }

    @Test func `who waits for bytes of a guess given up for want of room gets them`() throws {
        var harness = HydrationPlanHarness(size: 100 * mib)
        harness.send(.completeAll(forced: true))
        let guess = try harness.request(at: 0)
        let waiter = harness.read(0..<4096)
        #expect(harness.fetched.count == harness.running.count)
        harness.running[guess] = nil
        harness.send(.requestGivenUp(guess, .diskFull))
        #expect(harness.woken[waiter] == nil)

        let own = try harness.request(at: 0)
        #expect(harness.plan.isAwaited(own))
        #expect(harness.running[own] == 0..<4096)
        harness.running[own] = nil
        harness.send(.requestFailed(own, .diskFull))
        #expect(harness.failure(waiter) == .diskFull)
    }

    @Test func `guesses rest after failures, longer each time, and go on by themselves`() throws {
        var harness = HydrationPlanHarness(size: 4 * mib)
        harness.send(.completeAll(forced: true))
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            let request = try harness.request(at: 0)
            harness.running[request] = nil
            harness.send(.requestFailed(request, .offline))
            #expect(harness.running.isEmpty)
            #expect(harness.plan.nextTick == harness.now + .seconds(pause))
            harness.now += .seconds(pause)
            harness.send(.tick)
        }
        harness.settle()
        #expect(harness.plan.isComplete)
        #expect(harness.plan.nextTick == nil)
    }

    @Test func `a request that ends short has failed`() throws {
        var harness = HydrationPlanHarness(size: gib)
        let waiter = harness.read(0..<8192)
        let request = try harness.request(at: 0)
        harness.send(.delivered(request, 0..<4096))
        harness.end(request)
        #expect(harness.failure(waiter) == .corrupt)
    }

    @Test func `what was written here is not overwritten by later deliveries`() throws {
        var harness = HydrationPlanHarness(size: gib)
        let waiter = harness.read(0..<64 * kib)
        let request = try harness.request(at: 0)
        harness.send(.localWrite(1000..<3000))
        #expect(
            harness.plan.wanted(of: 0..<64 * kib, for: request)
                == [0..<1000, 3000..<64 * kib]
        )
        harness.settle()
        #expect(harness.succeeded(waiter))
    }

    @Test func `a write over all that a reader waits for wakes it and stops the request`() throws {
        var harness = HydrationPlanHarness(size: gib)
        let waiter = harness.read(0..<4096)
        let request = try harness.request(at: 0)
        harness.send(.localWrite(0..<4096))
        #expect(harness.succeeded(waiter))
        #expect(harness.cancelled == [request])
        #expect(harness.plan.wanted(of: 0..<4096, for: request).isEmpty)
    }

    @Test func `behind a cut nothing is fetched`() {
        var harness = HydrationPlanHarness(size: 10 * mib)
        harness.send(.truncated(to: mib))
        let waiter = harness.read(5 * mib..<6 * mib)
        #expect(harness.succeeded(waiter))
        harness.send(.completeAll(forced: true))
        #expect(harness.fetched == [0..<mib])
        harness.settle()
        #expect(harness.completions == 1)
    }

    @Test func `a cut that lengthens the file changes nothing`() {
        var harness = HydrationPlanHarness(size: 10 * mib)
        harness.send(.truncated(to: 20 * mib))
        #expect(harness.plan.present.isEmpty)
    }

    @Test func `writes behind the base are not its bytes`() {
        var harness = HydrationPlanHarness(size: 4096)
        harness.send(.localWrite(0..<1_000_000))
        #expect(harness.plan.present.byteCount == 4096)
        #expect(harness.completions == 1)
    }

    @Test func `a cancelled reader takes its request with it`() {
        var harness = HydrationPlanHarness(size: gib)
        let one = harness.read(0..<4096)
        harness.send(.cancelRead(.init(rawValue: one)))
        #expect(harness.running.isEmpty)
        #expect(harness.woken[one] == nil)
        #expect(harness.plan.isIdle)
    }

    @Test func `a cancelled reader leaves the request that another waits for`() {
        var harness = HydrationPlanHarness(size: gib)
        let one = harness.read(0..<4096)
        let other = harness.read(0..<4096, handle: 2)
        harness.send(.cancelRead(.init(rawValue: one)))
        #expect(harness.running.count == 1)
        harness.settle()
        #expect(harness.succeeded(other))
    }

    @Test func `a version that is gone fails readers, and only of absent bytes`() {
        var harness = HydrationPlanHarness(size: gib, present: ByteRangeSet(0..<4096))
        let waiter = harness.read(mib..<mib + 4096)
        harness.send(.remoteChanged)
        #expect(harness.failure(waiter) == .remoteChanged)
        #expect(harness.running.isEmpty)
        let answered = harness.read(0..<4096)
        #expect(harness.succeeded(answered))
        let answeredNext = harness.read(0..<8192)
        #expect(harness.failure(answeredNext) == .remoteChanged)
        harness.send(.completeAll(forced: true))
        #expect(harness.running.isEmpty)
    }

    @Test func `a reader without progress is stalled, one with progress is not`() throws {
        var harness = HydrationPlanHarness(size: gib)
        let still = harness.read(0..<4096)
        let moving = harness.read(mib..<2 * mib, handle: 2)
        harness.now += .seconds(29)
        #expect(harness.plan.stalledWaiters(now: harness.now).isEmpty)
        try harness.deliver(mib..<mib + 4096)
        harness.now += .seconds(1)
        #expect(harness.plan.stalledWaiters(now: harness.now).map(\.rawValue) == [still])

        harness.send(.expireStalled(.timedOut))
        #expect(harness.failure(still) == .timedOut)
        #expect(harness.woken[moving] == nil)
        #expect(harness.cancelled.count == 1)
        // The deadline is not paid twice.
        let answered = harness.read(0..<4096)
        #expect(harness.failure(answered) == .timedOut)
    }

    @Test func `readers that no request ever served give up too`() {
        var harness = HydrationPlanHarness(size: gib)
        let readers = (0..<10).map { index in
            harness.read(Int64(index) * 10 * mib..<Int64(index) * 10 * mib + 4096)
        }
        #expect(harness.running.count == 4)
        harness.now += .seconds(30)
        harness.send(.expireStalled(.offline))
        #expect(readers.allSatisfy { harness.failure($0) == .offline })
        #expect(harness.plan.isIdle)
    }

    @Test func `news of requests that are over changes nothing`() throws {
        var harness = HydrationPlanHarness(size: gib)
        let one = harness.read(0..<4096)
        let request = try harness.request(at: 0)
        harness.send(.cancelRead(.init(rawValue: one)))
        harness.send(.delivered(request, 0..<4096))
        harness.send(.requestEnded(request))
        harness.send(.requestFailed(request, .offline))
        #expect(harness.plan.present.isEmpty)
        #expect(harness.plan.lastFailure == nil)
    }
}
