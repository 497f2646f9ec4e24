import CloudFSTestSupport
import Testing

/// How soon a drive on a bucket hears of what others do there, and what asking costs.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3FeedTests {
    /// Polls as they are by default, unless `arguments` say otherwise.
    private static func options(
        _ server: FakeS3Server,
        _ arguments: [String] = []
    ) -> TestMount.Options {
        var options = S3FaultTests.options(server)
        options.arguments = ["--endpoint", server.endpoint] + arguments
        return options
    }

    private static func isPoll(_ request: FakeS3Request) -> Bool {
        request.kind == .list
            && request.parameter("prefix") == "prefix/.cloudfs/journal/"
    }

    private static func polls(_ server: FakeS3Server) -> Int {
        server.requests(.list).count { isPoll($0) }
    }

    /// Waits until the drive has looked for news a few times more.
    private static func looks(_ server: FakeS3Server, _ count: Int = 5) async throws {
        let polls = polls(server)
        try await eventually("\(count) looks for news") { Self.polls(server) >= polls + count }
    }

    private static func comparedAll(_ drive: TestDrive) async throws {
        try await eventually("all is compared", within: .seconds(60)) {
            try await drive.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
        }
    }

    @Test func `another device sees a change within two seconds of its upload, as drives are set`()
        async throws
    {
        let server = try await FakeS3Server.start()
        server.put("prefix/folder/known", "here")
        try await TestDrive.with(options: Self.options(server), slots: 4) { first in
            let options = Self.options(server, ["--device-name", "second"])
            try await first.withSecondDrive(options: options) { second in
                for drive in [first, second] {
                    try await drive.run("ls folder")
                    try await Self.comparedAll(drive)
                }
                for round in 1...3 {
                    try await first.write("folder/file", "round \(round)")
                    try await eventually("it is uploaded") {
                        server.object("prefix/folder/file")?.bytes == Array("round \(round)".utf8)
                    }
                    let begin = ContinuousClock.now
                    try await eventually("it is seen") {
                        guard try await second.exists("folder/file") else { return false }
                        return try await second.text("folder/file") == "round \(round)"
                    }
                    #expect(.now - begin <= .seconds(2), "round \(round)")
                }
                try await first.run("rm folder/known")
                try await eventually("it is removed") {
                    server.object("prefix/folder/known") == nil
                }
                let begin = ContinuousClock.now
                try await eventually("that is seen") {
                    try await !second.exists("folder/known")
                }
                #expect(.now - begin <= .seconds(2))
            }
        }
    }

    @Test(arguments: [10, 5_000])
    func `a look for news is one LIST, however much is in the bucket`(count: Int) async throws {
        let server = try await S3ScaleTests.server(folders: 0, files: count)
        let interval = Duration.milliseconds(200)
        let options = Self.options(server, ["--poll-interval", "200ms"])
        try await TestDrive.with(options: options) { drive in
            try await Self.comparedAll(drive)
            var requests: [FakeS3Request] = []
            var begin = ContinuousClock.now
            // What looking for the end of the comparison began may still be under way.
            try await eventually("ten looks, and nothing else", within: .seconds(30)) {
                server.forgetRequests()
                begin = .now
                try await Self.looks(server, 10)
                requests = server.requests
                return requests.allSatisfy { Self.isPoll($0) }
            }
            let time = ContinuousClock.now - begin
            #expect(Double(requests.count) <= time / interval + 1)
            for request in requests {
                #expect(request.parameter("continuation-token") == nil)
                #expect(request.parameter("start-after") != nil)
            }
        }
    }

    // MARK: - Other tools

    /// A drive on a folder that it knows, in which another tool then does something.
    private static func withForeignChange(
        _ arguments: [String],
        body: (TestDrive, FakeS3Server, _ isSeen: () async throws -> Bool) async throws -> Void
    ) async throws {
        let server = try await FakeS3Server.start()
        for name in ["known", "gone"] { server.put(FakeS3Key("prefix/deep/er/\(name)"), name) }
        let options = options(server, ["--poll-interval", "100ms"] + arguments)
        try await TestDrive.with(options: options) { drive in
            try await drive.run("[ \"$(ls deep/er)\" = $'gone\\nknown' ]")
            try await comparedAll(drive)
            try await looks(server)
            server.put("prefix/deep/er/new", "new")
            server.remove("prefix/deep/er/gone")
            try await body(drive, server) {
                // By names: nobody opens the folder.
                try await drive.has(["deep/er/new", "deep/er/known"], not: ["deep/er/gone"])
            }
        }
    }

    @Test func `what another tool did is seen by the next scan, without anybody looking`()
        async throws
    {
        try await Self.withForeignChange(["--scan-interval", "1s", "--listing-age", "1h"]) {
            drive,
            _,
            isSeen in
            try await eventually("it is seen", within: .seconds(10)) { try await isSeen() }
            #expect(try await drive.text("deep/er/new") == "new")
        }
    }

    @Test func `what another tool did is seen when its folder is opened, if that is set so`()
        async throws
    {
        try await Self.withForeignChange(["--scan-interval", "1h", "--listing-age", "200ms"]) {
            drive,
            server,
            isSeen in
            try await Self.looks(server)
            #expect(try await !isSeen())
            try await drive.run("ls deep/er")
            try await eventually("it is seen", within: .seconds(5)) { try await isSeen() }
            #expect(try await drive.text("deep/er/new") == "new")
        }
    }

    @Test func `a folder that was listed a moment ago is not compared, until it is asked for`()
        async throws
    {
        try await Self.withForeignChange(["--scan-interval", "1h", "--listing-age", "1h"]) {
            drive,
            server,
            isSeen in
            #expect(try await drive.run("ls deep/er") == "gone\nknown")
            try await Self.looks(server, 10)
            #expect(try await !isSeen())
            try await drive.mustDo(["refresh", "deep"])
            try await eventually("it is seen", within: .seconds(5)) { try await isSeen() }
        }
    }
}
