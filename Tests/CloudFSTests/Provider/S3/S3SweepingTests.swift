import CloudFSTestSupport
import Foundation
import Synchronization
import Testing

@testable import CloudFS

/// A clock of this machine and one of the server, which run and can be put forward.
final class S3TestClocks: Sendable {
    private let offsets = Mutex((own: Duration.zero, server: Duration.zero))

    /// Time passes here and at the server.
    func advance(by duration: Duration) {
        offsets.withLock {
            $0.own += duration
            $0.server += duration
        }
    }

    /// Time passes at the server; this machine sleeps, and its clocks stand still.
    func sleep(for duration: Duration) {
        offsets.withLock { $0.server += duration }
    }

    var own: Clocks {
        Clocks(
            now: { Clocks.system.now() + self.offsets.withLock { $0.own } },
            elapsed: { Clocks.system.elapsed() + self.offsets.withLock { $0.own } }
        )
    }

    @Sendable func server() -> Timestamp {
        Clocks.system.now() + offsets.withLock { $0.server }
    }

    /// The server's time, in milliseconds.
    func milliseconds(ago: Duration = .zero) -> Int64 {
        (server() + (.zero - ago)).nanoseconds / 1_000_000
    }

    /// A server with this clock.
    func bench(_ settings: FakeS3Settings = FakeS3Settings()) async throws -> S3ProviderBench {
        var settings = settings
        settings.now = server
        settings.minimumPartByteCount = 1
        return try await S3ProviderBench.make(settings)
    }
}

