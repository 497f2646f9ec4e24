import Testing

@testable import CloudFS

@Suite struct LeasePlanTests {
    private static let document = DocumentID(high: 1, low: 2)
    private static let ours = LeaseHolder(device: "desk", process: "vi (1)")
    private static let theirs = LeaseHolder(device: "laptop", process: "soffice (7)")

    private func plan(_ watch: LeaseWatch = LeaseWatch()) -> LeasePlan {
        LeasePlan(
            document: Self.document,
            holder: Self.ours,
            duration: .seconds(60),
            watch: watch
        )
    }

    private func record(
        _ number: Int64,
        generation: Int64? = nil,
        by holder: LeaseHolder = Self.theirs,
        isEnded: Bool = false
    ) -> LeaseRecord {
        LeaseRecord(
            document: Self.document,
            number: number,
            generation: generation ?? number,
            holder: holder,
            duration: .seconds(60),
            isEnded: isEnded
        )
    }

    /// A plan that took a free lease at the moment 0.
    private func held() throws -> LeasePlan {
        var plan = plan()
        #expect(plan.next(at: .zero) == .look)
        plan.saw(nil, asked: .zero, at: .zero)
        #expect(plan.next(at: .zero) == .append(record(1, by: Self.ours)))
        plan.appended(true, at: .seconds(1))
        try #require(plan.phase == .held)
        return plan
    }

    @Test func `a free lease is taken, renewed and ended`() throws {
        var plan = try held()
        #expect(plan.next(at: .seconds(1)) == .rest(until: .seconds(20)))
        let renewal = record(2, generation: 1, by: Self.ours)
        #expect(plan.next(at: .seconds(20)) == .append(renewal))
        plan.appended(true, at: .seconds(21))
        #expect(plan.isHeld(at: .seconds(72)))
        plan.release()
        #expect(!plan.isHeld(at: .seconds(22)))
        let end = record(3, generation: 1, by: Self.ours, isEnded: true)
        #expect(plan.next(at: .seconds(22)) == .append(end))
        plan.appended(true, at: .seconds(23))
        #expect(plan.next(at: .seconds(23)) == .nothing)
        #expect(plan.phase == .ended)
        #expect(plan.watch.isFree)
    }

    @Test func `a holder stops before its lease is over, without being told`() throws {
        var plan = try held()
        #expect(plan.isHeld(at: .seconds(52)))
        #expect(!plan.isHeld(at: .milliseconds(52_500)))
        #expect(plan.next(at: .seconds(53)) == .nothing)
        #expect(plan.phase == .lost)
    }

    @Test func `an answer that comes too late does not bring a lost lease back`() throws {
        var plan = try held()
        guard case .append = plan.next(at: .seconds(50)) else {
            Issue.record("no renewal")
            return
        }
        plan.appended(true, at: .seconds(53))
        #expect(plan.phase == .lost)
    }

    @Test func `the time counts from before the record was sent`() {
        var plan = plan()
        _ = plan.next(at: .zero)
        plan.saw(nil, asked: .zero, at: .zero)
        _ = plan.next(at: .zero)
        // So late that others may be about to take it: it is renewed first.
        plan.appended(true, at: .seconds(53))
        #expect(plan.phase == .wanted)
        let renewal = record(2, generation: 1, by: Self.ours)
        #expect(plan.next(at: .seconds(53)) == .append(renewal))
        plan.appended(true, at: .seconds(54))
        #expect(plan.isHeld(at: .seconds(54)))
    }

    @Test func `a living lease is waited for, a dead one is taken over`() {
        var plan = plan()
        var now = Duration.seconds(100)
        var looks = 0
        while true {
            #expect(plan.next(at: now) == .look)
            plan.saw(record(7), asked: now, at: now)
            looks += 1
            let step = plan.next(at: now)
            guard step == .pause else {
                #expect(step == .append(record(8, by: Self.ours)))
                break
            }
            now += .seconds(5)
        }
        // 60 s and a quarter of them since the first look.
        #expect(now == .seconds(175))
        #expect(looks == 16)
    }

    @Test func `every renewal begins the wait anew`() {
        var watch = LeaseWatch()
        watch.saw(record(7), asked: .zero, at: .seconds(1))
        watch.saw(record(8, generation: 7), asked: .seconds(75), at: .seconds(76))
        #expect(!watch.isFree)
        #expect(watch.deadline == .seconds(151))
        watch.saw(record(8, generation: 7), asked: .seconds(150), at: .seconds(152))
        #expect(!watch.isFree, "it was asked for before its time was over")
        watch.saw(record(8, generation: 7), asked: .seconds(151), at: .seconds(152))
        #expect(watch.isFree)
    }

