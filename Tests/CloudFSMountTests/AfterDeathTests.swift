import CloudFSTestSupport
import Glibc
import Testing

/// What is as before when a worker has died, or all processes of a drive.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct AfterDeathTests {
    /// Takes a lock, says so by a file, and with `holds` keeps it until it is killed.
    private static let locker = """
        import fcntl, os, pathlib, signal, struct, sys
        how, name, holds = sys.argv[1], sys.argv[2], len(sys.argv) > 3
        file = open("file", "r+")
        pathlib.Path(os.environ["SCRATCH"], name + ".opened").touch()
        if how == "fcntl": fcntl.lockf(file, fcntl.LOCK_EX)
        if how == "flock": fcntl.flock(file, fcntl.LOCK_EX)
        if how == "open":
            # F_OFD_SETLKW
            fcntl.fcntl(file, 38, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        with open(os.environ["SCRATCH"] + "/locked", "a") as log: log.write(name + " ")
        if holds: signal.pause()
        """

    /// Of a process, of an open file, and of BSD.
    @Test(arguments: ["fcntl", "open", "flock"])
    func `who waits for a lock gets it from the next worker, once`(how: String) async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            let scratch = TestFolder("\(drive.folder)/run")
            try scratch.write("lock.py", Self.locker)
            func start(_ name: String, holds: Bool = false) throws -> ChildProcess {
                try drive.start(
                    "exec /usr/bin/python3 \"$SCRATCH/lock.py\" \(how) \(name)"
                        + (holds ? " holds" : ""),
                    output: "\(drive.folder)/run/\(name).out"
                )
            }
            let holder = try start("holder", holds: true)
            try await eventually("it is locked") { scratch.text("locked") == "holder " }
            let waiter = try start("waiter")
            try await eventually("somebody waits") {
                scratch.exists("waiter.opened") && waiter.isAsleep
            }
            for _ in 1...2 { try await drive.loseWorker() }
            #expect(waiter.status == nil)
            #expect(scratch.text("locked") == "holder ")
            holder.send(SIGKILL)
            let status = try await waiter.wait(within: .seconds(5))
            #expect(status == 0, "\(Shell.text(of: "\(drive.folder)/run/waiter.out"))")
            #expect(scratch.text("locked") == "holder waiter ")
            // It has ended: nothing of its lock is left.
            let next = try start("next")
            #expect(try await next.wait(within: .seconds(5)) == 0)
        }
    }

    /// So that `ps` tells whose process it is.
    @Test func `a worker that took over shows the command line of its mount, too`() async throws {
        try await TestDrive.with { drive in
            let first = try #require(drive.mount.worker)
            try await drive.loseWorker()
            let worker = try #require(drive.mount.worker)
            try #require(worker != first)
            let words = Shell.text(of: "/proc/\(worker)/cmdline").split(separator: "\0")
            #expect(words.first == "cloudfs-mount")
            #expect(Array(words.suffix(2)) == [drive.mount.container[...], drive.path[...]])
        }
    }

    @Test(arguments: [("mounts", Int32(0)), ("status", Int32(1)), ("unmount", Int32(0))])
    func `a mount that has lost all of its processes is taken away by any command`(
        command: String,
        status: Int32
    ) async throws {
        try await TestDrive.with(ending: .killed) { drive in
            try await drive.run("echo text > file")
            try await drive.mount.kill9()
            try await eventually("the mount is dead") {
                let result = try await Shell.run(["stat", "-f", drive.path])
                return result.errors.contains("Transport endpoint")
            }
            // Which lists all drives takes none.
            let words = command == "mounts" ? [command] : [command, drive.path]
            let said = try await Shell.run(
                [TestMount.binary("cloudfs")] + words,
                environment: drive.environment
            )
            #expect(said.status == status, "\(said)")
            if command != "unmount" {
                #expect(said.errors.contains("had lost its daemon, and is detached"), "\(said)")
            }
            #expect(MountEntry.at(drive.path).isEmpty)
            let again = try await drive.again()
            #expect(try await again.text("file") == "text\n")
        }
    }
}