@Suite(.timeLimit(.minutes(10))) struct S3SweepingTests {
    private typealias Bench = S3ProviderBench

    private static let day = Duration.seconds(86_400)

    private static func record(
        _ body: String,
        at milliseconds: Int64,
        device: String = "two",
        count: Int64,
        _ bench: Bench
    ) {
        let key = S3JournalKey(milliseconds: milliseconds, device: device, count: count)
        bench.fake.put(FakeS3Key(Array(".cloudfs/journal/".utf8) + key.bytes), body)
    }

    private static func floors(_ bench: Bench) -> [Int64] {
        bench.fake.keys(".cloudfs/journal/").compactMap { S3JournalFloor.milliseconds($0.bytes) }
    }

    private static func children(_ path: String) throws -> ChangeHint {
        .children(of: try Bench.path(path))
    }

    // MARK: - Old records

    @Test func `old records are deleted, and the floor is raised before`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let provider = try await bench.provider(clocks: clocks.own)
        let old = clocks.milliseconds(ago: Self.day * 8)
        for count in 1...2_345 as ClosedRange<Int64> {
            Self.record("children old\n", at: old + count, count: count, bench)
        }
        let young = clocks.milliseconds(ago: Self.day * 6)
        Self.record("children x\n", at: young, count: 2_346, bench)
        bench.fake.put(".cloudfs/journal/strange", "left alone")
        bench.fake.forgetRequests()
        await provider.sweep()
        let keys = bench.fake.keys(".cloudfs/journal/").compactMap { S3JournalKey($0.bytes) }
        #expect(keys.map(\.milliseconds) == [young])
        #expect(bench.fake.object(".cloudfs/journal/strange") != nil)
        let floor = try #require(Self.floors(bench).first)
        #expect(floor > old + 2_345 && floor < young)
        #expect(bench.fake.requestCount(.deleteBatch) == 3)
        let kinds = bench.fake.requests.map(\.kind)
        let put = try #require(kinds.firstIndex(of: .put))
        #expect(put < kinds.firstIndex(of: .deleteBatch) ?? 0)

        clocks.advance(by: Self.day * 2)
        await provider.sweep()
        #expect(Self.floors(bench).count == 1)
        #expect(try #require(Self.floors(bench).first) > floor)
        // A request is kept until the server has done with its answer.
        try await eventually("all is answered") { bench.fake.activeRequestCount == 0 }
        bench.fake.forgetRequests()
        await provider.sweep()
        #expect(bench.fake.requests.map(\.kind) == [.list, .list])
    }

    /// Such as a marker of the folder, which many tools make; it comes first.
    @Test func `what is no record keeps none, nor does a server without deletions of many`()
        async throws
    {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let provider = try await bench.provider(clocks: clocks.own)
        let old = clocks.milliseconds(ago: Self.day * 8)
        for count in 1...1_500 as ClosedRange<Int64> {
            Self.record("children old\n", at: old + count, count: count, bench)
        }
        bench.fake.put(".cloudfs/journal/", "")
        bench.fake.add(
            FakeS3Fault(
                .fail(status: 501, code: "NotImplemented"),
                count: nil,
                on: .deleteBatch
            )
        )
        await provider.sweep()
        let keys = bench.fake.keys(".cloudfs/journal/").compactMap { S3JournalKey($0.bytes) }
        #expect(keys.isEmpty)
        #expect(bench.fake.requestCount(.deleteBatch) == 1)
        #expect(bench.fake.object(".cloudfs/journal/") != nil)
    }

    @Test func `probes that were left behind are deleted, and no others`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let provider = try await bench.provider(clocks: clocks.own)
        bench.fake.put(".cloudfs/probe-old", "")
        clocks.advance(by: Self.day * 2)
        bench.fake.put(".cloudfs/probe-young", "")
        await provider.sweep()
        #expect(bench.fake.keys(".cloudfs/probe-") == [".cloudfs/probe-young"])
    }

    @Test func `sweeping happens by itself, now and then`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let provider = try await bench.provider(clocks: clocks.own)
        let anchor = try await provider.changes(after: nil).anchor
        let old = clocks.milliseconds(ago: Self.day * 8)
        Self.record("children old\n", at: old, count: 1, bench)
        async let page = provider.changes(after: anchor)
        try await eventually("it polls", within: .seconds(60)) {
            bench.fake.requestCount(.list) > 5
        }
        #expect(bench.fake.requestCount(.deleteBatch) == 0)
        clocks.advance(by: .seconds(61))
        try await eventually("it sweeps", within: .seconds(60)) {
            bench.fake.requestCount(.deleteBatch) == 1
        }
        Self.record("children old\n", at: old + 1, count: 2, bench)
        let polls = bench.fake.requestCount(.list)
        try await eventually("it polls on", within: .seconds(60)) {
            bench.fake.requestCount(.list) > polls + 5
        }
        #expect(bench.fake.requestCount(.deleteBatch) == 1)
        Self.record("children x\n", at: clocks.milliseconds(), count: 3, bench)
        #expect(try await page.hints == [try Self.children("x")])
    }

    @Test func `who is behind the floor compares everything, once`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let provider = try await bench.provider(clocks: clocks.own)
        var page = try await provider.changes(after: nil)
        clocks.sleep(for: .seconds(600))
        let floor = S3JournalFloor.bytes(clocks.milliseconds(ago: .seconds(60)))
        bench.fake.put(FakeS3Key(Array(".cloudfs/journal/".utf8) + floor), "")
        page = try await provider.changes(after: page.anchor)
        #expect(page.hints == [.subtree(.root)])
        Self.record("children x\n", at: clocks.milliseconds(), count: 1, bench)
        page = try await provider.changes(after: page.anchor)
        #expect(page.hints == [try Self.children("x")])
        let future = S3JournalFloor.bytes(clocks.milliseconds() + 1_000_000)
        bench.fake.put(FakeS3Key(Array(".cloudfs/journal/".utf8) + future), "")
        Self.record("children y\n", at: clocks.milliseconds(), count: 2, bench)
        page = try await provider.changes(after: page.anchor)
        #expect(page.hints == [try Self.children("y")])
    }

    @Test func `a machine that slept compares everything, once`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let provider = try await bench.provider(clocks: clocks.own)
        var page = try await provider.changes(after: nil)
        clocks.sleep(for: .seconds(3_600))
        page = try await provider.changes(after: page.anchor)
        #expect(page.hints == [.subtree(.root)])
        Self.record("children x\n", at: clocks.milliseconds(), count: 1, bench)
        page = try await provider.changes(after: page.anchor)
        #expect(page.hints == [try Self.children("x")])
    }

    // MARK: - Counts

    @Test func `a device that starts again is neither missed nor missing`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let reader = try await bench.provider(clocks: clocks.own)
        var page = try await reader.changes(after: nil)
        for name in ["a", "b", "c"] {
            let writer = try await bench.provider(device: "two", clocks: clocks.own)
            for number in 1...3 {
                _ = try await Bench.upload([1], to: "\(name)\(number)", of: writer)
                page = try await reader.changes(after: page.anchor)
                #expect(page.hints == [try Self.children("")])
            }
            clocks.advance(by: .seconds(5))
        }
        clocks.advance(by: .seconds(121))
        Self.record("children x\n", at: clocks.milliseconds(), device: "three", count: 1, bench)
        page = try await reader.changes(after: page.anchor)
        #expect(page.hints == [try Self.children("x")])
    }

    @Test func `the first records of a start are missed too`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let reader = try await bench.provider(clocks: clocks.own)
        var page = try await reader.changes(after: nil)
        clocks.advance(by: .seconds(10))
        let device = S3JournalKey.device("two", since: clocks.milliseconds())
        Self.record("children x\n", at: clocks.milliseconds(), device: device, count: 2, bench)
        page = try await reader.changes(after: page.anchor)
        #expect(page.hints == [try Self.children("x")])
        clocks.advance(by: .seconds(121))
        page = try await reader.changes(after: page.anchor)
        #expect(page.hints == [.subtree(.root)])
    }

    @Test func `a record that could not be written leaves no gap`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let reader = try await bench.provider(clocks: clocks.own)
        let writer = try await bench.provider(device: "two", clocks: clocks.own)
        _ = try await Bench.upload([1], to: "a", of: writer)
        var page = try await reader.changes(after: nil)
        bench.fake.put("d/x", "x")
        bench.fake.add(
            FakeS3Fault(.slowDown(), count: 3) {
                $0.kind == .put && $0.key.text.hasPrefix(".cloudfs/journal/")
            }
        )
        _ = try await Bench.upload([1], to: "b", of: writer)
        #expect(bench.fake.faultsLeft == 0)
        _ = try await Bench.upload([1], to: "d/c", of: writer)
        page = try await reader.changes(after: page.anchor)
        #expect(Set(page.hints) == [try Self.children(""), try Self.children("d")])
        clocks.advance(by: .seconds(121))
        Self.record("children x\n", at: clocks.milliseconds(), device: "three", count: 1, bench)
        page = try await reader.changes(after: page.anchor)
        #expect(page.hints == [try Self.children("x")])
    }

    // MARK: - Uploads

    @Test func `uploads that nobody goes on with are given up, and no others`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let directory = try TemporaryDirectory()
        let provider = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path,
            clocks: clocks.own
        )
        let client = try bench.client()
        _ = try await client.createUpload(Array("foreign".utf8))
        let bytes = [UInt8](repeating: 1, count: 3 << 20)
        bench.fake.add(FakeS3Fault(Bench.refusal, count: nil, on: .completeUpload))
        for name in ["old", "young"] {
            #expect(
                await s3Failure { _ = try await Bench.upload(bytes, to: name, of: provider) }
                    == .denied
            )
            clocks.advance(by: Self.day * 2)
        }
        bench.fake.removeFaults()
        #expect(bench.fake.uploads() == ["foreign", "old", "young"])
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .completeUpload))
        async let slow = Bench.upload(bytes, to: "slow", of: provider)
        try await eventually("it is nearly there", within: .seconds(60)) { gate.waitingCount == 1 }
        // After a restart, for all but the one under way.
        await provider.sweep()
        #expect(bench.fake.uploads() == ["foreign", "slow", "young"])
        clocks.advance(by: Self.day * 4)
        await provider.sweep()
        #expect(bench.fake.uploads() == ["foreign", "slow"])
        gate.open()
        #expect(try await slow.size == 3 << 20)
        #expect(try await provider.uploads.keys().isEmpty)
    }
}
