import CloudFSTestSupport
import Glibc
import Testing

/// `cloudfs restart` after another version was installed in the place of the one that runs.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct UpgradeTests {
    /// The file that a process runs.
    private static func programFile(of process: Int32) throws -> UInt64 {
        let file = try SystemCall.open("/proc/\(process)/exe", O_RDONLY)
        defer { close(file) }
        return try SystemCall.status(file).inode
    }

    /// The worker of a supervisor that is no `TestMount`'s.
    private static func worker(of supervisor: Int32) throws -> Int32 {
        let tasks = try SystemCall.names(in: "/proc/\(supervisor)/task")
        let children = tasks.flatMap { task in
            Shell.text(of: "/proc/\(supervisor)/task/\(task)/children").split(separator: " ")
        }
        let workers = children.compactMap { Int32($0) }.filter { child in
            Shell.text(of: "/proc/\(child)/cmdline").contains("--worker-descriptor")
        }
        try #require(workers.count == 1)
        return workers[0]
    }

    @Test func `the new version serves after a restart, and programs at work go on`() async throws {
        try await TestDrive.with(slots: 2) { drive in
            try await drive.mount.stop()
            let installed = "\(drive.folder)/run/cloudfs-mount"
            let copy = "cp '\(TestMount.binary("cloudfs-mount"))'"
            try await drive.run("\(copy) \(installed)", within: .seconds(60))
            let words = drive.mount.command.map { word in
                word == TestMount.binary("cloudfs-mount") ? installed : "'\(word)'"
            }
            try #require(words[0] == installed)
            let daemon = try drive.start(
                "cd /; exec \(words.joined(separator: " "))",
                output: drive.mount.log
            )
            try await eventually("it serves", within: .seconds(30)) {
                try await Shell.run(
                    [TestMount.binary("cloudfs"), "status", drive.path],
                    environment: drive.environment
                ).status == 0
            }
            let old = try Self.programFile(of: try Self.worker(of: daemon.pid))
            let programs = try await WorkingPrograms.start(
                in: drive,
                ["copies", "saves", "appends", "transactions", "trees", "locks", "mappings"]
            )
            try await drive.run(
                "\(copy) \(installed).new; mv \(installed).new \(installed)",
                within: .seconds(60)
            )
            let new = try TestFolder("\(drive.folder)/run").status("cloudfs-mount").inode
            try #require(new != old)
            try await drive.mustDo(["restart"])
            let worker = try Self.worker(of: daemon.pid)
            #expect(try Self.programFile(of: worker) == new)
            #expect(try await drive.run("cloudfs status").contains("pid \(daemon.pid),"))
            try await programs.finish()
            #expect(try Self.worker(of: daemon.pid) == worker)
            try await drive.drain()
            daemon.send(SIGTERM)
            #expect(try await daemon.wait(within: .seconds(20)) == 0)
        }
    }
}
