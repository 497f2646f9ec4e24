import CloudFSTestSupport
import Glibc
import Testing

/// `cloudfs restart` after another version was installed in the place of the one that runs.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct UpgradeTests {
    /// Each goes on until there is a file `stop`, and says that it has begun by one of its own.
    private static let program = """
        import fcntl, mmap, os, pathlib, sqlite3, subprocess, sys
        kind, beside = sys.argv[1], pathlib.Path(os.environ["SCRATCH"])
        rounds = 0
        def goes_on():
            global rounds
            rounds += 1
            if rounds == 2: (beside / (kind + ".begun")).touch()
            return rounds < 3 or not (beside / "stop").exists()
        if kind == "copies":
            data = os.urandom(2_000_000)
            while goes_on():
                with open("big", "wb") as file: file.write(data)
                subprocess.run(["cp", "big", "copy"], check=True)
                assert open("copy", "rb").read() == data
        if kind == "saves":
            while goes_on():
                with open(".save", "w") as file:
                    file.write(f"version {rounds}")
                    file.flush()
                    os.fsync(file.fileno())
                os.rename(".save", "document")
                assert open("document").read() == f"version {rounds}"
        if kind == "appends":
            with open("log", "a") as log:
                while goes_on():
                    log.write(f"line {rounds}\\n")
                    log.flush()
            assert open("log").read() == "".join(f"line {n}\\n" for n in range(1, rounds))
        if kind == "transactions":
            database = sqlite3.connect("base.sqlite")
            database.execute("CREATE TABLE n (v INTEGER)")
            while goes_on():
                with database: database.execute("INSERT INTO n VALUES (?)", (rounds,))
            assert database.execute("SELECT count(*) FROM n").fetchone()[0] == rounds - 1
        if kind == "locks":
            code = ("import fcntl\\nfile = open('locked', 'r+')\\n"
                    "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)")
            with open("locked", "w") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)
                while goes_on():
                    other = subprocess.run([sys.executable, "-c", code], capture_output=True)
                    assert other.returncode == 1 and b"BlockingIOError" in other.stderr, other
        if kind == "mappings":
            with open("mapped", "w+b") as file:
                file.truncate(65536)
                memory = mmap.mmap(file.fileno(), 65536)
                while goes_on():
                    memory[rounds % 65536] = rounds % 251
                    memory.flush()
                    assert os.pread(file.fileno(), 1, rounds % 65536)[0] == rounds % 251
        """

    private static let kinds = [
        "copies", "saves", "appends", "transactions", "locks", "mappings",
    ]

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
            let scratch = TestFolder("\(drive.folder)/run")
            try scratch.write("work.py", Self.program)
            var running: [(kind: String, process: ChildProcess)] = []
            for kind in Self.kinds {
                let process = try drive.start(
                    "exec /usr/bin/python3 \"$SCRATCH/work.py\" \(kind)",
                    output: "\(drive.folder)/run/\(kind).out"
                )
                running.append((kind, process))
            }
            try await eventually("all have begun", within: .seconds(60)) {
                running.allSatisfy { program in
                    program.process.status != nil || scratch.exists("\(program.kind).begun")
                }
            }
            try await drive.run(
                "\(copy) \(installed).new; mv \(installed).new \(installed)",
                within: .seconds(60)
            )
            let new = try scratch.status("cloudfs-mount").inode
            try #require(new != old)
            try await drive.mustDo(["restart"])
            let worker = try Self.worker(of: daemon.pid)
            #expect(try Self.programFile(of: worker) == new)
            #expect(try await drive.run("cloudfs status").contains("pid \(daemon.pid),"))
            try scratch.write("stop", "")
            for (kind, process) in running {
                let status = try await process.wait(within: .seconds(60))
                let said = Shell.text(of: "\(drive.folder)/run/\(kind).out")
                #expect(status == 0, "\(kind): \(said)")
            }
            #expect(try Self.worker(of: daemon.pid) == worker)
            try await drive.drain()
            daemon.send(SIGTERM)
            #expect(try await daemon.wait(within: .seconds(20)) == 0)
        }
    }
}
