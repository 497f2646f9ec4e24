import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// Limits of bandwidth and simulated links, on a clock that jumps.
@Suite(.timeLimit(.minutes(10)))
struct BandwidthTests {
    /// What a request fails with.
    private static func code(
        of request: () async throws(CloudFSError) -> Void
    ) async -> CloudFSError.Code? {
        do throws(CloudFSError) {
            try await request()
            return nil
        } catch {
            return error.code
        }
    }

    @Test func `a limiter lets as many bytes pass as the time allows`() async throws {
        let clock = JumpingClock()
        let limiter = BandwidthLimiter(bytesPerSecond: 1_000, clock: clock)
        for _ in 0..<10 { try await limiter.take(1_000) }
        let seconds = clock.elapsed / .seconds(1)
        #expect(seconds > 9.9 && seconds <= 10)
    }

    @Test func `time in which nothing was sent is not saved up`() async throws {
        let clock = JumpingClock()
        let limiter = BandwidthLimiter(bytesPerSecond: 1_000, clock: clock)
        try await limiter.take(1_000)
        clock.jump(.seconds(100))
        let start = clock.elapsed
        try await limiter.take(1_000)
        #expect(clock.elapsed - start > .milliseconds(900))
    }

    @Test func `several transfers share a limit evenly`() async throws {
        let clock = JumpingClock()
        let limiter = BandwidthLimiter(bytesPerSecond: 1_000, clock: clock)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<4 { group.addTask { try await limiter.take(1_000) } }
            try await group.waitForAll()
        }
        let seconds = clock.elapsed / .seconds(1)
        #expect(seconds > 3.9 && seconds <= 4)
    }

    @Test func `a cancelled transfer takes no more than a moment with it`() async throws {
        let limiter = BandwidthLimiter(bytesPerSecond: 1_000, clock: JumpingClock())
        let transfer = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            try await limiter.take(1_000_000)
        }
        await expectError(.cancelled) { try await transfer.value }
        let clock = JumpingClock()
        let other = BandwidthLimiter(bytesPerSecond: 1_000, clock: clock)
        try await other.take(1_000)
        #expect(clock.elapsed <= .seconds(1))
    }

    @Test func `limited transfers deliver everything, in the time it takes`() async throws {
        let cloud = try await ContractedProvider.embedded.make()
        let clock = JumpingClock()
        let limited = ProviderFixture(
            provider: LimitedProvider(
                cloud.provider,
                upload: BandwidthLimiter(bytesPerSecond: 100_000, clock: clock),
                download: BandwidthLimiter(bytesPerSecond: 1_000_000, clock: clock)
            ),
            foreign: cloud.foreign
        )
        var random = SeededRandom(seed: 7)
        let bytes = random.bytes(2_000_000)
        let item = try await limited.upload(bytes, to: "a")
        let uploading = clock.elapsed / .seconds(1)
        #expect(uploading > 19.8 && uploading <= 20)
        #expect(try await limited.fetch("a", item.version) == bytes)
        let downloading = clock.elapsed / .seconds(1) - uploading
        #expect(downloading > 1.9 && downloading < 2.1)
    }

    @Test func `a link takes its latency for each request and its bandwidth for bytes`()
        async throws
    {
        let cloud = try await ContractedProvider.embedded.make()
        let clock = JumpingClock()
        let conditions = LinkConditions(latency: .milliseconds(20), bytesPerSecond: 1_000_000)
        let link = ProviderFixture(
            provider: SimulatedLink(cloud.provider, conditions: conditions, seed: 1, clock: clock),
            foreign: cloud.foreign
        )
        _ = try await link.provider.quota()
        #expect(clock.elapsed == .milliseconds(20))
        let bytes = [UInt8](repeating: 3, count: 500_000)
        let item = try await link.upload(bytes, to: "a")
        let uploading = (clock.elapsed - .milliseconds(20)) / .seconds(1)
        #expect(uploading > 0.46 && uploading <= 0.521)
        let before = clock.elapsed
        #expect(try await link.fetch("a", item.version, range: 0..<4_096).count == 4_096)
        #expect(clock.elapsed - before < .milliseconds(30))
    }

    @Test func `a failing link fails as often as it should, and whole transfers stay whole`()
        async throws
    {
        let seed: UInt64 = 11
        let cloud = try await ContractedProvider.embedded.make()
        let link = ProviderFixture(
            provider: SimulatedLink(
                cloud.provider,
                conditions: LinkConditions(failureRate: 0.3),
                seed: seed
            ),
            foreign: cloud.foreign
        )
        var failures = 0
        for _ in 0..<1_000 {
            let code = await Self.code(of: { () async throws(CloudFSError) in
                _ = try await link.provider.quota()
            })
            #expect(code == nil || code == .offline)
            failures += code == nil ? 0 : 1
        }
        #expect((250...350).contains(failures), "seed \(seed)")
        var stored: Set<String> = []
        for number in 0..<30 {
            do {
                let bytes = [UInt8](repeating: UInt8(number), count: 1_000)
                try await link.upload(bytes, to: "f\(number)")
                stored.insert("f\(number)")
            } catch let error as CloudFSError {
                #expect(error.code == .offline)
            }
        }
        #expect(stored.count < 30, "seed \(seed)")
        #expect(Set(try await cloud.names()) == stored)
        #expect(try await cloud.list().allSatisfy { $0.size == 1_000 })
    }

    @Test func `a faulty provider hangs, fails and counts as told`() async throws {
        let cloud = try await ContractedProvider.embedded.make()
        let faulty = FaultyProvider(cloud.provider)
        let fixture = ProviderFixture(provider: faulty, foreign: cloud.foreign)
        faulty.fail(.upload, call: 2, .after)
        let item = try await fixture.upload([1, 2, 3], to: "a")
        await expectError(.offline) { try await fixture.upload([1], to: "b") }
        #expect(try await cloud.names() == ["a", "b"])
        faulty.hang([.fetch])
        let hanging = Task { try await fixture.fetch("a", item.version, range: 0..<3) }
        let cancelled = Task { try await fixture.fetch("a", item.version, range: 0..<3) }
        await faulty.waitForCall(2, of: .fetch)
        cancelled.cancel()
        await expectError(.cancelled) { try await cancelled.value }
        #expect(faulty.fetchedByteCount == 0)
        faulty.release()
        #expect(try await hanging.value == [1, 2, 3])
        #expect(faulty.fetchedByteCount == 3)
        faulty.isOffline = true
        await expectError(.offline) { try await fixture.item("a") }
        faulty.isOffline = false
        #expect(try await fixture.item("a") == item)
        #expect(faulty.count(of: .upload) == 2)
    }
}

/// A clock whose sleepers wake at once, having slept: time passes only by sleeping.
private final class JumpingClock: Clock, Sendable {
    struct Instant: InstantProtocol {
        var offset: Duration

        func advanced(by duration: Duration) -> Instant { Instant(offset: offset + duration) }
        func duration(to other: Instant) -> Duration { other.offset - offset }
        static func < (left: Instant, right: Instant) -> Bool { left.offset < right.offset }
    }

    private let time = Mutex(Duration.zero)

    var elapsed: Duration { time.withLock { $0 } }
    var now: Instant { Instant(offset: elapsed) }
    var minimumResolution: Duration { .nanoseconds(1) }

    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        try Task.checkCancellation()
        time.withLock { $0 = max($0, deadline.offset) }
    }

    func jump(_ duration: Duration) {
        time.withLock { $0 += duration }
    }
}
