import Testing

@testable import CloudFS

@Suite struct FaultPointTests {
    @Test func `a point that nobody armed does nothing`() async throws {
        try FaultPoint("test.unarmed").reach()
        try await FaultPoint("test.unarmed").reachInTask()
    }

    @Test func `a point fails as often as it is told, after passing as often as it is told`() {
        let point = FaultPoint("test.fail")
        let arm = point.arm(Fault(effect: .fail, skipping: 2, times: 1))
        let outcomes = (0..<5).map { _ in
            do throws(FaultError) {
                try point.reach()
                return true
            } catch {
                return false
            }
        }
        #expect(outcomes == [true, true, false, true, true])
        #expect(arm.hitCount == 5)
    }

    @Test func `a point that was disarmed or forgotten does nothing`() throws {
        let point = FaultPoint("test.disarmed")
        let arm = point.arm(Fault(effect: .fail))
        arm.disarm()
        try point.reach()
        _ = point.arm(Fault(effect: .fail))
        try point.reach()
    }

    @Test(.timeLimit(.minutes(10)))
    func `a task is blocked until it is released`() async throws {
        let point = FaultPoint("test.block.task")
        let arm = point.arm(Fault(effect: .block))
        let task = Task { try await point.reachInTask() }
        await arm.reached()
        arm.release()
        try await task.value
    }

    @Test(.timeLimit(.minutes(10)))
    func `a thread is blocked until it is released`() async throws {
        let point = FaultPoint("test.block.thread")
        let arm = point.arm(Fault(effect: .block))
        let pool = BlockingPool(name: "test", width: 1)
        async let work: Void = pool.run { try point.reach() }
        await arm.reached()
        arm.release()
        try await work
        #expect(arm.hitCount == 1)
    }

    @Test func `a delay passes`() throws {
        let point = FaultPoint("test.delay")
        let arm = point.arm(Fault(effect: .delay(.milliseconds(20))))
        let took = try ContinuousClock().measure { try point.reach() }
        #expect(took >= .milliseconds(20))
        arm.disarm()
    }

    @Test func `the environment's text is understood, and nonsense is left out`() {
        let faults = Fault.parse(
            "one=fail@3*2,two=delay:200*1,three=kill,four=block,five,six=what,=,seven=,eight=*1"
        )
        #expect(faults.map(\.name) == ["one", "two", "three", "four"])
        #expect(faults.map(\.fault.skipping) == [3, 0, 0, 0])
        #expect(faults.map(\.fault.times) == [2, 1, .max, .max])
        guard faults.count == 4, case .delay(let delay) = faults[1].fault.effect else {
            Issue.record("no delay")
            return
        }
        #expect(delay == .milliseconds(200))
    }
}
