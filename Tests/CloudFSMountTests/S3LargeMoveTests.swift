import CloudFSTestSupport
import Foundation
import Testing

/// A folder of very many objects that is renamed, while somebody looks and daemons are killed.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3LargeMoveTests {
    private static let count = 10_000

    private static func key(_ folder: String, _ number: Int) -> FakeS3Key {
        FakeS3Key("prefix/\(folder)/\(number)")
    }

    /// How many files are in a folder of the bucket; its marker is none.
    private static func count(_ server: FakeS3Server, _ folder: FakeS3Key) -> Int {
        server.keys(folder).count { $0 != folder }
    }

    /// Lists both folders again and again: each file has to be in exactly one of them, in the old
    /// one first and then in the new one.
    ///
    /// The rename may come between the listings of one round, which is repeated then: once.
    private static let watcher = """
        count, scratch = \(count), os.environ["SCRATCH"]
        expected = sorted(str(number) for number in range(count))
        def names(folder):
            try:
                return os.listdir(folder)
            except FileNotFoundError:
                return []
        rounds, renamed, shown = 0, 0, set()
        while not os.path.exists(f"{scratch}/stop"):
            before = sorted(os.listdir("."))
            old, new = names("old"), names("new")
            if before != sorted(os.listdir(".")):
                renamed += 1
                assert renamed == 1, "the names of the folders change again"
                continue
            assert before in (["new"], ["old"]), before
            assert not (shown >= {"new"} and before == ["old"]), "the old folder is back"
            shown.add(before[0])
            assert bool(old) != bool(new), (len(old), len(new))
            assert sorted(old + new) == expected, (len(old), len(new))
            rounds += 1
            with open(f"{scratch}/rounds", "w") as file:
                file.write(str(rounds))
            # Leaves the processors to those who move.
            time.sleep(0.1)
        """

    /// Watches the drive while `body` runs, and for a few rounds more.
    private static func watching(
        _ drive: TestDrive,
        _ body: () async throws -> Void
    ) async throws {
        let scratch = TestFolder("\(drive.folder)/run")
        _ = try await Shell.run(["rm", "-f", scratch.path + "/stop", scratch.path + "/rounds"])
        async let watch = drive.python(watcher, within: .seconds(400))
        do {
            try await rounds(scratch, from: 0)
            try await body()
            try await rounds(scratch, from: Int(scratch.text("rounds") ?? "") ?? 0)
        } catch {
            try scratch.write("stop", "")
            // What was seen says more than that something else failed.
            _ = try await watch
            throw error
        }
        try scratch.write("stop", "")
        _ = try await watch
    }

    private static func rounds(_ scratch: TestFolder, from count: Int) async throws {
        try await eventually("it is looked a few times more") {
            // The file may be empty while it is written.
            (Int(scratch.text("rounds") ?? "") ?? 0) >= count + 3
        }
    }

    @Test func `10,000 objects that move are each seen once, through crashes among them`()
        async throws
    {
        // A thousand deletions are one request, and a copy is one.
        var settings = FakeS3Settings.ceph
        settings.conditionsOnCopy = .honoured
        let server = try await FakeS3Server.start(settings: settings)
        for number in 0..<Self.count {
            server.put(Self.key("old", number), "content \(number)")
        }
        try await TestDrive.with(options: S3FaultTests.options(server), slots: 4) { drive in
            let gate = FakeS3Gate()
            server.add(FakeS3Fault(.wait(gate), skipping: 5_000, count: nil, on: .copy))
            try await eventually("everything is listed", within: .seconds(60)) {
                try await drive.run("(ls old || true) | wc -l") == "\(Self.count)"
            }
            try await Self.watching(drive) {
                let time = try await drive.run(
                    "a=${EPOCHREALTIME/./}; mv old new; b=${EPOCHREALTIME/./}; echo $((b - a))"
                )
                #expect(try #require(Int(time)) < 1_000_000, "\(time) µs")
                try await eventually("half of it is copied", within: .seconds(180)) {
                    gate.waitingCount > 0
                }
            }
            #expect(Self.count(server, "prefix/old/") == Self.count)
            #expect(Self.count(server, "prefix/new/") >= 4_000)
            try await Self.crash(drive, among: server, gate)
            let later = FakeS3Gate()
            server.add(FakeS3Fault(.wait(later), skipping: 4, count: nil, on: .deleteBatch))
            var again = try await drive.again()
            try await Self.watching(again) {
                try await eventually("half of it is deleted", within: .seconds(180)) {
                    later.waitingCount > 0
                }
            }
            #expect(Self.count(server, "prefix/new/") == Self.count)
            #expect((1..<Self.count).contains(Self.count(server, "prefix/old/")))
            try await Self.crash(again, among: server, later)
            again = try await again.again()
            try await Self.watching(again) { try await again.drain() }
            #expect(try await again.run("ls; ls new | wc -l") == "new\n\(Self.count)")
        }
        #expect(server.keys("prefix/old/").isEmpty)
        #expect(server.keys("prefix/.cloudfs/moves/").isEmpty)
        let kept = (0..<Self.count).filter { number in
            server.object(Self.key("new", number))?.bytes == Array("content \(number)".utf8)
        }
        #expect(kept.count == Self.count)
        #expect(Self.count(server, "prefix/new/") == Self.count)
    }

    @Test func `a file is read while the folder it is in moves, at every step of it`()
        async throws
    {
        var settings = FakeS3Settings.ceph
        settings.conditionsOnDelete = .honoured
        let server = try await FakeS3Server.start(settings: settings)
        for number in 0..<6 { server.put(Self.key("old", number), "content \(number)") }
        let (copying, deleting) = (FakeS3Gate(), FakeS3Gate())
        server.add(FakeS3Fault(.wait(copying), skipping: 3, count: nil, on: .copy))
        server.add(
            FakeS3Fault(.wait(deleting), count: nil) { request in
                request.kind == .delete && request.key == Self.key("old", 0)
            }
        )
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("[ \"$(ls old | wc -l)\" = 6 ]; mv old new")
            try await eventually("half of it is copied") { copying.waitingCount > 0 }
            #expect(try await drive.run("cat new/1") == "content 1")
            copying.open()
            try await eventually("most of it is deleted") {
                deleting.waitingCount == 1 && server.keys("prefix/old/") == ["prefix/old/0"]
            }
            #expect(try await drive.run("cat new/5") == "content 5")
            deleting.open()
            try await drive.drain()
            #expect(try await drive.run("cat new/0 new/2") == "content 0content 2")
        }
    }

    /// What the server holds back arrives after the daemon is gone, as requests under way do.
    private static func crash(
        _ drive: TestDrive,
        among server: FakeS3Server,
        _ gate: FakeS3Gate
    ) async throws {
        try await drive.mount.kill9()
        server.removeFaults()
        gate.open()
    }
}
