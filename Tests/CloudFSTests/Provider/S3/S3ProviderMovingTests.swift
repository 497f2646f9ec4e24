import CloudFSTestSupport
import Foundation
import Synchronization
import Testing

@testable import CloudFS

@Suite struct S3ProviderMovingTests {
    private typealias Bench = S3ProviderBench

    private static let count = 1_500

    /// When a move is interrupted.
    enum Interruption: Sendable, CustomTestStringConvertible {
        case copies(Int)
        case deletions(Int)
        case deletionsDone(Int)
        case end

        var testDescription: String {
            switch self {
            case .copies(let count): "after \(count) copies"
            case .deletions(let count): "after \(count) deletions"
            case .deletionsDone(let count): "after \(count) deletions, the next done unheard"
            case .end: "before its end is noted"
            }
        }

        var fault: FakeS3Fault {
            let refusal = Bench.refusal
            return switch self {
            case .copies(let count):
                FakeS3Fault(refusal, skipping: count, count: nil, on: .copy)
            case .deletions(let count):
                FakeS3Fault(
                    Bench.refusalOfBatch,
                    skipping: count,
                    count: nil,
                    on: .deleteBatch
                )
            case .deletionsDone(let count):
                FakeS3Fault(
                    .failAfterEffect(status: 400, code: "MalformedXML"),
                    skipping: count,
                    count: nil,
                    on: .deleteBatch
                )
            case .end: FakeS3Fault(refusal, count: nil, on: .delete)
            }
        }
    }

    private final class Flag: Sendable {
        private let state: Mutex<Bool>

        init(_ value: Bool) { state = Mutex(value) }

        var value: Bool {
            get { state.withLock { $0 } }
            set { state.withLock { $0 = newValue } }
        }
    }

    private static func name(_ number: Int) -> String {
        let digits = String(number)
        return (number.isMultiple(of: 3) ? "sub/" : "")
            + String(repeating: "0", count: 4 - digits.count) + digits
    }

    private static func fill(_ bench: Bench) {
        bench.fake.put("d/", "")
        for number in 0..<count {
            bench.fake.put(FakeS3Key("d/" + name(number)), "\(number)")
        }
    }

    /// Notes every listing of the root that has both folders, or neither.
    private static func watch(
        _ provider: S3Provider,
        while isMoving: @escaping @Sendable () -> Bool
    ) async throws -> [[String]] {
        var wrong: [[String]] = []
        while isMoving() {
            let names = try await Bench.list(.root, of: provider).map(\.name.description)
            if names.contains("d") == names.contains("e") { wrong.append(names) }
        }
        return wrong
    }

    /// Moves `d` to `e` and watches the root meanwhile.
    private static func move(
        _ provider: S3Provider,
        _ base: ItemVersion
    ) async throws -> CloudFSError.Code? {
        let isMoving = Flag(true)
        async let watched = watch(provider) { isMoving.value }
        let code = await s3Failure {
            _ = try await provider.move(
                from: Bench.path("d"),
                to: Bench.path("e"),
                base: base
            )
        }
        isMoving.value = false
        let wrong = try await watched
        #expect(wrong.isEmpty, "\(wrong.prefix(3))")
        return code
    }

    private static func lost(_ bench: Bench) -> [String] {
        (0..<count).filter { number in
            let old = bench.fake.object(FakeS3Key("d/" + name(number)))
            let new = bench.fake.object(FakeS3Key("e/" + name(number)))
            let bytes = Array("\(number)".utf8)
            return old?.bytes != bytes && new?.bytes != bytes
        }.map(name)
    }

    @Test(arguments: [
        Interruption.copies(0), .copies(1), .copies(700), .copies(1_499), .deletions(0),
        .deletions(1), .deletionsDone(0), .deletionsDone(1), .end,
    ])
    func `a folder's move goes on after an interruption`(
        interruption: Interruption
    ) async throws {
        let bench = try await Bench.make(Bench.batches)
        Self.fill(bench)
        let first = try await bench.provider()
        let base = try await first.item(at: Bench.path("d")).version
        bench.fake.add(interruption.fault)
        #expect(try await Self.move(first, base) != nil)
        #expect(Self.lost(bench).isEmpty)
        let watched = try await Bench.list(.root, of: first).map(\.name.description)
        #expect(watched == ["d"] || watched == ["e"])

        bench.fake.removeFaults()
        bench.fake.put("d/foreign", "foreign")
        let second = try await bench.provider()
        let names = try await Bench.list(.root, of: second).map(\.name.description)
        #expect(names == ["d"] || names == ["e"])
        #expect(try await Self.move(second, base) == nil)
        #expect(bench.fake.keys("d/").isEmpty)
        #expect(bench.fake.keys("e/").count == Self.count + 2)
        #expect(Self.lost(bench).isEmpty)
        #expect(bench.fake.object("e/foreign")?.bytes == Array("foreign".utf8))
        #expect(bench.fake.keys(".cloudfs/moves/").isEmpty)
        #expect(try await Bench.list(.root, of: second).map(\.name.description) == ["e"])
    }

