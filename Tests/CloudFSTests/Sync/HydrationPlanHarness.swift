import Testing

@testable import CloudFS

/// A plan, with the network and the clock in the test's hand.
struct HydrationPlanHarness {
    var plan: HydrationPlan
    var now: Duration = .seconds(100)
    /// What was asked for and neither ended nor was cancelled.
    var running: [HydrationPlan.RequestID: Range<Int64>] = [:]
    var woken: [UInt64: CloudFSError.Code?] = [:]
    var fetched: [Range<Int64>] = []
    var cancelled: [HydrationPlan.RequestID] = []
    var completions = 0
    private var nextWaiter: UInt64 = 1

    init(
        size: Int64,
        present: ByteRangeSet = ByteRangeSet(),
        policy: HydrationPlan.Policy = .partial
    ) {
        plan = HydrationPlan(size: size, present: present, policy: policy)
    }

    mutating func send(_ event: HydrationPlan.Event) {
        for action in plan.handle(event, now: now) {
            switch action {
            case .fetch(let id, let range):
                running[id] = range
                fetched.append(range)
            case .cancel(let id):
                running[id] = nil
                cancelled.append(id)
            case .wake(let waiter, let failure):
                #expect(woken[waiter.rawValue] == nil, "woken twice")
                woken[waiter.rawValue] = .some(failure)
            case .complete:
                completions += 1
            }
        }
    }

    @discardableResult
    mutating func read(_ range: Range<Int64>, handle: UInt64 = 1) -> UInt64 {
        let waiter = nextWaiter
        nextWaiter += 1
        send(.read(.init(rawValue: waiter), range, handle: handle))
        return waiter
    }

    func request(at offset: Int64) throws -> HydrationPlan.RequestID {
        try #require(running.first { $0.value.contains(offset) }?.key)
    }

    mutating func deliver(_ range: Range<Int64>) throws {
        send(.delivered(try request(at: range.lowerBound), range))
    }

    mutating func end(_ id: HydrationPlan.RequestID) {
        running[id] = nil
        send(.requestEnded(id))
    }

    /// Delivers everything that runs, until nothing runs.
    mutating func settle() {
        while let (id, range) = running.min(by: { $0.value.lowerBound < $1.value.lowerBound }) {
            send(.delivered(id, range))
            if running[id] != nil { end(id) }
        }
    }

    func succeeded(_ waiter: UInt64) -> Bool { woken[waiter] == .some(nil) }
    func failure(_ waiter: UInt64) -> CloudFSError.Code? { woken[waiter] ?? nil }
}
