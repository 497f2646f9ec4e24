import CloudFSTestSupport
import Testing

/// What the system accepted, and the disk then did not.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: TestMount.isRoot, "mounting disks needs root")
)
struct LostWritesTests {
    private static let bytes = 4_000_000

    /// Lends a drive whose state directory is a file system on a disk that gets its room when it
    /// needs it, as thin volumes do: while `room/filler` is there, nothing new can be written.
    private static func withThinDisk(
        _ arguments: [String],
        _ body: (TestDrive) async throws -> Void
    ) async throws {
        let drives = ["--quiet-time", "500ms", "--free-floor", "0"] + arguments
        try await TestDrive.with(drives, ending: .killed) { drive in
            try await drive.mount.stop()
            let (room, state) = ("\(drive.folder)/room", drive.mount.state)
            try await shell(
                """
                mkdir "\(room)"
                mount -t tmpfs -o size=96m tmpfs "\(room)"
                truncate -s 256M "\(room)/disk"
                mkfs.ext4 -q -m 0 -O ^has_journal -E lazy_itable_init=0,nodiscard "\(room)/disk"
                mount -o loop "\(room)/disk" "\(state)"
                """
            )
            do {
                try await body(try await drive.again())
            } catch {
                try await drive.mount.kill9()
                try await shell("umount -l \"\(state)\"; umount -l \"\(room)\"")
                throw error
            }
            try await drive.mount.kill9()
            try await shell("umount -l \"\(state)\"; umount -l \"\(room)\"")
        }
    }

    private static func shell(_ script: String) async throws {
        let result = try await Shell.script("set -e\n" + script)
        try #require(result.status == 0, "\(result)")
    }

    /// Leaves room for nothing but what the catalog writes.
    private static func fill(_ drive: TestDrive) async throws {
        try await shell(
            """
            # What is in memory only finds no room later, either.
            sync -f "\(drive.mount.state)"
            ! cat /dev/zero > "\(drive.folder)/room/filler" 2> /dev/null
            truncate -s -1M "\(drive.folder)/room/filler"
            """
        )
    }

    /// Gives the disk room again, and has memory keep nothing of what it should have.
    private static func empty(_ drive: TestDrive) async throws {
        try await drive.python(emptying(drive) + "empty()")
    }

    /// Functions for that in Python.
    private static func emptying(_ drive: TestDrive) -> String {
        """
        def forget(path):
            file = os.open(path, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
        def contents():
            for folder, _, names in os.walk("\(drive.mount.state)/content"):
                yield from (os.path.join(folder, name) for name in names)
        def empty():
            os.unlink("\(drive.folder)/room/filler")
            for path in contents():
                forget(path)

        """
    }

    @Test(arguments: Reads.allCases)
    func `bytes that the disk lost are told of, and never sent`(reads: Reads) async throws {
        try await Self.withThinDisk(reads.arguments) { drive in
            let first = HydrationTests.bytes(10_000)
            try drive.cloud.write("document", first)
            try await eventually("it is listed") { try await drive.has(["document"]) }
            try await drive.run("cat document > /dev/null")
            try await eventually("it is here") { try await drive.state("document") == "local" }
            try await Self.fill(drive)
            try await drive.python(
                """
                file = os.open("document", os.O_RDWR)
                os.pwrite(file, b"new" * \(Self.bytes), 0)
                for turn in range(2):
                    try:
                        os.fsync(file)
                    except OSError as error:
                        assert error.errno in (errno.EIO, errno.ENOSPC), error
                    else:
                        raise AssertionError(f"the flush {turn} said that all is on the disk")
                fails(errno.EIO, os.close, file)
                """
            )
            try await Self.empty(drive)
            try await eventually("it is said what to do", within: .seconds(20)) {
                try await drive.run("getfattr --only-values -n user.cloudfs.error document || :")
                    .contains("save the file anew")
            }
            #expect(drive.cloud.bytes("document") == first)
            // Not with a start that knows nothing of it, either.
            try await drive.mount.kill9()
            let drive = try await drive.again()
            let drain = try await drive.cloudfs(["drain", "--wait", "--timeout", "5s"])
            #expect(drain.status != 0, "\(drain)")
            try await eventually("it is said again", within: .seconds(20)) {
                try await drive.run("getfattr --only-values -n user.cloudfs.error document || :")
                    .contains("save the file anew")
            }
            #expect(drive.cloud.bytes("document") == first)
            let anew = HydrationTests.bytes(20_000)
            let scratch = TestFolder("\(drive.folder)/run")
            try scratch.write("anew", anew)
            try await drive.run("cp \"$SCRATCH/anew\" anew && mv anew document")
            try await drive.drain()
            #expect(drive.cloud.bytes("document") == anew)
            let check = try await drive.cloudfs(["check"])
            #expect(check.status == 0, "\(check)")
        }
    }

