import CloudFSTestSupport
import Glibc
import Testing

/// What a drive costs while nobody uses it: a laptop's battery pays for every wake-up.
///
/// Built by a compiler that `TaskThreads` does not know, a drive fails here.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RestTests {
    private static let window = Duration.seconds(60)

    /// Has a drive served where nothing else is mounted meanwhile: whoever takes a folder of this
    /// machine for a cloud is told of every mount, so that other tests would wake it.
    ///
    /// - Returns: Its supervisor, in whose place it can be reached.
    private static func serveApart(_ drive: TestDrive) async throws -> ChildProcess {
        try await drive.mount.stop()
        let command = drive.mount.command.map { "'\($0)'" }.joined(separator: " ")
        let daemon = try drive.start(
            "cd /; exec unshare --mount --propagation private \(command)",
            output: drive.mount.log
        )
        try await eventually("it is mounted") {
            let mounts = Shell.text(of: "/proc/\(daemon.pid)/mountinfo")
            guard daemon.status == nil else { throw SystemError(drive.mount.logText, EIO) }
            return mounts.contains(" \(drive.path) ")
        }
        return daemon
    }

    private static func processes(below supervisor: Int32) throws -> [Int32] {
        let threads = try SystemCall.names(in: "/proc/\(supervisor)/task")
        let children = threads.flatMap { thread in
            Shell.text(of: "/proc/\(supervisor)/task/\(thread)/children").split(separator: " ")
        }
        return [supervisor] + children.compactMap { Int32($0) }
    }

    @Test(.asRoot) func `a drive that nobody uses does not wake its machine`() async throws {
        let filling = Filling { cloud in
            try cloud.write("folder/file", "some bytes")
        }
        // It disturbs nobody: the others need not wait for the end of its minute.
        try await TestDrive.with(slots: 0, prepare: filling) { drive in
            let daemon = try await Self.serveApart(drive)
            try await drive.run(
                """
                cd /; nsenter --mount --target \(daemon.pid) bash -ec '
                cd "$DRIVE"; find . > /dev/null; [ "$(cat folder/file)" = "some bytes" ]'
                """
            )
            var processes: [Int32] = []
            try await eventually("there are two processes") {
                processes = try Self.processes(below: daemon.pid)
                return processes.count == 2
            }
            try await Self.expectRest(of: processes)
            daemon.send(SIGTERM)
            #expect(try await daemon.wait(within: .seconds(20)) == 0)
        }
    }

    /// Waits until none of `processes` was woken for a whole window.
    ///
    /// What follows the mount is over some time, an exchange once a minute of what was used too;
    /// what never ends makes no window quiet.
    private static func expectRest(of processes: [Int32]) async throws {
        var before = WakeUps(of: processes)
        var last = before
        var wakers: [String: Int] = [:]
        do {
            try await eventually("a quiet window", within: .seconds(180)) {
                try await Task.sleep(for: .seconds(1))
                let now = WakeUps(of: processes)
                let found = now.since(last)
                if found.isEmpty { return now.time - before.time >= Self.window }
                wakers = found
                (before, last) = (now, now)
                return false
            }
        } catch {
            Issue.record("last: \(wakers.map { "\($0): \($1)" }.sorted().joined(separator: ", "))")
            throw error
        }
    }

    @Test func `a drive that nobody uses holds little of its own program`() async throws {
        try await TestDrive.with { drive in
            let processes = [
                try #require(drive.mount.pid), try #require(drive.mount.worker),
            ]
            // The two had 30 MB mapped after they had begun, built for debugging, and 43 otherwise.
            try await eventually("its pages are given back", within: .seconds(20)) {
                try processes.map { try Self.programBytes(of: $0) }.reduce(0, +) < 12 << 20
            }
        }
    }

    /// How many bytes of its program's code a process has mapped.
    private static func programBytes(of process: Int32) throws -> Int {
        let maps = Shell.text(of: "/proc/\(process)/smaps")
        let lines = maps.split(separator: "\n")
        let code = try #require(
            lines.firstIndex { $0.contains(" r-xp ") && $0.hasSuffix("/cloudfs-mount") }
        )
        let resident = try #require(lines[code...].first { $0.hasPrefix("Rss:") })
        let count = try #require(resident.firstMatch(of: /\d+/)?.output)
        return try #require(Int(count)) << 10
    }
}
