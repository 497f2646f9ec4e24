import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What becomes of an object of a folder that moves, of which the new folder has something.
@Suite struct S3MoveTests {
    private static let begun = CatalogFixture.now

    private static func object(
        _ tag: String,
        at moment: Timestamp,
        in folder: String = "old/"
    ) -> S3Object {
        S3Object(key: Array("\(folder)file".utf8), size: 9, entityTag: tag, lastModified: moment)
    }

    private static func move() -> S3Move {
        let intent = S3MoveIntent(
            source: Array("old/".utf8),
            target: Array("new/".utf8),
            device: "device",
            begun: begun
        )
        return S3Move(intent, key: [], tagsAreDigests: true, at: .zero)
    }

    private static func step(
        _ tag: String,
        at moment: Timestamp,
        over present: String,
        _ move: S3Move
    ) -> S3Move.Step {
        let copy = object(present, at: begun + .seconds(60), in: "new/")
        return move.step(for: object(tag, at: moment), over: copy, isCopied: true)
    }

    /// An upload in parts has the time of its beginning, and may end after its folder was copied.
    @Test func `what was saved since it was copied is copied, whatever its time`() {
        for time in [-3_600, 30, 3_600] {
            let move = Self.move()
            let moment = Self.begun + .seconds(time)
            move.noteCopied(Self.object("a-2", at: moment), tag: "c-2")
            #expect(Self.step("a-2", at: moment, over: "c-2", move) == .nothing || time > 60)
            #expect(Self.step("b-2", at: moment, over: "c-2", move) == .copy)
            #expect(Self.step("b-2", at: moment, over: "d-2", move) == .copyBeside)
        }
    }

    @Test func `nothing that was sent in parts is told from its copy by times`() {
        let earlier = Self.begun + .seconds(-3_600)
        #expect(Self.step("b-2", at: earlier, over: "c-2", Self.move()) == .look)
        #expect(Self.step("b", at: earlier, over: "b", Self.move()) == .nothing)
        #expect(Self.step("b", at: earlier, over: "c", Self.move()) == .nothing)
        let later = Self.begun + .seconds(90)
        #expect(Self.step("b", at: later, over: "c", Self.move()) == .copyBeside)
    }

    /// Nothing written on either tells the two apart, and nobody knows any more what was copied.
    @Test func `what is saved in parts while a move is interrupted is not lost`() async throws {
        typealias Bench = S3ProviderBench
        let bench = try await Bench.make(Bench.batches)
        bench.fake.put("d/image", Array("before".utf8), inParts: 2)
        let base = try await bench.provider().item(at: Bench.path("d")).version
        bench.fake.add(FakeS3Fault(Bench.refusalOfBatch, count: nil, on: .deleteBatch))
        let failure = await s3Failure {
            _ = try await bench.provider().move(
                from: Bench.path("d"),
                to: Bench.path("e"),
                base: base
            )
        }
        #expect(failure != nil)
        bench.fake.removeFaults()
        bench.fake.change { $0.clockOffset = .seconds(60) }
        bench.fake.put("d/image", Array("behind".utf8), inParts: 2)
        _ = try await bench.provider().move(
            from: Bench.path("d"),
            to: Bench.path("e"),
            base: base
        )
        #expect(bench.fake.keys("d/").isEmpty)
        let kept = bench.fake.keys("e/").compactMap { bench.fake.object($0)?.bytes }
        #expect(kept.contains(Array("behind".utf8)))
    }
}