    @Test func `a file that is emptied has nothing left of what the disk lost`() async throws {
        try await Self.withThinDisk([]) { drive in
            try await drive.write("document", "first")
            try await drive.drain()
            try await Self.fill(drive)
            try await drive.python(
                """
                file = os.open("document", os.O_RDWR)
                os.pwrite(file, b"new" * \(Self.bytes), 0)
                try:
                    os.fsync(file)
                except OSError: pass
                else: raise AssertionError("all is on the disk")
                os.unlink("\(drive.folder)/room/filler")
                os.ftruncate(file, 0)
                os.pwrite(file, b"second", 0)
                os.fsync(file)
                os.close(file)
                """
            )
            try await drive.drain()
            #expect(drive.cloud.bytes("document") == Array("second".utf8))
        }
    }

    @Test func `what was fetched and lost is fetched again`() async throws {
        try await Self.withThinDisk([]) { drive in
            let content = HydrationTests.bytes(Self.bytes)
            try drive.cloud.write("document", content)
            try await eventually("it is listed") { try await drive.has(["document"]) }
            try await Self.fill(drive)
            // The memory of the system takes it.
            try await drive.run("cmp document \"$CLOUD/document\"")
            try await eventually("it is known to be lost") {
                drive.mount.logText.contains("a complete file could not be stored")
            }
            #expect(try await drive.state("document") != "local")
            try await Self.empty(drive)
            try await drive.run("cmp document \"$CLOUD/document\"")
            try await eventually("it is here") {
                try await drive.run("cmp document \"$CLOUD/document\"")
                return try await drive.state("document") == "local"
            }
            try await drive.run("cmp document \"$CLOUD/document\"")
        }
    }

    @Test func `what was lost of a file that is not all here is fetched again`() async throws {
        try await Self.withThinDisk(["--hydration", "partial"]) { drive in
            try drive.cloud.write("document", HydrationTests.bytes(2 * Self.bytes))
            try await eventually("it is listed") { try await drive.has(["document"]) }
            try await Self.fill(drive)
            try await drive.python(
                Self.emptying(drive) + """
                    expected = open(cloud + "/document", "rb").read()
                    # It stays open, so that nobody but the system flushes it.
                    document = os.open("document", os.O_RDONLY)
                    def read(offset):
                        forget("document")
                        found = os.pread(document, 100_000, offset)
                        assert found == expected[offset:offset + 100_000], offset
                    # Backwards and with gaps, so that nothing is read ahead.
                    fetched = range(2 * \(Self.bytes) - 200_000, -1, -200_000)
                    for offset in fetched:
                        read(offset)
                    os.system('sync -f "\(drive.mount.state)"')
                    empty()
                    [content] = contents()
                    with open(content, "rb") as file:
                        lost = [offset for offset in fetched if
                                os.pread(file.fileno(), 100_000, offset)
                                != expected[offset:offset + 100_000]]
                    assert lost, "nothing was lost"
                    # Half of it was lost, and half never fetched.
                    read(lost[0] + 50_000)
                    for offset in range(0, 2 * \(Self.bytes), 100_000):
                        read(offset)
                    """
            )
        }
    }
}
