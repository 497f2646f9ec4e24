import CloudFSTestSupport
import Testing

@testable import CloudFS

private let kib: Int64 = 1 << 10
private let mib: Int64 = 1 << 20
private let gib: Int64 = 1 << 30

/// The rules of hydration, one by one.
@Suite struct HydrationPlanTests {
    @Test func `a small first read fetches its own blocks alone`() {
        var harness = HydrationPlanHarness(size: gib)
        harness.read(10_000..<10_100)
        #expect(harness.fetched == [8192..<12_288])
    }

    @Test func `a first read of 64 KiB at the start fetches no more`() {
        var harness = HydrationPlanHarness(size: gib, policy: .progressive(limit: 2 * gib))
        harness.read(0..<64 * kib)
        harness.settle()
        #expect(harness.fetched == [0..<64 * kib])
        #expect(!harness.plan.isCompleting)
    }

    @Test func `a file of up to 64 KiB comes whole`() {
        var harness = HydrationPlanHarness(size: 64 * kib)
        let waiter = harness.read(100..<200)
        #expect(harness.fetched == [0..<64 * kib])
        harness.settle()
        #expect(harness.succeeded(waiter))
        #expect(harness.completions == 1)
    }

    @Test func `a reader is woken as soon as its own range is present`() throws {
        var harness = HydrationPlanHarness(size: 64 * kib)
        let early = harness.read(0..<4096)
        let late = harness.read(4096..<12_288)
        try harness.deliver(0..<4096)
        #expect(harness.succeeded(early))
        #expect(harness.woken[late] == nil)
        try harness.deliver(4096..<8192)
        #expect(harness.woken[late] == nil)
        try harness.deliver(8192..<12_288)
        #expect(harness.succeeded(late))
    }

    @Test func `a read of present bytes is answered at once`() {
        var harness = HydrationPlanHarness(size: gib, present: ByteRangeSet(0..<mib))
        let waiter = harness.read(0..<4096)
        #expect(harness.succeeded(waiter))
        #expect(harness.fetched.isEmpty)
    }

    @Test func `a read behind the end waits for nothing`() {
        var harness = HydrationPlanHarness(size: 1000)
        let answered = harness.read(1000..<2000)
        #expect(harness.succeeded(answered))
        #expect(harness.fetched.isEmpty)
    }

    @Test(arguments: [
        HydrationPlan.Policy.partial, .progressive(limit: .max), .full,
    ])
    func `a file that is as long as numbers go is read up to its end`(
        policy: HydrationPlan.Policy
    ) {
        let size = Int64.max
        var harness = HydrationPlanHarness(size: size, policy: policy)
        let last = harness.read(size - 1..<size)
        #expect(harness.fetched.first == size - 4095..<size)
        // In a row, so that the end is read ahead.
        var offset = size - mib
        while offset < size {
            let end = offset + min(64 * kib, size - offset)
            harness.read(offset..<end)
            offset = end
        }
        #expect(harness.fetched.allSatisfy { $0.upperBound <= size })
        for (id, range) in harness.running where range.count <= mib {
            harness.send(.delivered(id, range))
        }
        #expect(harness.succeeded(last))
    }

    @Test func `two readers of one range share one request`() {
        var harness = HydrationPlanHarness(size: gib)
        let one = harness.read(mib..<mib + 4096, handle: 1)
        let other = harness.read(mib..<mib + 4096, handle: 2)
        #expect(harness.fetched.count == 1)
        harness.settle()
        #expect(harness.succeeded(one) && harness.succeeded(other))
    }

    @Test func `random reads of 4 KiB fetch 4 KiB each`() {
        var harness = HydrationPlanHarness(size: gib, policy: .progressive(limit: 256 * mib))
        var random = SeededRandom(seed: 7)
        let blocks = Set((0..<500).map { _ in Int64(random.below(Int(gib / 4096))) })
        for block in blocks.sorted(by: { $0 &* 2_654_435_761 % 997 < $1 &* 2_654_435_761 % 997 }) {
            harness.read(block * 4096..<(block + 1) * 4096)
            harness.settle()
        }
        #expect(harness.fetched.allSatisfy { $0.count == 4096 })
        #expect(harness.fetched.count == blocks.count)
    }

    @Test func `a large read anywhere brings the pieces that follow in its request`() {
        var harness = HydrationPlanHarness(size: gib, present: ByteRangeSet(9 * mib..<10 * mib))
        let large = 128 * kib
        harness.read(600 * mib..<600 * mib + large - 4 * kib)
        #expect(harness.fetched == [600 * mib..<600 * mib + large - 4 * kib])
        harness.settle()
        let waiter = harness.read(700 * mib..<700 * mib + large)
        #expect(harness.fetched.last == 700 * mib..<700 * mib + 3 * large)
        harness.settle()
        #expect(harness.succeeded(waiter))
        for piece: Int64 in 1...2 {
            let start = 700 * mib + piece * large
            let next = harness.read(start..<start + large)
            #expect(harness.succeeded(next))
        }
        // At the end there is no more, and beside what is here nothing is asked for.
        let count = harness.fetched.count
        harness.read(gib - large..<gib)
        harness.read(10 * mib - large..<10 * mib)
        let atEnd = harness.fetched[count...].filter { $0.lowerBound > 800 * mib }
        #expect(atEnd == [gib - large..<gib])
        #expect(!harness.fetched.contains { $0.lowerBound == 10 * mib })
    }

