import Dispatch
import Synchronization
import Testing

@testable import CloudFS

@Suite struct TimerThreadTests {
    @Test(.timeLimit(.minutes(10)))
    func `values are handed over when their moments have come, the earliest first`() throws {
        let timers = try #require(TimerThread<Int>())
        let found = Mutex<[(value: Int, at: ContinuousClock.Instant)]>([])
        let each = DispatchSemaphore(value: 0)
        timers.start("timer-tests") { value in
            found.withLock { $0.append((value, .now)) }
            each.signal()
        }
        let begin = ContinuousClock.now
        let delays = [300, 200, 400, 200, 250].map { Duration.milliseconds($0) }
        for (index, delay) in delays.enumerated() { timers.add(index, at: begin + delay) }
        for _ in delays { each.wait() }
        let order = found.withLock { $0 }
        #expect(order.map(\.value) == [1, 3, 4, 0, 2])
        for (index, moment) in order { #expect(moment >= begin + delays[index]) }
    }

    @Test(.timeLimit(.minutes(10)))
    func `a moment that has passed is now, and what lies far ahead holds nothing up`() throws {
        let timers = try #require(TimerThread<String>())
        let found = Mutex<[String]>([])
        let each = DispatchSemaphore(value: 0)
        timers.start("timer-tests") { value in
            found.withLock { $0.append(value) }
            each.signal()
        }
        timers.add("far", at: .now + .seconds(1 << 40))
        timers.add("past", at: .now - .seconds(10))
        each.wait()
        timers.add("soon", at: .now + .milliseconds(1))
        each.wait()
        #expect(found.withLock { $0 } == ["past", "soon"])
    }
}
