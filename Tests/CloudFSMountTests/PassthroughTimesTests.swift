import CloudFSTestSupport
import Testing

/// Sizes and times of files while they are written, as all who look are told.
@Suite(.onMounts, .asRoot, .printingLogs, .notingIssues)
struct PassthroughTimesTests {
    /// `listed` is what a long listing tells: size, and times in nanoseconds.
    private static let prelude = """
        import subprocess
        def listed(name):
            lines = subprocess.run(
                ["ls", "-l", "--time-style=+%s%N", "."],
                capture_output=True, text=True, check=True).stdout.splitlines()
            fields = [line.split() for line in lines if line.endswith(" " + name)][0]
            return int(fields[4]), int(fields[5])
        def told(name, handle):
            one, other = os.stat(name), os.fstat(handle)
            assert one.st_mtime_ns == other.st_mtime_ns, (one, other)
            assert one.st_ctime_ns == other.st_ctime_ns, (one, other)
            assert one.st_size == other.st_size == listed(name)[0], (one, other, listed(name))
            assert one.st_mtime_ns == listed(name)[1], (one, listed(name))
            return one
        coarse = 5  # CLOCK_REALTIME_COARSE, by which the kernel may tell times
        def tick():
            now = time.clock_gettime_ns(coarse)
            while time.clock_gettime_ns(coarse) == now: pass

        """

    /// Lends a drive with a file that is here.
    private static func withFile(
        _ reads: Reads,
        body: (TestDrive) async throws -> Void
    ) async throws {
        let filling = Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        try await TestDrive.with(reads.arguments, prepare: filling) { drive in
            try await drive.run("cat file > /dev/null")
            try await eventually("it is here") { try await drive.state("file") == "local" }
            try await body(drive)
        }
    }

    private static func with(_ reads: Reads, _ program: String) async throws {
        try await withFile(reads) { drive in
            let disk = try await drive.run("stat -f -c %T '\(drive.mount.state)'")
            let isByKernel = reads == .byKernel && disk != "tmpfs"
            let known = "by_kernel = \(isByKernel ? "True" : "False")\n"
            try await drive.python(prelude + known + program)
            try await drive.drain()
            try await drive.run(
                """
                cmp file "$CLOUD/file"
                [ "$(stat -c '%s %Y' file)" = "$(stat -c '%s %Y' "$CLOUD/file")" ]
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `a listing beside a writer tells sizes and times as they are`(
        reads: Reads
    ) async throws {
        try await Self.with(
            reads,
            """
            handle = os.open("file", os.O_RDWR)
            last = told("file", handle)
            for number in range(10):
                tick()
                os.pwrite(handle, b"x" * 1000, 200000 + number * 1000)
                now = told("file", handle)
                assert now.st_size == 201000 + number * 1000, now
                assert now.st_mtime_ns > last.st_mtime_ns, (now, last)
                assert now.st_ctime_ns > last.st_ctime_ns, (now, last)
                last = now
            tick()
            os.ftruncate(handle, 100)
            now = told("file", handle)
            assert now.st_size == 100 and now.st_mtime_ns > last.st_mtime_ns, (now, last)
            os.close(handle)
            assert os.stat("file").st_size == listed("file")[0] == 100
            assert os.stat("file").st_mtime_ns == now.st_mtime_ns, "closing is no change"
            """
        )
    }

    /// Of a store that goes through the daemon this hears with `msync`, as POSIX has it.
    @Test(arguments: Reads.allCases)
    func `a store into a mapping shows in times, at once where the kernel does it`(
        reads: Reads
    ) async throws {
        try await Self.with(
            reads,
            """
            handle = os.open("file", os.O_RDWR)
            view = mmap.mmap(handle, 0)
            for number in range(3):
                os.utime("file", (1, 1))
                before = os.stat("file")
                assert before.st_mtime == 1, before
                tick()
                view[300 + number:304 + number] = b"late"
                if not by_kernel: view.flush()
                now = told("file", handle)
                assert now.st_mtime > 1 and now.st_ctime_ns > before.st_ctime_ns, (before, now)
                assert now.st_size == 200000, now
                # The page is clean then: the next store is noticed again.
                view.flush()
            view.close()
            os.close(handle)
            """
        )
    }

    /// Appends and overwrites, in a process of its own, until there is a file `stop` beside the
    /// drive, while this one looks at the file by its name and by a handle.
    private static let beside = """
        import os, time
        scratch = os.environ["SCRATCH"]
        handle = os.open("file", os.O_RDONLY)
        writer = os.fork()
        if writer == 0:
            size = 200000
            file = os.open("file", os.O_RDWR)
            while not os.path.exists(scratch + "/stop"):
                size += os.pwrite(file, b"x" * (1 + size % 5000), size)
                os.pwrite(file, b"y", size % 1000)
                time.sleep(0.0005)
            with open(scratch + "/size", "w") as said: said.write(str(size))
            os.close(file)
            os._exit(0)
        last, seen, grown, begun = os.stat("file"), 0, 0, False
        ended = False
        while not ended:
            # Once more after its end.
            ended = os.waitpid(writer, os.WNOHANG)[0] != 0
            for now in os.stat("file"), os.fstat(handle):
                assert now.st_size >= last.st_size, (seen, last, now)
                assert now.st_mtime_ns >= last.st_mtime_ns, (seen, last, now)
                assert now.st_ctime_ns >= last.st_ctime_ns, (seen, last, now)
                seen, grown = seen + 1, grown + (now.st_size > last.st_size)
                last = now
            if grown >= 100 and not begun: open(scratch + "/begun", "w").close(); begun = True
            time.sleep(0.001)
        size = int(open(scratch + "/size").read())
        assert last.st_size == os.stat("file").st_size == size, (last, size)
        assert begun, grown

        """

    @Test(arguments: Reads.allCases, [false, true])
    func `sizes and times never go back beside a writer, nor when a worker dies`(
        reads: Reads,
        dies: Bool
    ) async throws {
        try await Self.withFile(reads) { drive in
            let run = TestFolder("\(drive.folder)/run")
            try run.write("beside.py", Self.beside)
            let output = "\(run.path)/beside.out"
            let programs = try drive.start("exec python3 ../run/beside.py", output: output)
            try await eventually("they have begun, or failed") {
                programs.status != nil || run.exists("begun")
            }
            if dies { try await drive.loseWorker() }
            try run.write("stop", "")
            let status = try await programs.wait(within: .seconds(30))
            #expect(status == 0, "\(Shell.text(of: output))")
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }
}
