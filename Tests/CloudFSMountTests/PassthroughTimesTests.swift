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

    private static func with(_ reads: Reads, _ program: String) async throws {
        try await TestDrive.with(
            reads.arguments,
            prepare: Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        ) { drive in
            try await drive.run("cat file > /dev/null")
            try await eventually("it is here") { try await drive.state("file") == "local" }
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
}
