import CloudFSTestSupport
import Testing

/// Drives on a bucket that nobody uses for a while.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3IdleTests {
    /// Idle soon, and then for good: what is heard of is heard of for another reason.
    private static func options(
        _ server: FakeS3Server,
        idleAfter: String,
        pollInterval: String = "1h"
    ) -> TestMount.Options {
        var options = S3FaultTests.options(server)
        options.arguments += [
            "--idle-after", idleAfter, "--idle-poll-interval", pollInterval,
            "--scan-interval", "1h", "--listing-age", "1h",
        ]
        return options
    }

    private static func polls(_ server: FakeS3Server) -> Int {
        server.requests(.list).count {
            $0.parameter("prefix") == "prefix/.cloudfs/journal/"
        }
    }

    /// Waits until the drive has not looked for news for ten times its interval, or longer.
    private static func untilIdle(
        _ server: FakeS3Server,
        for time: Duration = .seconds(1)
    ) async throws {
        var (count, since) = (0, ContinuousClock.now)
        try await eventually("the drive looks for news no more", within: .seconds(30)) {
            let polls = polls(server)
            if polls != count { (count, since) = (polls, .now) }
            return .now - since > time
        }
    }

    @Test(arguments: ["ls folder", "cat folder/known"])
    func `an idle drive looks for news as soon as somebody lists or opens something`(
        use: String
    ) async throws {
        let server = try await FakeS3Server.start()
        server.put("prefix/folder/known", "here")
        let options = Self.options(server, idleAfter: "1s")
        try await TestDrive.with(options: options) { drive in
            try await drive.run("ls folder; cat folder/known")
            for _ in 1...2 {
                try await Self.untilIdle(server)
                let polls = Self.polls(server)
                try await drive.run(use)
                try await eventually("it looks at once", within: .seconds(2)) {
                    Self.polls(server) > polls
                }
                try await eventually("and goes on", within: .seconds(2)) {
                    Self.polls(server) > polls + 3
                }
            }
        }
    }

    @Test func `a drive that nobody uses stays awake as long as changes arrive`() async throws {
        let server = try await FakeS3Server.start()
        server.put("prefix/folder/known", "here")
        let options = Self.options(server, idleAfter: "3s")
        try await TestDrive.with(options: options) { drive in
            try await drive.run("ls folder")
            var other = S3FaultTests.options(server)
            other.arguments += ["--device-name", "second"]
            try await drive.withSecondDrive(options: other) { second in
                let end = ContinuousClock.now + .seconds(7)
                var number = 0
                while ContinuousClock.now < end {
                    number += 1
                    let name = "folder/new\(number)"
                    try await second.write(name, "new")
                    // By its name: who lists or opens something uses the drive.
                    try await eventually("\(name) is seen", within: .seconds(10)) {
                        try await drive.exists(name)
                    }
                }
                #expect(number > 1)
            }
        }
    }

    /// A laptop's battery pays for every wake-up.
    @Test func `an idle drive is woken by its looks for news only`() async throws {
        let (window, interval) = (30, 5)
        let server = try await FakeS3Server.start()
        server.put("prefix/folder/known", "here")
        let options = Self.options(server, idleAfter: "1s", pollInterval: "\(interval)s")
        // It disturbs nobody: the others need not wait for its end.
        try await TestDrive.with(options: options, slots: 0) { drive in
            // What is opened is told to others, once within the next minute.
            try await drive.run("ls folder")
            try await Self.untilIdle(server, for: .seconds(3))
            let supervisor = try #require(drive.mount.pid)
            let worker = try #require(drive.mount.worker)
            let before = (WakeUps(of: [supervisor]), WakeUps(of: [worker]))
            server.forgetRequests()
            // The window itself, and no condition.
            try await Task.sleep(for: .seconds(window))
            let ofSupervisor = WakeUps(of: [supervisor]).since(before.0)
            let ofWorker = WakeUps(of: [worker]).since(before.1)
            let polls = Self.polls(server)
            #expect(polls > 0 && polls <= window / interval + 1, "\(polls)")
            #expect(server.requests.count == polls, "\(server.requests.map(\.target))")
            #expect(ofSupervisor.isEmpty, "\(ofSupervisor)")
            let count = ofWorker.values.reduce(0, +)
            // Measured: 17 each, built for debugging.
            #expect(count <= polls * 25, "\(count) with \(polls): \(ofWorker)")
        }
    }
}
