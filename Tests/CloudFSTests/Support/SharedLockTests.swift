import Dispatch
import Foundation
import Synchronization
import Testing

@testable import CloudFS

@Suite struct SharedLockTests {
    private let limit = DispatchTimeInterval.seconds(20)

    /// - Returns: What is signalled at its end.
    private func start(_ work: @escaping @Sendable () -> Void) -> DispatchSemaphore {
        let end = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            work()
            end.signal()
        }
        return end
    }

    @Test func `several share it at once`() {
        let lock = SharedLock()
        let (isShared, isMet) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let meeting = start {
            lock.shared {
                isShared.signal()
                isMet.wait()
            }
        }
        isShared.wait()
        _ = lock.shared { isMet.signal() }
        #expect(meeting.wait(timeout: .now() + limit) == .success)
    }

    @Test func `who wants it alone gets it though others go on sharing it`() {
        let lock = SharedLock()
        let isOver = Mutex(false)
        let sharing = DispatchSemaphore(value: 0)
        // Together they share it at every moment.
        let sharers = (0..<4).map { _ in
            start {
                while !isOver.withLock({ $0 }) {
                    lock.shared {
                        sharing.signal()
                        usleep(5_000)
                    }
                }
            }
        }
        for _ in 0..<8 { sharing.wait() }
        let alone = start { lock.alone {} }
        #expect(alone.wait(timeout: .now() + limit) == .success)
        isOver.withLock { $0 = true }
        for sharer in sharers { sharer.wait() }
    }
}