    @Test func `what was seen in an earlier attempt counts`() {
        var watch = LeaseWatch()
        watch.saw(record(7), asked: .zero, at: .zero)
        var plan = plan(watch)
        #expect(plan.next(at: .seconds(80)) == .look)
        plan.saw(record(7), asked: .seconds(80), at: .seconds(80))
        #expect(plan.next(at: .seconds(80)) == .append(record(8, by: Self.ours)))
    }

    @Test func `who loses the race waits for the winner`() {
        var plan = plan()
        _ = plan.next(at: .zero)
        plan.saw(record(3, isEnded: true), asked: .zero, at: .zero)
        #expect(plan.next(at: .zero) == .append(record(4, by: Self.ours)))
        plan.appended(false, at: .seconds(1))
        #expect(plan.next(at: .seconds(1)) == .pause)
        #expect(plan.next(at: .seconds(1)) == .look)
        plan.saw(record(4), asked: .seconds(1), at: .seconds(1))
        #expect(plan.next(at: .seconds(1)) == .pause)
        #expect(plan.phase == .wanted)
    }

    @Test func `a taking whose answer was lost is found`() {
        var plan = plan()
        _ = plan.next(at: .zero)
        plan.saw(nil, asked: .zero, at: .zero)
        _ = plan.next(at: .zero)
        plan.failed(at: .seconds(10))
        #expect(plan.next(at: .seconds(10)) == .pause)
        #expect(plan.next(at: .seconds(11)) == .look)
        plan.saw(record(1, by: Self.ours), asked: .seconds(11), at: .seconds(12))
        #expect(plan.isHeld(at: .seconds(52)))
        #expect(!plan.isHeld(at: .seconds(53)))
    }

    @Test func `a renewal whose answer was lost is sent again, as old as it was`() throws {
        var plan = try held()
        let renewal = record(2, generation: 1, by: Self.ours)
        #expect(plan.next(at: .seconds(20)) == .append(renewal))
        plan.failed(at: .seconds(30))
        #expect(plan.next(at: .seconds(30)) == .pause)
        #expect(plan.next(at: .seconds(31)) == .look)
        plan.saw(record(1, by: Self.ours), asked: .seconds(31), at: .seconds(31))
        #expect(plan.next(at: .seconds(31)) == .append(renewal))
        plan.appended(true, at: .seconds(32))
        #expect(plan.isHeld(at: .seconds(72)))
        #expect(!plan.isHeld(at: .seconds(73)))
    }

    @Test func `a holder that meets another's record has lost`() throws {
        var plan = try held()
        _ = plan.next(at: .seconds(20))
        plan.appended(false, at: .seconds(21))
        _ = plan.next(at: .seconds(21))
        _ = plan.next(at: .seconds(21))
        plan.saw(record(2), asked: .seconds(21), at: .seconds(21))
        #expect(plan.phase == .lost)
    }

    @Test func `an end that meets a late renewal is told nevertheless`() throws {
        var plan = try held()
        _ = plan.next(at: .seconds(20))
        plan.failed(at: .seconds(30))
        plan.release()
        #expect(plan.next(at: .seconds(30)) == .pause)
        #expect(plan.next(at: .seconds(30)) == .look)
        plan.saw(record(1, by: Self.ours), asked: .seconds(30), at: .seconds(30))
        let end = record(2, generation: 1, by: Self.ours, isEnded: true)
        #expect(plan.next(at: .seconds(30)) == .append(end))
        plan.appended(false, at: .seconds(31))
        #expect(plan.next(at: .seconds(31)) == .pause)
        #expect(plan.next(at: .seconds(31)) == .look)
        plan.saw(record(2, generation: 1, by: Self.ours), asked: .seconds(31), at: .seconds(31))
        let later = record(3, generation: 1, by: Self.ours, isEnded: true)
        #expect(plan.next(at: .seconds(31)) == .append(later))
    }

    @Test func `who gives up before anything was sent leaves nothing`() {
        var plan = plan()
        _ = plan.next(at: .zero)
        plan.saw(record(1), asked: .zero, at: .zero)
        plan.release()
        #expect(plan.next(at: .zero) == .nothing)
    }

    @Test func `an end that cannot be told is given up`() throws {
        var plan = try held()
        plan.release()
        for second in 1...4 {
            var step = plan.next(at: .seconds(second))
            while step == .pause { step = plan.next(at: .seconds(second)) }
            #expect(step != .nothing)
            plan.failed(at: .seconds(second))
        }
        #expect(plan.phase == .ended)
    }

    @Test func `a chain at its end is not counted on`() {
        var plan = plan()
        _ = plan.next(at: .zero)
        let last = record(LeaseRecord.highestNumber, isEnded: true)
        plan.saw(last, asked: .zero, at: .zero)
        #expect(plan.next(at: .zero) == .nothing)
    }
}
