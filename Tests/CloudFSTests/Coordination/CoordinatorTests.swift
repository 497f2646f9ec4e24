import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

private let posix = Purpose("posix")
private let app = Purpose("app")
private let sync = Purpose("sync")

private final class Counter: Sendable {
    let value = Mutex(0)
}

@Suite struct CoordinatorTests {
    private let item = ItemID(2)

    /// Waits until `count` claims wait in `coordinator`, which other tasks bring about.
    private func waiters(_ count: Int, in coordinator: Coordinator) async {
        while (coordinator.shown.filter { !$0.isHeld }).count < count { await Task.yield() }
    }

    private func code(
        _ work: () async throws -> Void
    ) async -> CloudFSError.Code? {
        do {
            try await work()
            return nil
        } catch {
            return (error as? CloudFSError)?.code
        }
    }

    @Test(.timeLimit(.minutes(10)))
    func `a claim waits until the one in its way ends`() async throws {
        let coordinator = Coordinator()
        let writer = try coordinator.tryClaim([.writing(item)], by: Claimant(app))
        let task = Task { [item] in
            try await coordinator.claim([.reading(item)], by: Claimant(posix))
        }
        await waiters(1, in: coordinator)
        writer.end()
        let reader = try await task.value
        #expect(reader.claimant.purpose == posix)
        reader.end()
        reader.end()
        #expect(coordinator.shown.isEmpty)
    }

    @Test func `a claim that cannot be had now is refused to who will not wait`() async throws {
        let coordinator = Coordinator()
        let writer = try coordinator.tryClaim([.writing(item)], by: Claimant(app))
        let refusal = await code {
            _ = try coordinator.tryClaim([.reading(item)], by: Claimant(posix))
        }
        #expect(refusal == .claimed)
        writer.end()
        let reader = try coordinator.tryClaim([.reading(item)], by: Claimant(posix))
        #expect(coordinator.shown.count == 1)
        reader.end()
    }

    @Test(.timeLimit(.minutes(10)))
    func `a cancelled task waits no more and holds nothing`() async throws {
        let coordinator = Coordinator()
        let writer = try coordinator.tryClaim([.writing(item)], by: Claimant(app))
        let task = Task { [item] in
            _ = try await coordinator.claim([.reading(item)], by: Claimant(posix))
        }
        await waiters(1, in: coordinator)
        task.cancel()
        #expect(await code { try await task.value } == .cancelled)
        writer.end()
        #expect(coordinator.shown.isEmpty)
    }

    @Test(.timeLimit(.minutes(10)))
    func `a wait ends after its time`() async throws {
        let clock = ManualClock()
        let coordinator = Coordinator(clock: clock)
        let writer = try coordinator.tryClaim([.writing(item)], by: Claimant(app))
        let task = Task { [item] in
            _ = try await coordinator.claim(
                [.reading(item)],
                by: Claimant(posix),
                timeout: .seconds(30)
            )
        }
        await clock.sleepers()
        clock.advance(by: .seconds(29))
        #expect(coordinator.shown.filter { !$0.isHeld }.count == 1)
        clock.advance(by: .seconds(1))
        #expect(await code { try await task.value } == .timedOut)
        writer.end()
    }

    @Test func `a claim that nobody holds on to has ended`() throws {
        let coordinator = Coordinator()
        _ = try coordinator.tryClaim([.writing(item)], by: Claimant(app))
        #expect(coordinator.shown.isEmpty)
    }

    @Test func `a yielding claim hears that it was revoked`() throws {
        let coordinator = Coordinator()
        let engine = try coordinator.tryClaim(
            [.writing(item, .forReplacing)],
            by: Claimant(sync),
            isYielding: true
        )
        let calls = Mutex(0)
        engine.onRevoke { calls.withLock { $0 += 1 } }
        #expect(!engine.isRevoked)
        let reader = try coordinator.tryClaim([.reading(item)], by: Claimant(posix))
        #expect(engine.isRevoked)
        engine.onRevoke { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 2)
        engine.end()
        engine.onRevoke { calls.withLock { $0 += 1 } }
        #expect(calls.withLock { $0 } == 2)
        reader.end()
    }

    @Test func `access ends with the work, also when it fails`() async {
        let coordinator = Coordinator()
        let failure = await code {
            try await coordinator.withAccess(to: [.writing(item)], for: Claimant(app)) { _ in
                #expect(coordinator.shown.count == 1)
                throw CloudFSError(.diskFull, "no room")
            }
        }
        #expect(failure == .diskFull)
        #expect(coordinator.shown.isEmpty)
    }

    @Test(.timeLimit(.minutes(10)))
    func `many tasks share one counter without losing a step`() async throws {
        let coordinator = Coordinator()
        let item = item
        let counter = Counter()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<200 {
                group.addTask {
                    let purpose = Purpose("\(number)")
                    try await coordinator.withAccess(to: [.writing(item)], for: Claimant(purpose)) {
                        _ in
                        let before = counter.value.withLock { $0 }
                        await Task.yield()
                        counter.value.withLock { $0 = before + 1 }
                    }
                }
            }
            try await group.waitForAll()
        }
        #expect(counter.value.withLock { $0 } == 200)
        #expect(coordinator.shown.isEmpty)
    }
}
