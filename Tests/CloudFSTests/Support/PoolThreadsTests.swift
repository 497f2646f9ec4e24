import Dispatch
import Glibc
import Synchronization
import Testing

@testable import CloudFS

@Suite struct PoolThreadsTests {
    @Test(.timeLimit(.minutes(10)))
    func `as many pieces of work run at once as the pool is wide`() {
        let width = 3
        let threads = PoolThreads(name: "pool-tests", width: width, stackSize: 1 << 20)
        defer { threads.end() }
        let running = Mutex(0)
        let allRun = DispatchSemaphore(value: 0)
        let mayEnd = DispatchSemaphore(value: 0)
        let done = DispatchGroup()
        let most = Mutex(0)
        for _ in 0..<width * 4 {
            done.enter()
            threads.add {
                let count = running.withLock { count in
                    count += 1
                    return count
                }
                most.withLock { $0 = max($0, count) }
                if count == width { allRun.signal() }
                mayEnd.wait()
                running.withLock { $0 -= 1 }
                done.leave()
            }
        }
        allRun.wait()
        for _ in 0..<width * 4 { mayEnd.signal() }
        done.wait()
        #expect(most.withLock { $0 } == width)
    }

    @Test(.timeLimit(.minutes(10)))
    func `nothing is forgotten, whoever adds it and when`() {
        let threads = PoolThreads(name: "pool-tests", width: 2, stackSize: 1 << 20)
        defer { threads.end() }
        let count = 20_000
        let sum = Mutex(0)
        let done = DispatchGroup()
        DispatchQueue.concurrentPerform(iterations: 4) { adder in
            for number in stride(from: adder, to: count, by: 4) {
                done.enter()
                threads.add {
                    sum.withLock { $0 += number }
                    done.leave()
                }
                // Now and then the threads have nothing to do and sleep.
                if number % 100 == adder { done.wait() }
            }
        }
        done.wait()
        #expect(sum.withLock { $0 } == count * (count - 1) / 2)
    }

    @Test(.timeLimit(.minutes(10)))
    func `what was added before the end is done`() {
        let threads = PoolThreads(name: "pool-tests", width: 1, stackSize: 1 << 20)
        let gate = DispatchSemaphore(value: 0)
        let done = Self.add(10, to: threads, behind: gate)
        threads.end()
        for _ in 0..<10 { gate.signal() }
        done.wait()
    }

    @Test(.timeLimit(.minutes(10)))
    func `work is done by those there are while the system has no thread left`() {
        let started = Mutex(0)
        let threads = PoolThreads(name: "pool-tests", width: 3) { body in
            let number = started.withLock { count in
                count += 1
                return count
            }
            // The first is there before any work; the second and the third are refused.
            return number == 2 || number == 3 ? EAGAIN : OwnThread.attempt("pool-tests", body)
        }
        defer { threads.end() }
        let mayEnd = DispatchSemaphore(value: 0)
        let done = Self.add(4, to: threads, behind: mayEnd)
        // The fourth piece got a thread again.
        #expect(started.withLock { $0 } == 4)
        for _ in 0..<4 { mayEnd.signal() }
        done.wait()
    }

    @Test(.timeLimit(.minutes(10)))
    func `the first thread is there from the beginning, and does all work if no other comes`() {
        let started = Mutex(0)
        let threads = PoolThreads(name: "pool-tests", width: 3) { body in
            let number = started.withLock { count in
                count += 1
                return count
            }
            return number == 1 ? OwnThread.attempt("pool-tests", body) : EAGAIN
        }
        defer { threads.end() }
        #expect(started.withLock { $0 } == 1)
        let mayEnd = DispatchSemaphore(value: 0)
        for _ in 1...2 {
            let done = Self.add(5, to: threads, behind: mayEnd)
            for _ in 0..<5 { mayEnd.signal() }
            done.wait()
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func `a pool that was never used ends`() {
        let hasEnded = DispatchSemaphore(value: 0)
        let threads = PoolThreads(name: "pool-tests", width: 3) { body in
            OwnThread.attempt("pool-tests") {
                body()
                hasEnded.signal()
            }
        }
        threads.end()
        hasEnded.wait()
    }

    /// Adds pieces of work that each wait for a signal.
    ///
    /// - Returns: What is left when all are done.
    private static func add(
        _ count: Int,
        to threads: PoolThreads,
        behind gate: DispatchSemaphore
    ) -> DispatchGroup {
        let done = DispatchGroup()
        for _ in 0..<count {
            done.enter()
            threads.add {
                gate.wait()
                done.leave()
            }
        }
        return done
    }
}
