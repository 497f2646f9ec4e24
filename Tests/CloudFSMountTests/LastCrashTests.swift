import CloudFSTestSupport
import Glibc
import Testing

/// What programs get that are at work when a drive ends because its workers do nothing but crash.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct LastCrashTests {
    /// Each says by a file that it has begun, and ends with the number of the error that it gets.
    private static let program = """
        import fcntl, mmap, os, pathlib, sys, time
        kind = sys.argv[1]
        def begin(): pathlib.Path(os.environ["SCRATCH"], kind + ".begun").touch()
        try:
            if kind == "holder":
                file = open("mine", "r+")
                fcntl.lockf(file, fcntl.LOCK_EX)
                fcntl.flock(file, fcntl.LOCK_EX)
                begin()
                while True:
                    os.fstatvfs(file.fileno())
                    time.sleep(0.01)
            if kind == "reader":
                file = os.open("absent", os.O_RDONLY)
                begin()
                os.pread(file, 4096, 0)
            if kind == "mapping":
                file = os.open("mapped", os.O_RDWR)
                memory = mmap.mmap(file, 200000)
                begin()
                memory[100000] = 1
            if kind == "writer":
                file = os.open("written", os.O_CREAT | os.O_RDWR)
                begin()
                while True:
                    os.pwrite(file, b"text", 0)
                    os.fsync(file)
            if kind == "fcntl":
                file = open("mine", "r+")
                begin()
                fcntl.lockf(file, fcntl.LOCK_EX)
            if kind == "flock":
                file = open("mine", "r+")
                begin()
                fcntl.flock(file, fcntl.LOCK_EX)
            if kind == "folder":
                os.chdir("folder")
                begin()
                while True:
                    os.listdir(".")
                    time.sleep(0.01)
            if kind == "maker":
                os.chdir("folder")
                begin()
                while True:
                    open("made", "w").close()
                    os.rename("made", "moved")
        except OSError as error:
            print(error)
            sys.exit(error.errno)
        """

    /// A request that is under way is aborted; one that comes later finds nobody.
    private static let either = [ECONNABORTED, ENOTCONN]

    /// How each of them may end.
    private static let endings: [(kind: String, statuses: [Int32])] = [
        ("holder", either), ("reader", either), ("mapping", [128 + SIGBUS]), ("writer", either),
        ("fcntl", [ECONNABORTED]), ("flock", [ECONNABORTED]), ("folder", either),
        ("maker", either),
    ]

    private static func filled(_ cloud: TestFolder) throws {
        try cloud.write("absent", HydrationTests.bytes(200_000))
        try cloud.write("mapped", HydrationTests.bytes(200_000))
        try cloud.makeFolder("folder")
    }

    @Test(arguments: [["--no-passthrough"], []])
    func `whatever a program is doing when a drive ends for good, it does not hang`(
        arguments: [String]
    ) async throws {
        try await TestDrive.with(
            arguments,
            ending: .killed,
            slots: 2,
            prepare: Filling(Self.filled)
        ) { drive in
            try await drive.run("echo local > mine; ls -l . folder")
            try await drive.drain()
            try await drive.mount.stop()
            let drive = try await drive.again(
                arguments + TestMount.Options.hanging + ["--read-timeout", "1h"]
            )
            let scratch = TestFolder("\(drive.folder)/run")
            try scratch.write("last.py", Self.program)
            var running: [String: ChildProcess] = [:]
            for (kind, _) in Self.endings {
                running[kind] = try drive.start(
                    "exec /usr/bin/python3 \"$SCRATCH/last.py\" \(kind)",
                    output: "\(drive.folder)/run/\(kind).out"
                )
                try await eventually("\(kind) has begun") { scratch.exists("\(kind).begun") }
            }
            for kind in ["reader", "mapping", "fcntl", "flock"] {
                let waiter = try #require(running[kind])
                try await eventually("\(kind) waits") { waiter.isAsleep }
            }
            for _ in 1...4 { try await drive.loseWorker() }
            for (kind, program) in running {
                #expect(program.status == nil, "\(kind) ended before the drive did")
            }
            #expect(kill(try #require(drive.mount.worker), SIGKILL) == 0)
            #expect(try await drive.mount.wait() == 1)
            #expect(MountEntry.at(drive.path).isEmpty)
            for (kind, statuses) in Self.endings {
                let status = try await running[kind]?.wait(within: .seconds(10))
                let said = Shell.text(of: "\(drive.folder)/run/\(kind).out")
                #expect(statuses.contains(status ?? 0), "\(kind): \(status ?? 0), \(said)")
            }
        }
    }
}
