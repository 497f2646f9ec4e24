import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10)))
struct AlarmClockTests {
    @Test func `sleepers wake when their time has come`() async throws {
        let alarms = AlarmClock()
        let begin = ContinuousClock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for milliseconds in [90, 30, 60] {
                group.addTask {
                    try await alarms.sleep(for: .milliseconds(milliseconds))
                    #expect(ContinuousClock.now - begin >= .milliseconds(milliseconds))
                }
            }
            try await group.waitForAll()
        }
        #expect(alarms.timerCount == 0)
    }

    @Test func `who is cancelled wakes at once and leaves no timer of its own`() async throws {
        let alarms = AlarmClock()
        for _ in 0..<100 {
            let sleeper = Task { try await alarms.sleep(for: .seconds(3_600)) }
            sleeper.cancel()
            await #expect(throws: CancellationError.self) { try await sleeper.value }
        }
        #expect(alarms.timerCount <= 1)
    }

    @Test func `a short sleep does not wait for a long one`() async throws {
        let alarms = AlarmClock()
        let long = Task { try await alarms.sleep(for: .seconds(3_600)) }
        while alarms.timerCount == 0 { await Task.yield() }
        for _ in 0..<3 { try await alarms.sleep(for: .milliseconds(5)) }
        // The long one's timer serves it still.
        #expect(alarms.timerCount == 1)
        long.cancel()
        await #expect(throws: CancellationError.self) { try await long.value }
    }
}