    @Test func `what is written into the old folder while it is emptied moves too`() async throws {
        let bench = try await Bench.make(Bench.batches)
        Self.fill(bench)
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .deleteBatch))
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("objects are deleted", within: .seconds(60)) { gate.waitingCount == 1 }
        bench.fake.put("d/0000-foreign", "foreign")
        gate.open()
        _ = try await moved
        #expect(bench.fake.object("e/0000-foreign")?.bytes == Array("foreign".utf8))
        #expect(bench.fake.keys("d/").isEmpty)
    }

    /// After the last look at it: nobody has a copy of that.
    @Test func `what is saved in the old folder right before it is deleted there moves too`()
        async throws
    {
        let bench = try await Bench.make()
        bench.fake.put("d/a", "old")
        bench.fake.put("d/b", "b")
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .delete, key: "d/a"))
        let moved = try await Bench.during(gate) {
            bench.fake.put("d/a", "saved")
        } _: {
            try await provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        }
        _ = try moved.get()
        #expect(bench.fake.object("e/a")?.bytes == Array("saved".utf8))
        #expect(bench.fake.keys("e/") == ["e/", "e/a", "e/b"])
        #expect(bench.fake.keys("d/").isEmpty)
    }

    @Test func `an object that is rewritten in the second of its copy is not lost`() async throws {
        var settings = FakeS3Settings()
        let now = Clocks.system.now()
        settings.now = { now }
        let bench = try await Bench.make(settings)
        bench.fake.put("d/a", "old")
        bench.fake.put("d/z", "z")
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .copy, key: "e/z"))
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("one of two is copied", within: .seconds(60)) {
            gate.waitingCount == 1 && bench.fake.object("e/a") != nil
        }
        bench.fake.put("d/a", "new")
        gate.open()
        _ = try await moved
        #expect(bench.fake.object("e/a")?.bytes == Array("new".utf8))
    }

    @Test func `an object that is rewritten before its copy moves as it is then`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("d/a", "old")
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .copy))
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("it is copied", within: .seconds(60)) {
            gate.waitingCount == 1
        }
        bench.fake.put("d/a", "newer")
        gate.open()
        _ = try await moved
        #expect(bench.fake.object("e/a")?.bytes == Array("newer".utf8))
        #expect(bench.fake.keys("d/").isEmpty)
    }

    @Test func `what is edited in the new folder while the old one is emptied stays`() async throws
    {
        let bench = try await Bench.make(Bench.batches)
        Self.fill(bench)
        bench.fake.put("d/y", "old")
        bench.fake.put("d/z", "old")
        bench.fake.change { $0.clockOffset = .seconds(10) }
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .deleteBatch))
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("objects are deleted", within: .seconds(60)) { gate.waitingCount == 1 }
        bench.fake.change { $0.clockOffset = .seconds(20) }
        bench.fake.put("e/z", "edited")
        bench.fake.put("e/y", "edited")
        bench.fake.put("d/y", "edited as well")
        gate.open()
        _ = try await moved
        #expect(bench.fake.object("e/z")?.bytes == Array("edited".utf8))
        #expect(bench.fake.object("e/y")?.bytes == Array("edited".utf8))
        #expect(bench.fake.keys("d/").isEmpty)
        // Only what was written in both places is there twice.
        let conflicts = bench.fake.keys("e/").filter { $0.text.contains("conflicted copy") }
        #expect(conflicts.count == 1)
        let kept = try #require(conflicts.first)
        #expect(kept.text.hasPrefix("e/y (conflicted copy device "))
        #expect(bench.fake.object(kept)?.bytes == Array("edited as well".utf8))
        #expect(bench.fake.keys("e/").count == Self.count + 4)
    }

    @Test(arguments: [Interruption.copies(1_499), .deletions(0)])
    func `what is edited in the new folder after an interruption stays`(
        interruption: Interruption
    ) async throws {
        let bench = try await Bench.make(Bench.batches)
        Self.fill(bench)
        let first = try await bench.provider()
        let base = try await first.item(at: Bench.path("d")).version
        bench.fake.change { $0.clockOffset = .seconds(10) }
        bench.fake.add(interruption.fault)
        #expect(try await Self.move(first, base) != nil)

        bench.fake.removeFaults()
        bench.fake.change { $0.clockOffset = .seconds(7_200) }
        bench.fake.put(FakeS3Key("e/" + Self.name(1)), "edited")
        bench.fake.put("d/late", "late")
        #expect(try await Self.move(try await bench.provider(), base) == nil)
        let edited = bench.fake.object(FakeS3Key("e/" + Self.name(1)))
        #expect(edited?.bytes == Array("edited".utf8))
        #expect(bench.fake.object("e/late")?.bytes == Array("late".utf8))
        #expect(bench.fake.keys("d/").isEmpty)
        // While it is copied, it is not known that the old version is the one that was edited.
        let isKnown = if case .deletions = interruption { true } else { false }
        let versions = bench.fake.keys("e/").filter { $0.text.contains(Self.name(1)) }
        #expect(versions.count == (isKnown ? 1 : 2))
    }

    @Test func `what appears in the new folder before its copy stays`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("d/a", "a")
        bench.fake.put("d/b", "b")
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(
            FakeS3Fault(.wait(gate)) { $0.kind == .put && $0.key.hasPrefix(".cloudfs/moves/") }
        )
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("the move begins") { gate.waitingCount == 1 }
        bench.fake.put("e/a", "another document")
        gate.open()
        _ = try await moved
        #expect(bench.fake.object("e/a")?.bytes == Array("another document".utf8))
        let all = bench.fake.keys("e/").compactMap { bench.fake.object($0)?.bytes }
        #expect(all.contains(Array("a".utf8)))
        #expect(bench.fake.object("e/b")?.bytes == Array("b".utf8))
    }

    @Test func `news from others during a move changes nothing`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("d/a", "a")
        bench.fake.put("d/b", "b")
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .copy, key: "e/b"))
        async let moved = provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        try await eventually("one of two is copied", within: .seconds(60)) {
            gate.waitingCount == 1 && bench.fake.object("e/a") != nil
        }
        try await provider.readIntents()
        #expect(try await Bench.list(.root, of: provider).map(\.name.description) == ["d"])
        // News arrive just before the end, and are heard just after it.
        let last = FakeS3Gate()
        bench.fake.add(
            FakeS3Fault(.wait(last)) {
                $0.kind == .get && $0.key.text.hasPrefix(".cloudfs/moves/")
            }
        )
        async let read: Void = provider.readIntents()
        try await eventually("the intent is read") { last.waitingCount == 1 }
        gate.open()
        _ = try await moved
        last.open()
        try await read
        #expect(try await Bench.list(.root, of: provider).map(\.name.description) == ["e"])
    }

    @Test func `a folder cannot be moved into itself by another name`() async throws {
        let bench = try await Bench.make()
        bench.fake.put("a/x", "x")
        let provider = try await bench.provider()
        let base = try await provider.item(at: Bench.path("a")).version
        let code = await s3Failure {
            _ = try await provider.move(
                from: Bench.path("a"),
                to: Bench.path("‛a%2F/b"),
                base: base
            )
        }
        #expect(code != nil)
        #expect(bench.fake.object("a/x") != nil)
    }

    // MARK: - Folders beside files

    @Test func `a file moves into the folder beside it`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "d", of: provider).version
        bench.fake.put("d/", "")
        _ = try await provider.move(from: Bench.path("d"), to: Bench.path("‛d%2F/d"), base: base)
        #expect(bench.fake.keys("d") == ["d/", "d/d"])
    }

    @Test func `a folder has its plain name once there is no file beside it`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d", "file")
        bench.fake.put("d/a", "text")
        let (shown, plain) = (try Bench.path("‛d%2F"), try Bench.path("d"))
        let base = try await provider.item(at: shown).version
        await #expect(throws: CloudFSError.self) {
            try await provider.move(from: shown, to: plain, base: base)
        }
        bench.fake.remove("d")
        let moved = try await provider.move(from: shown, to: plain, base: base)
        #expect(moved.kind == .folder && moved.name == plain.name)
        #expect(bench.fake.keys("d") == ["d/a"])
    }

    @Test func `a folder beside which a file comes while it moves is a folder`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d/a", "text")
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .copy))
        let moved = try await Bench.during(gate) {
            bench.fake.put("e", "file")
        } _: {
            try await provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        }
        #expect(try moved.get().kind == .folder)
        #expect(bench.fake.object("e/a") != nil && bench.fake.object("e") != nil)
    }

    // MARK: - What is written on folders

    @Test func `a folder on which something else is written than was known is left alone`()
        async throws
    {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d/a", "text")
        let path = try Bench.path("d")
        let update = MetadataUpdate(attributes: ["user.a": [1]])
        let unmarked = try await provider.item(at: path).version
        bench.fake.put("d/", "", metadata: ["mode": "16832"])
        for known in [unmarked, try await provider.item(at: path).version] {
            let code = await s3Failure {
                bench.fake.put("d/", "", metadata: ["mode": "16840"])
                _ = try await provider.setMetadata(update, at: path, base: known)
            }
            #expect(code == .remoteChanged)
        }
        let current = try await provider.item(at: path).version
        _ = try await provider.setMetadata(update, at: path, base: current)
        #expect(bench.fake.object("d/")?.metadata["mode"] == "040710")
        bench.fake.put("d/", "")
        _ = try await provider.setMetadata(update, at: path, base: unmarked)
    }

    @Test func `a folder's listing tells that something else is written on it`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d/a", "text")
        let path = try Bench.path("d")
        var known = try await provider.item(at: path).version
        func isToldUnchanged() async throws -> Bool {
            let page = try await provider.children(of: path, after: nil)
            return try #require(page.folder).isUnchanged(since: known)
        }
        #expect(try await isToldUnchanged())
        #expect(try await provider.children(of: .root, after: nil).folder == nil)
        bench.fake.put("d/", "", metadata: ["mode": "16832"])
        #expect(try await !isToldUnchanged())
        known = try await provider.item(at: path).version
        #expect(try await isToldUnchanged())
        bench.fake.remove("d/")
        #expect(try await !isToldUnchanged())
    }
}
