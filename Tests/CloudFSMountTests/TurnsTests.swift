import CloudFSTestSupport
import Testing

/// Programs of two devices that write one document in turns, by whatever way they save it.
@Suite(.timeLimit(.minutes(10)))
struct TurnsTests {
    private static var document: Filling {
        Filling { cloud in try cloud.write("doc", "old\n") }
    }

    /// A shell's wait for a file that a test makes.
    private static func wait(for name: String, of drive: TestDrive) -> String {
        "until [ -e \(drive.folder)/run/\(name) ]; do sleep 0.05; done"
    }

    private static func make(_ name: String, of drive: TestDrive) async throws {
        try await drive.run("touch \(drive.folder)/run/\(name)")
    }

    private static func made(_ name: String, of drive: TestDrive) async throws {
        try await eventually("\(name) is there") {
            try await Shell.run(["test", "-e", "\(drive.folder)/run/\(name)"]).status == 0
        }
    }

    private static func coordinate(_ words: String, _ work: String) -> String {
        "exec cloudfs coordinate \(words) -- bash -c '\(work)'"
    }

    @Test(arguments: ["rm doc", "mv doc doc~"])
    func `other devices keep a document until the program that saves it anew is done`(
        beginning: String
    ) async throws {
        let quiet = ["--quiet-time", "50ms"]
        try await TestDrive.with(quiet, slots: 2, prepare: Self.document) { drive in
            try await drive.withSecondDrive(quiet) { second in
                let run = "\(drive.folder)/run"
                let writer = try drive.start(
                    Self.coordinate(
                        "--write doc",
                        """
                        \(beginning); touch \(run)/begun; \(Self.wait(for: "go", of: drive))
                        echo new > doc
                        """
                    )
                )
                try await Self.made("begun", of: drive)
                // What is written after that is sent after it.
                try await drive.run("echo other > other")
                try await drive.untilCloudHas("other", "other\n")
                #expect(drive.cloud.text("doc") == "old\n")
                #expect(try await second.text("doc") == "old\n")
                try await Self.make("go", of: drive)
                #expect(try await writer.wait(within: .seconds(20)) == 0)
                try await second.untilCloudHas("doc", "new\n")
                let copies = beginning.hasSuffix("~") ? ["doc~"] : []
                try await eventually("all is there") {
                    try await second.names().sorted() == ["doc"] + copies + ["other"]
                }
                try await eventually("it is new") { try await second.text("doc") == "new\n" }
            }
        }
    }

    @Test func `who waited for a reader here begins with what came from elsewhere meanwhile`()
        async throws
    {
        try await TestDrive.with(slots: 2, prepare: Self.document) { drive in
            try await drive.withSecondDrive { second in
                let run = "\(drive.folder)/run"
                let reader = try second.start(
                    Self.coordinate(
                        "--read doc",
                        "touch \(run)/reading; \(Self.wait(for: "read", of: drive))"
                    )
                )
                try await Self.made("reading", of: drive)
                try await drive.mustDo([
                    "coordinate", "--write", "doc", "--", "sh", "-c", "echo one >> doc",
                ])
                try await drive.untilCloudHas("doc", "old\none\n")
                let writer = try second.start(
                    Self.coordinate("--write doc", "echo two >> doc")
                )
                try await eventually("the writer waits") {
                    try await second.cloudfs(["claims"]).output.contains("waits")
                }
                try await Self.make("read", of: drive)
                #expect(try await reader.wait(within: .seconds(20)) == 0)
                #expect(try await writer.wait(within: .seconds(40)) == 0)
                try await drive.untilCloudHas("doc", "old\none\ntwo\n")
                #expect(try await second.names() == ["doc"])
            }
        }
    }

    @Test func `what was written in a turn is sent before all that waits`() async throws {
        try await TestDrive.with(["--quiet-time", "10m"], prepare: Self.document) { drive in
            try await drive.run("echo plain > plain")
            try await drive.mustDo([
                "coordinate", "--write", "doc", "--", "sh", "-c", "echo new > doc",
            ])
            try await drive.untilCloudHas("doc", "new\n", within: .seconds(20))
            #expect(drive.cloud.text("plain") == nil)
        }
    }

    @Test func `who writes without a turn is told why`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            try await drive.hydrate("doc")
            let work = ["coordinate", "--write", "doc", "--", "sh", "-c", "echo new >> doc"]
            let inTurn = try await drive.cloudfs(work)
            #expect(inTurn.status == 0 && inTurn.errors.isEmpty)
            try await drive.drain()
            try await drive.run("mv \"$CLOUD\" \"$CLOUD.away\"")
            try await UnreachableTests.untilOffline(drive)
            let alone = try await drive.cloudfs(work)
            #expect(alone.status == 0)
            #expect(alone.errors.hasPrefix("cloudfs: other devices do not wait for this one: "))
            #expect(alone.errors.split(separator: "\n").count == 1)
            #expect(try await drive.text("doc") == "old\nnew\nnew\n")
        }
    }

    @Test(arguments: S3TestServers.all)
    func `who makes a document finds the one that another device has just made`(
        server: S3TestServer
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            var options = S3DriveTests.options(server, bucket)
            try await TestDrive.with(options: options, slots: 2) { first in
                options.arguments = ["--poll-interval", "10m", "--device-name", "second"]
                try await first.withSecondDrive(options: options) { second in
                    #expect(try await second.names().isEmpty)
                    try await first.run("echo one > new")
                    try await first.drain()
                    try await second.mustDo([
                        "coordinate", "--write", "new", "--", "sh", "-c", "echo two >> new",
                    ])
                    try await eventually("both are there", within: .seconds(20)) {
                        try await first.run("cat new || true") == "one\ntwo"
                    }
                    #expect(try await first.names() == ["new"])
                }
            }
        }
    }

    @Test(arguments: S3TestServers.all)
    func `a drive that has just been mounted has turns from the beginning`(
        server: S3TestServer
    ) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            var options = S3DriveTests.options(server, bucket)
            try await TestDrive.with(options: options, slots: 2) { first in
                try await first.run("echo zero > log")
                try await first.drain()
                options.arguments += ["--device-name", "second"]
                try await first.withSecondDrive(options: options) { second in
                    #expect(try await second.text("log") == "zero\n")
                    try await second.mount.stop()
                    try await first.run(
                        "cloudfs coordinate --write log -- sh -c 'echo one >> log'"
                    )
                    try await first.drain()
                    try await second.mount.start()
                    try await second.mustDo([
                        "coordinate", "--write", "log", "--", "sh", "-c", "echo two >> log",
                    ])
                    try await eventually("all are there", within: .seconds(20)) {
                        try await first.run("cat log || true") == "zero\none\ntwo"
                    }
                    #expect(try await first.names() == ["log"])
                }
            }
        }
    }
}
