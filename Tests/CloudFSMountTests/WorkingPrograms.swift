import CloudFSTestSupport
import Testing

/// Programs that work in a drive until they are told to stop, and that fail if anything is not as
/// they left it.
struct WorkingPrograms {
    private let drive: TestDrive
    private let running: [(name: String, process: ChildProcess)]

    /// Starts them, and waits until each has done its work twice.
    ///
    /// - Parameter names: Which; all, if `nil`.
    static func start(in drive: TestDrive, _ names: Set<String>? = nil) async throws -> Self {
        let beside = TestFolder(drive.folder + "/run")
        var running: [(name: String, process: ChildProcess)] = []
        for (name, body) in bodies.sorted(by: { $0.key < $1.key })
        where names?.contains(name) ?? true {
            try beside.write("\(name).py", program(name, body))
            let process = try drive.start(
                "exec python3 \(drive.folder)/run/\(name).py",
                output: "\(drive.folder)/run/\(name).out"
            )
            running.append((name, process))
        }
        let started = running
        try await eventually("all have begun", within: .seconds(60)) {
            started.allSatisfy { $0.process.status != nil || beside.exists("\($0.name).begun") }
        }
        return WorkingPrograms(drive: drive, running: running)
    }

    /// Tells them to stop, and expects that nothing has failed.
    func finish() async throws {
        try TestFolder(drive.folder + "/run").write("stop", "")
        for (name, process) in running {
            let status = try await process.wait(within: .seconds(60))
            let said = Shell.text(of: "\(drive.folder)/run/\(name).out")
            #expect(status == 0, "\(name): \(said)")
        }
    }

    /// A program that goes on until there is a file `stop` beside the drive, and says that it has
    /// begun by one of its own.
    private static func program(_ name: String, _ body: String) -> String {
        """
        import errno, fcntl, hashlib, mmap, os, pathlib, sqlite3, subprocess, sys, time
        os.chdir(os.environ["DRIVE"])
        beside = pathlib.Path(os.environ["DRIVE"]).parent / "run"
        rounds = 0
        def goes_on():
            global rounds
            rounds += 1
            if rounds == 2: (beside / "\(name).begun").touch()
            return rounds < 3 or not (beside / "stop").exists()
        \(body)
        """
    }

    /// By name; `streams` needs a folder `many`, and `placeholders` a file `cloudy` of the cloud.
    private static let bodies = [
        "copies": """
        data = os.urandom(6_000_000)
        while goes_on():
            with open("big", "wb") as file: file.write(data)
            subprocess.run(["cp", "big", "copy"], check=True)
            if open("copy", "rb").read() != data:
                # Which of the two is wrong, by how much, and whether it stays so.
                for _ in range(3):
                    for name in "big", "copy":
                        there = open(name, "rb").read()
                        print(name, os.stat(name), len(there), there == data[:len(there)])
                    time.sleep(1)
                raise AssertionError(f"round {rounds}")
        """,
        "saves": """
        while goes_on():
            with open(".save", "w") as file:
                file.write(f"version {rounds}")
                file.flush()
                os.fsync(file.fileno())
            os.rename(".save", "document")
            assert open("document").read() == f"version {rounds}"
        """,
        "appends": """
        with open("log", "a") as log:
            while goes_on():
                log.write(f"line {rounds}\\n")
                log.flush()
        assert open("log").read() == "".join(f"line {n}\\n" for n in range(1, rounds))
        """,
        "transactions": """
        database = sqlite3.connect("base.sqlite")
        database.execute("CREATE TABLE n (v INTEGER)")
        while goes_on():
            with database: database.execute("INSERT INTO n VALUES (?)", (rounds,))
        assert database.execute("SELECT count(*) FROM n").fetchone()[0] == rounds - 1
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        """,
        "trees": """
        while goes_on():
            os.makedirs("tree/a/b")
            for n in range(10): pathlib.Path(f"tree/a/b/{n}").write_text(str(n))
            names = []
            with os.scandir("tree/a/b") as entries:
                for entry in entries: names.append(entry.name)
            assert sorted(names) == [str(n) for n in range(10)], names
            os.rename("tree/a", "tree/c")
            subprocess.run(["rm", "-r", "tree"], check=True)
        """,
        "mappings": """
        with open("mapped", "w+b") as file:
            file.truncate(65536)
            memory = mmap.mmap(file.fileno(), 65536)
            while goes_on():
                memory[rounds % 65536] = rounds % 251
                memory.flush()
                assert os.pread(file.fileno(), 1, rounds % 65536)[0] == rounds % 251
        """,
        "locks": """
        with open("locked", "w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            code = ("import fcntl\\nfile = open('locked', 'r+')\\n"
                    "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)")
            while goes_on():
                other = subprocess.run([sys.executable, "-c", code], capture_output=True)
                assert other.returncode == 1 and b"BlockingIOError" in other.stderr, other
        """,
        "unlinked": """
        file = open("temporary", "w+b")
        file.write(b"kept")
        file.flush()
        os.unlink("temporary")
        while goes_on():
            assert os.pread(file.fileno(), 9, 0) == b"kept"
            os.pwrite(file.fileno(), b"kept", 0)
        assert os.fstat(file.fileno()).st_nlink == 0
        """,
        "streams": """
        for n in range(300): open(f"many/{n}", "w").close()
        while goes_on():
            with os.scandir("many") as entries:
                assert len({entry.name for entry in entries}) == 300
            assert len(os.listdir("many")) == 300
        """,
        "placeholders": """
        expected = hashlib.sha256(bytes(range(250)) * 4000).hexdigest()
        while goes_on():
            assert hashlib.sha256(open("cloudy", "rb").read()).hexdigest() == expected
            try:
                os.setxattr("cloudy", "user.cloudfs.evict", b"1")
            except OSError as error:
                # The kernel tells of a close when it likes.
                assert error.errno == errno.EBUSY
        """,
    ]
}