    @Test func `sequential reading grows its window up to 256 MiB`() {
        var harness = HydrationPlanHarness(size: 4 * gib)
        var windows: [Int64] = []
        for offset in stride(from: 0, to: gib, by: 128 << 10) {
            harness.read(offset..<offset + 128 * kib)
            harness.settle()
            let window = harness.plan.streams.last?.window ?? 0
            if windows.last != window { windows.append(window) }
        }
        #expect(windows == [1, 4, 16, 64, 256].map { $0 * mib })
        #expect(harness.fetched.allSatisfy { $0.count <= 8 * mib })
        let total = harness.fetched.reduce(0) { $0 + Int64($1.count) }
        #expect(total <= gib + 257 * mib)
        #expect(harness.fetched.count < 180)
    }

    @Test func `reading ahead runs several requests and never more than are allowed`() {
        var harness = HydrationPlanHarness(size: 4 * gib)
        var most = 0
        for offset in stride(from: 0, to: 256 * mib, by: 128 << 10) {
            harness.read(offset..<offset + 128 * kib)
            most = max(most, harness.running.count)
            harness.settle()
        }
        #expect(most == 4)
    }

    @Test func `a reader far inside a running request gets a request of its own`() throws {
        var harness = HydrationPlanHarness(size: gib)
        harness.send(.completeAll(forced: true))
        let large = try harness.request(at: 0)
        let target = 5 * mib
        let waiter = harness.read(target..<target + 4096, handle: 2)
        #expect(harness.fetched.last == target..<target + 4096)
        try harness.deliver(target..<target + 4096)
        #expect(harness.succeeded(waiter))
        // The first request goes on to where the other took over, and no further.
        harness.send(.delivered(large, 0..<target))
        #expect(harness.cancelled.contains(large))
    }

    @Test func `a reader near the front of a running request waits for it`() {
        var harness = HydrationPlanHarness(size: gib)
        harness.send(.completeAll(forced: true))
        let count = harness.fetched.count
        harness.read(mib..<mib + 4096, handle: 2)
        #expect(harness.fetched.count == count)
    }

    @Test func `readers are served while guesses fill every slot`() throws {
        var harness = HydrationPlanHarness(size: gib, policy: .progressive(limit: 2 * gib))
        harness.send(.completeAll(forced: true))
        #expect(harness.running.count == 4)
        let waiter = harness.read(900 * mib..<900 * mib + 4096)
        try harness.deliver(900 * mib..<900 * mib + 4096)
        #expect(harness.succeeded(waiter))
    }

    @Test(arguments: [
        (100 * mib, 256 * mib, true), (100 * mib, 50 * mib, false), (2 * mib, 256 * mib, true),
    ])
    func `the rest follows a sequential reader, up to the limit`(
        size: Int64,
        limit: Int64,
        completes: Bool
    ) {
        var harness = HydrationPlanHarness(size: size, policy: .progressive(limit: limit))
        let enough = min(mib, size / 10)
        var offset: Int64 = 0
        while offset + 64 * kib <= enough {
            harness.read(offset..<offset + 64 * kib)
            offset += 64 * kib
            #expect(!harness.plan.isCompleting)
        }
        harness.read(offset..<offset + 64 * kib)
        #expect(harness.plan.isCompleting == completes)
        harness.settle()
        #expect(harness.completions == (completes ? 1 : 0))
        #expect(harness.plan.isComplete == completes)
    }

    @Test func `two handles that read half as much each do not begin completion`() {
        var harness = HydrationPlanHarness(size: 100 * mib, policy: .progressive(limit: gib))
        for handle: UInt64 in 1...2 {
            let start = Int64(handle) * 20 * mib
            for offset in stride(from: start, to: start + 768 * kib, by: 64 << 10) {
                harness.read(offset..<offset + 64 * kib, handle: handle)
                harness.settle()
            }
        }
        #expect(!harness.plan.isCompleting)
    }

    @Test func `forced completion needs neither reader nor policy`() {
        var harness = HydrationPlanHarness(size: 20 * mib, policy: .partial)
        harness.send(.completeAll(forced: false))
        #expect(harness.running.isEmpty)
        harness.send(.completeAll(forced: true))
        harness.settle()
        #expect(harness.plan.isComplete)
        #expect(harness.completions == 1)
    }

    @Test func `the full policy fetches everything and wakes who waits for all`() {
        var harness = HydrationPlanHarness(size: 40 * mib, policy: .full)
        let waiter = harness.read(0..<40 * mib)
        #expect(harness.running.count == 4)
        harness.settle()
        #expect(harness.succeeded(waiter))
    }

    @Test func `an empty file is complete at the first word`() {
        var harness = HydrationPlanHarness(size: 0, policy: .full)
        harness.send(.tick)
        #expect(harness.completions == 1)
        harness.send(.tick)
        #expect(harness.completions == 1)
    }
}
