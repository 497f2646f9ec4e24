import CloudFSTestSupport
import Foundation
import Logging
import Synchronization
import Testing

@testable import CloudFS

@Suite struct S3JournalTests {
    private typealias Bench = S3ProviderBench

    /// A clock that runs, and can be put forward.
    private final class Shift: Sendable {
        private let offset = Mutex(Duration.zero)

        func advance(by duration: Duration) { offset.withLock { $0 += duration } }

        var clocks: Clocks {
            Clocks(
                now: Clocks.system.now,
                elapsed: { Clocks.system.elapsed() + self.offset.withLock { $0 } }
            )
        }
    }

    private static func milliseconds(ago: Duration = .zero) -> Int64 {
        let (seconds, attoseconds) = ago.components
        return Clocks.system.now().nanoseconds / 1_000_000 - seconds * 1_000
            - attoseconds / 1_000_000_000_000_000
    }

    /// Puts a record into the journal, as another device would.
    private static func record(
        _ body: String,
        at milliseconds: Int64 = Self.milliseconds(),
        device: String = "two",
        count: Int64,
        _ bench: Bench
    ) {
        let key = S3JournalKey(milliseconds: milliseconds, device: device, count: count)
        bench.fake.put(FakeS3Key(Array(".cloudfs/journal/".utf8) + key.bytes), body)
    }

    private static func anchor(_ provider: S3Provider) async throws -> SyncAnchor {
        try await provider.changes(after: nil).anchor
    }

    @Test func `a record says what it was told, and everything where it cannot be read`() throws {
        let path = RemotePath([try ItemName("a b"), try ItemName("ü%")])
        let hints: Set<ChangeHint> = [
            .children(of: path), .subtree(path), .item(path), .item(path.parent),
        ]
        let bodies = S3JournalRecord.bodies(of: hints)
        #expect(bodies.map { S3JournalRecord.hints(in: $0) } == [hints])
        #expect(S3JournalRecord.hints(in: Array("other a\n".utf8)) == [.subtree(.root)])
    }

    private static func children(_ path: String) throws -> ChangeHint {
        .children(of: try Bench.path(path))
    }

    @Test func `another device's record is told once`() async throws {
        let bench = try await Bench.make()
        let (one, two) = (try await bench.provider(), try await bench.provider(device: "two"))
        let anchor = try await Self.anchor(one)
        let item = try await Bench.upload([1], to: "a", of: two)
        let first = try await one.changes(after: anchor)
        #expect(first.hints == [try Self.children("")])
        bench.fake.put("d/file", [1])
        _ = try await Bench.upload([1], to: "d/a", of: two)
        let second = try await one.changes(after: first.anchor)
        #expect(second.hints == [try Self.children("d")])
        #expect(item.kind == .file)
    }

