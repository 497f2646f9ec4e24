import CloudFSTestSupport
import Testing

@testable import CloudFS

private let mib: Int64 = 1 << 20

/// What a plan lets go of where there is no room for all of a file.
@Suite struct HydrationPlanThinningTests {
    /// A reader that has read all up to `offset`, in a file of which everything to there is here.
    private func reader(
        at offset: Int64,
        of size: Int64,
        policy: HydrationPlan.Policy = .partial
    ) -> HydrationPlanHarness {
        var harness = HydrationPlanHarness(size: size, policy: policy)
        for start in stride(from: 0, to: offset, by: Int(mib)) {
            harness.read(start..<start + mib)
            harness.settle()
        }
        return harness
    }

    private func expendable(
        _ harness: HydrationPlanHarness,
        _ byteCount: Int64,
        held: [Range<Int64>] = []
    ) -> [Range<Int64>] {
        harness.plan.expendable(byteCount, beside: held).ranges
    }

    @Test func `what lies far behind a reader goes first, and a little behind it stays`() {
        let harness = reader(at: 100 * mib, of: 1000 * mib)
        #expect(expendable(harness, 10 * mib) == [0..<10 * mib])
        #expect(expendable(harness, 1) == [0..<4096])
        let all = expendable(harness, .max / 2)
        #expect(all.first == 0..<92 * mib)
        // What was read far ahead goes too, after that.
        #expect(all.dropFirst().allSatisfy { $0.lowerBound == 132 * mib })
        let most = harness.plan.expendable(.max / 2, beside: [], sparing: .least)
        #expect(most.ranges.first == 0..<99 * mib)
        #expect(!most.intersects(100 * mib..<102 * mib) && most.contains(102 * mib..<103 * mib))
    }

    @Test func `what is on its way to a program stays, and what one waits for`() throws {
        var harness = reader(at: 100 * mib, of: 1000 * mib)
        #expect(
            expendable(harness, 20 * mib, held: [5 * mib + 1..<5 * mib + 100]) == [
                0..<5 * mib, 5 * mib + 4096..<20 * mib + 4096,
            ]
        )
        harness.send(.thinned(ByteRangeSet(mib..<2 * mib)))
        let waiter = harness.read(mib - 4096..<mib + 4096, handle: 7)
        #expect(harness.woken[waiter] == nil)
        #expect(expendable(harness, 1) == [33 * mib + 4096..<33 * mib + 8192])
    }

    @Test func `only whole blocks go`() {
        var harness = HydrationPlanHarness(
            size: 100 * mib,
            present: ByteRangeSet([100..<5000, 10_000..<20_000])
        )
        #expect(expendable(harness, mib) == [12_288..<16_384])
        harness = HydrationPlanHarness(size: 100 * mib, present: ByteRangeSet(4000..<8000))
        #expect(expendable(harness, mib).isEmpty)
    }

    @Test func `nothing goes that is wanted whole, is all here, or could not come again`() {
        var harness = reader(at: 64 * mib, of: 1000 * mib)
        harness.send(.completeAll(forced: true))
        #expect(expendable(harness, mib).isEmpty)
        harness = reader(at: 64 * mib, of: 1000 * mib)
        harness.send(.remoteChanged)
        #expect(expendable(harness, mib).isEmpty)
        harness = reader(at: 64 * mib, of: 64 * mib)
        #expect(harness.plan.isComplete)
        #expect(expendable(harness, mib).isEmpty)
    }

    @Test func `a file that gave way does not come whole, and its reader goes on`() throws {
        var harness = HydrationPlanHarness(size: 1000 * mib, policy: .progressive(limit: .max))
        for start in 0..<64 {
            let waiter = harness.read(Int64(start) * mib..<Int64(start + 1) * mib)
            while !harness.succeeded(waiter) {
                let (id, range) = try #require(
                    harness.running.min { $0.value.lowerBound < $1.value.lowerBound }
                )
                harness.send(.delivered(id, range))
                harness.end(id)
            }
        }
        #expect(harness.plan.isCompleting)
        harness.send(.thinned(harness.plan.expendable(40 * mib, beside: [])))
        #expect(!harness.plan.isCompleting)
        // What was asked for far from the reader is not waited for.
        #expect(harness.running.values.allSatisfy { $0.lowerBound < 96 * mib + 8 * mib })
        harness.settle()
        #expect(!harness.plan.isComplete)
        let next = harness.read(64 * mib..<65 * mib)
        harness.settle()
        #expect(harness.succeeded(next))
        #expect(harness.running.isEmpty && harness.plan.present.bounds!.upperBound < 120 * mib)
        let back = harness.read(0..<mib)
        harness.settle()
        #expect(harness.succeeded(back))
        // Unless somebody insists.
        harness.send(.completeAll(forced: true))
        harness.settle()
        #expect(harness.completions == 1)
    }

    @Test func `what was let go of for who waits does not come again at once`() {
        var harness = reader(at: 100 * mib, of: 1000 * mib)
        let dropped = harness.plan.expendable(.max / 2, beside: [], sparing: .least)
        #expect(dropped.intersects(102 * mib..<132 * mib))
        harness.send(.thinned(dropped))
        #expect(harness.running.values.allSatisfy { !dropped.intersects($0) })
        // Its reader goes on, and is read ahead of again.
        for start in 100..<140 {
            let waiter = harness.read(Int64(start) * mib..<Int64(start + 1) * mib)
            harness.settle()
            #expect(harness.succeeded(waiter))
        }
        #expect(harness.plan.isPresent(140 * mib..<150 * mib))
    }

    @Test func `blocks at the end of all numbers are counted`() {
        let end = Int64.max
        let harness = HydrationPlanHarness(size: end, present: ByteRangeSet(end - 100..<end))
        #expect(expendable(harness, .max).isEmpty)
    }

    @Test func `of a closed handle nothing stays, and nothing is read ahead for it`() {
        var harness = reader(at: 100 * mib, of: 1000 * mib)
        harness.plan.forget(handle: 1)
        harness.send(.tick)
        #expect(harness.running.isEmpty)
        #expect(expendable(harness, 100 * mib).first == 0..<100 * mib)
    }
}
