import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What other devices hear and see of a folder on its way.
@Suite(.timeLimit(.minutes(10))) struct S3MoveNewsTests {
    private typealias Bench = S3ProviderBench

    private static func names(_ provider: S3Provider) async throws -> [String] {
        try await Bench.list(.root, of: provider).map(\.name.description)
    }

    @Test func `others hear of both folders' parents, not of everything`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench(Bench.batches)
        for name in ["from/", "from/d/a", "from/d/sub/b", "to/x", "other/y"] {
            bench.fake.put(FakeS3Key(name), "content")
        }
        let mover = try await bench.provider(clocks: clocks.own)
        let other = try await bench.provider(device: "two", clocks: clocks.own)
        var page = try await other.changes(after: nil)
        let (source, target) = (try Bench.path("from/d"), try Bench.path("to/e"))
        let base = try await mover.item(at: source).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .deleteBatch))
        async let moved = mover.move(from: source, to: target, base: base)
        try await eventually("all is copied", within: .seconds(60)) { gate.waitingCount == 1 }
        let parents: Set<ChangeHint> = [
            .children(of: source.parent), .children(of: target.parent),
        ]
        page = try await other.changes(after: page.anchor)
        #expect(Set(page.hints) == parents)
        // As soon as it is told, the folder is whole in its new place only.
        #expect(try await Bench.list(source.parent, of: other).isEmpty)
        #expect(
            try await Bench.list(target.parent, of: other).map(\.name.description) == ["x", "e"]
        )
        let sub = try await Bench.list(try Bench.path("to/e/sub"), of: other)
        #expect(sub.map(\.name.description) == ["b"])
        gate.open()
        _ = try await moved
        page = try await other.changes(after: page.anchor)
        #expect(Set(page.hints) == parents)
        // All in it is compared once the folder is known there, also what changed before.
        clocks.advance(by: S3Journal.subtreeDelay)
        page = try await other.changes(after: page.anchor)
        #expect(page.hints == [.subtree(target)])
    }

    @Test func `a move whose device is gone hides nothing for long`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench(Bench.batches)
        bench.fake.put("d/a", "a")
        let mover = try await bench.provider(clocks: clocks.own)
        let other = try await bench.provider(device: "two", clocks: clocks.own)
        let base = try await mover.item(at: try Bench.path("d")).version
        bench.fake.add(FakeS3Fault(Bench.refusalOfBatch, count: nil, on: .deleteBatch))
        #expect(
            await s3Failure {
                _ = try await mover.move(
                    from: Bench.path("d"),
                    to: Bench.path("e"),
                    base: base
                )
            } != nil
        )
        for (wait, seenByOther, seenByMover) in [
            (Duration.seconds(3_000), ["e"], ["e"]),
            (.seconds(1_000), ["d", "e"], ["e"]),
            (.seconds(86_400), ["d", "e"], ["d", "e"]),
        ] {
            clocks.advance(by: wait)
            try await other.readIntents()
            try await mover.readIntents()
            #expect(try await Self.names(other) == seenByOther)
            #expect(try await Self.names(mover) == seenByMover)
        }
        bench.fake.removeFaults()
        _ = try await mover.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        #expect(bench.fake.keys(".cloudfs/moves/").isEmpty)
        #expect(try await Self.names(mover) == ["e"])
    }

    /// Moves `d` to `e`; what told of that is written once more after its end.
    ///
    /// - Returns: The version that was moved.
    private func moveWithLateIntent(
        _ mover: S3Provider,
        _ bench: Bench
    ) async throws -> ItemVersion {
        let base = try await mover.item(at: try Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .copy))
        async let moved = mover.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("the move begins") { gate.waitingCount == 1 }
        let key = try #require(bench.fake.keys(".cloudfs/moves/").first)
        let intent = try #require(bench.fake.object(key)?.bytes)
        gate.open()
        _ = try await moved
        bench.fake.put(key, String(decoding: intent, as: UTF8.self))
        return base
    }

    /// It would hide the folder from everybody.
    @Test func `what a late request tells of a move that has ended is removed`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("d/a", "a")
        let mover = try await bench.provider()
        let other = try await bench.provider(device: "two")
        _ = try await moveWithLateIntent(mover, bench)
        try await other.readIntents()
        #expect(try await Self.names(other) == [])
        try await mover.readIntents()
        #expect(bench.fake.keys(".cloudfs/moves/").isEmpty)
        #expect(try await Self.names(mover) == ["e"])
        try await other.readIntents()
        #expect(try await Self.names(other) == ["e"])
    }

    /// It is no move that goes on: what is in its new place by now is somebody else's.
    @Test func `what a late request tells is not gone on with`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("d/a", "a")
        let mover = try await bench.provider()
        let base = try await moveWithLateIntent(mover, bench)
        bench.fake.put("d/b", "b")
        #expect(
            await s3Failure {
                _ = try await mover.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
            } == .exists
        )
    }

    @Test func `of very many moves those are known that were told last`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench()
        let other = try await bench.provider(device: "two", clocks: clocks.own)
        for name in ["d/a", "e/a"] { bench.fake.put(FakeS3Key(name), "a") }
        for number in 0..<1_100 {
            let intent = S3MoveIntent(
                source: Array("x\(number)/".utf8),
                target: Array("y/".utf8),
                device: "three"
            )
            bench.fake.put(FakeS3Key(".cloudfs/moves/\(number)"), intent.bytes)
        }
        clocks.advance(by: .seconds(10))
        let last = S3MoveIntent(
            source: Array("d/".utf8),
            target: Array("e/".utf8),
            isCopied: true,
            device: "three"
        )
        bench.fake.put(".cloudfs/moves/z", last.bytes)
        bench.fake.forgetRequests()
        try await other.readIntents()
        #expect(bench.fake.requestCount(.get) == 1_000)
        #expect(try await Self.names(other) == ["e"])
    }

    /// Such as s3fs and consoles make for a folder.
    @Test func `what other tools put beside the intents of moves tells of none`() async throws {
        let bench = try await Bench.make()
        for (key, bytes) in [("", ""), ("empty", ""), ("text", "text")] {
            bench.fake.put(FakeS3Key(".cloudfs/moves/\(key)"), bytes)
        }
        bench.fake.put(FakeS3Key("d/a"), "a")
        let provider = try await bench.provider()
        try await provider.readIntents()
        #expect(try await Self.names(provider) == ["d"])
    }

    @Test func `a move that takes long goes on being told`() async throws {
        let clocks = S3TestClocks()
        let bench = try await clocks.bench(Bench.batches)
        for number in 0..<40 { bench.fake.put(FakeS3Key("d/\(number)"), "x") }
        var settings = Bench.settings
        settings.parallelLooks = 1
        let mover = try await bench.provider(settings: settings, clocks: clocks.own)
        let other = try await bench.provider(device: "two", clocks: clocks.own)
        let base = try await mover.item(at: try Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: 20, on: .copy))
        async let moved = mover.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("half is copied", within: .seconds(60)) { gate.waitingCount == 1 }
        clocks.advance(by: .seconds(3_000))
        let last = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(last), on: .deleteBatch))
        gate.open()
        try await eventually("all is copied", within: .seconds(60)) { last.waitingCount == 1 }
        let intents = bench.fake.requests(.put).filter {
            $0.key.text.hasPrefix(".cloudfs/moves/")
        }
        #expect(intents.count == 3)
        clocks.advance(by: .seconds(3_000))
        try await other.readIntents()
        #expect(try await Self.names(other) == ["e"])
        last.open()
        _ = try await moved
        #expect(try await Self.names(other) == ["e"])
    }
}