    @Test func `own records are not told`() async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        _ = try await Bench.upload([1], to: "a", of: one)
        Self.record("children x\n", count: 1, bench)
        #expect(try await one.changes(after: anchor).hints == [try Self.children("x")])
    }

    @Test func `a record that arrives late is told`() async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        Self.record("children x\n", count: 2, bench)
        let first = try await one.changes(after: anchor)
        Self.record("children y\n", at: Self.milliseconds(ago: .seconds(100)), count: 1, bench)
        let second = try await one.changes(after: first.anchor)
        #expect(second.hints == [try Self.children("y")])
    }

    @Test func `records of long ago are neither read nor told`() async throws {
        let bench = try await Bench.make()
        for count in 1...50 as ClosedRange<Int64> {
            Self.record(
                "children old\n",
                at: Self.milliseconds(ago: .seconds(3_600)) + count,
                count: count,
                bench
            )
        }
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        bench.fake.forgetRequests()
        Self.record("children x\n", count: 51, bench)
        #expect(try await one.changes(after: anchor).hints == [try Self.children("x")])
        let read = bench.fake.requests(.get).filter {
            $0.key.text.hasPrefix(".cloudfs/journal/")
        }
        #expect(read.count == 1)
    }

    /// What another device wrote in the second of what a drive knew that was gone for a moment, no
    /// listing tells.
    @Test func `records of the last two minutes are told when a drive starts`() async throws {
        let bench = try await Bench.make()
        for (count, age) in [(1, 200), (2, 100), (3, 10)] as [(Int64, Int64)] {
            Self.record(
                "children x\(age)\n",
                at: Self.milliseconds(ago: .seconds(age)),
                count: count,
                bench
            )
        }
        let one = try await bench.provider()
        let page = try await one.changes(after: try await Self.anchor(one))
        #expect(Set(page.hints) == [try Self.children("x100"), try Self.children("x10")])
    }

    @Test func `a missing count leads to a full comparison, if it does not turn up`() async throws {
        let bench = try await Bench.make()
        let shift = Shift()
        let one = try await bench.provider(clocks: shift.clocks)
        var anchor = try await Self.anchor(one)
        Self.record("children x\n", count: 1, bench)
        anchor = try await one.changes(after: anchor).anchor
        Self.record("children x\n", count: 3, bench)
        anchor = try await one.changes(after: anchor).anchor
        shift.advance(by: .seconds(121))
        #expect(try await one.changes(after: anchor).hints == [.subtree(.root)])
    }

    @Test func `a count that turns up late is not missing`() async throws {
        let bench = try await Bench.make()
        let shift = Shift()
        let one = try await bench.provider(clocks: shift.clocks)
        var anchor = try await Self.anchor(one)
        for count in [1, 3, 2] as [Int64] {
            Self.record("children x\n", at: Self.milliseconds() + count, count: count, bench)
            anchor = try await one.changes(after: anchor).anchor
        }
        shift.advance(by: .seconds(121))
        Self.record("children y\n", count: 4, bench)
        #expect(try await one.changes(after: anchor).hints == [try Self.children("y")])
    }

    @Test(arguments: [
        "rubbish\n", "children\n", "children a b\n", "children %zz\n", "children a%2Fb\n",
        "children ..\n", "children x\nother y\n", "\u{0}\n", "",
        String(repeating: "children x\n", count: 200_000) + "children y\n",
    ])
    func `a record that cannot be read leads to a full comparison`(body: String) async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        Self.record(body, count: 1, bench)
        let page = try await within("news") { try await one.changes(after: anchor) }
        #expect(page.hints.contains(.subtree(.root)))
    }

    @Test(arguments: [404, 403])
    func `a record that is swept or forbidden leads to a full comparison`(
        status: Int
    ) async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        Self.record("children x\n", count: 1, bench)
        bench.fake.add(
            FakeS3Fault(
                .fail(status: status, code: status == 404 ? "NoSuchKey" : "AccessDenied"),
                on: .get
            )
        )
        #expect(try await one.changes(after: anchor).hints == [.subtree(.root)])
    }

    @Test func `what cannot be read for a while is not lost`() async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        Self.record("children x\n", count: 1, bench)
        bench.fake.add(FakeS3Fault(.slowDown(), count: 3, on: .get))
        let page = try await one.changes(after: anchor)
        #expect(page.hints == [try Self.children("x")])
        bench.fake.add(FakeS3Fault(.slowDown(), count: 3, on: .list))
        Self.record("children y\n", count: 2, bench)
        #expect(await s3Failure { _ = try await one.changes(after: page.anchor) } == .offline)
        #expect(try await one.changes(after: page.anchor).hints == [try Self.children("y")])
    }

    /// A listing may not tell what the journal does.
    @Test func `what was heard of is told again if it could not be told`() async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let anchor = try await Self.anchor(one)
        Self.record("item x\n", count: 1, bench)
        bench.fake.add(
            FakeS3Fault(.slowDown(), count: 3) {
                $0.kind == .list && $0.target.contains("moves")
            }
        )
        #expect(await s3Failure { _ = try await one.changes(after: anchor) } == .offline)
        #expect(bench.fake.faultsLeft == 0)
        let page = try await one.changes(after: anchor)
        #expect(page.hints == [.item(try RemotePath.root.appending(ItemName("x")))])
        Self.record("children y\n", count: 2, bench)
        #expect(try await one.changes(after: page.anchor).hints == [try Self.children("y")])
    }

    @Test(arguments: [
        "999999999999999-evil-1", "9223372036854775807-evil-1",
        "000000000000001-evil-9223372036854775807", "-5-evil-1", "x", "1-2", "a-b-c-d",
    ])
    func `a strange key neither harms nor hides others`(name: String) async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        var anchor = try await Self.anchor(one)
        bench.fake.put(FakeS3Key(".cloudfs/journal/\(name)"), "children odd\n")
        for count in 1...3 as ClosedRange<Int64> {
            Self.record("children x\(count)\n", count: count, bench)
            var hints: Set<ChangeHint> = []
            while !hints.contains(try Self.children("x\(count)")) {
                let page = try await within("news") { [anchor] in
                    try await one.changes(after: anchor)
                }
                hints.formUnion(page.hints)
                anchor = page.anchor
            }
        }
    }

    @Test func `the greatest count does not overflow`() async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        var anchor = try await Self.anchor(one)
        for count in [.max, 1, .max - 1] as [Int64] {
            Self.record("children x\n", at: Self.milliseconds(), count: count, bench)
            anchor = try await one.changes(after: anchor).anchor
        }
    }

    @Test func `an anchor of another time leads to a full comparison`() async throws {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        let old = try await Self.anchor(one)
        let next = try await bench.provider()
        let page = try await next.changes(after: old)
        #expect(page.hints == [.subtree(.root)])
        Self.record("children x\n", count: 1, bench)
        #expect(try await next.changes(after: page.anchor).hints == [try Self.children("x")])
    }

    @Test func `changes made at once share records`() async throws {
        let bench = try await Bench.make()
        let (one, two) = (try await bench.provider(), try await bench.provider(device: "two"))
        let anchor = try await Self.anchor(two)
        bench.fake.forgetRequests()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 {
                group.addTask {
                    try await one.journal.record([try Self.children("d\(number)")])
                }
            }
            try await group.waitForAll()
        }
        #expect(bench.fake.requestCount(.put) <= 10)
        var hints: Set<ChangeHint> = []
        var last = anchor
        while hints.count < 100 {
            let page = try await within("news") { [last] in try await two.changes(after: last) }
            hints.formUnion(page.hints)
            last = page.anchor
        }
        #expect(hints == Set(try (0..<100).map { try Self.children("d\($0)") }))
    }

    @Test func `of too many new records the listing is broken off, and later ones are told`()
        async throws
    {
        let bench = try await Bench.make()
        let one = try await bench.provider()
        var anchor = try await Self.anchor(one)
        let time = Self.milliseconds()
        for count in 1...2_200 as ClosedRange<Int64> {
            Self.record("children x\n", at: time, count: count, bench)
        }
        bench.fake.forgetRequests()
        let first = try await one.changes(after: anchor)
        #expect(first.hints == [.subtree(.root)])
        let listings = bench.fake.requests(.list).filter { $0.target.contains("journal") }
        #expect(listings.count == 1)
        anchor = first.anchor
        Self.record("children y\n", count: 2_201, bench)
        var hints: Set<ChangeHint> = []
        while !hints.contains(try Self.children("y")) {
            let page = try await within("news") { [anchor] in
                try await one.changes(after: anchor)
            }
            hints.formUnion(page.hints)
            anchor = page.anchor
        }
        Self.record("children z\n", count: 2_202, bench)
        #expect(try await one.changes(after: anchor).hints == [try Self.children("z")])
    }

    @Test func `a listing without an end is broken off`() async throws {
        try await withS3Client { request in
            let first = request.number * 1_000
            return .listing(
                (first..<first + 1_000).map { "j/900000000000000-two-\($0)" },
                next: "t\(request.number)"
            )
        } _: { fixture in
            let journal = S3Journal(
                client: fixture.client,
                folder: Array("j/".utf8),
                deviceID: "one",
                settings: Bench.settings,
                logger: Logger(label: "s3-tests")
            )
            let begun = try await journal.changes(after: nil)
            let count = fixture.server.requests.count
            #expect(count < 100)
            let page = try await journal.changes(after: begun.anchor)
            #expect(page.hints == [.subtree(.root)])
            #expect(fixture.server.requests.count < count + 10)
        }
    }

    @Test func `an idle drive looks rarely, until it is used`() async throws {
        let bench = try await Bench.make()
        let shift = Shift()
        var settings = Bench.settings
        settings.pollInterval = .milliseconds(1)
        settings.idlePollInterval = .seconds(120)
        let one = try await bench.provider(settings: settings, clocks: shift.clocks)
        let anchor = try await Self.anchor(one)
        shift.advance(by: .seconds(301))
        // The server may be still at what was answered already.
        try await eventually("nothing is under way") {
            bench.fake.forgetRequests()
            return bench.fake.requests.isEmpty
        }
        async let page = one.changes(after: anchor)
        try await eventually("the first look") { bench.fake.requestCount(.list) == 1 }
        let client = try bench.client()
        for _ in 0..<20 { _ = try await client.head(Array(".cloudfs/container".utf8)) }
        #expect(bench.fake.requestCount(.list) == 1)
        Self.record("children x\n", count: 1, bench)
        one.noteUse()
        #expect(try await page.hints == [try Self.children("x")])
    }

    @Test func `the scan comes in its turn`() async throws {
        let bench = try await Bench.make()
        let shift = Shift()
        let one = try await bench.provider(clocks: shift.clocks)
        let anchor = try await Self.anchor(one)
        shift.advance(by: .seconds(901))
        let page = try await one.changes(after: anchor)
        #expect(page.hints == [.subtree(.root)])
        Self.record("children x\n", count: 1, bench)
        one.noteUse()
        #expect(try await one.changes(after: page.anchor).hints == [try Self.children("x")])
    }

    /// Fails rather than wait for ever for news that do not come.
    private func within<Value: Sendable>(
        _ what: String,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let limit = Duration.seconds(15).patient
        return try await withThrowingTaskGroup(of: Value.self) { group in
            group.addTask { try await work() }
            group.addTask {
                try await Task.sleep(for: limit)
                throw DeadlineError(what, limit)
            }
            defer { group.cancelAll() }
            guard let value = try await group.next() else { throw CancellationError() }
            return value
        }
    }
}
