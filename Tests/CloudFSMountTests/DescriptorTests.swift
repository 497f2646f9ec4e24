import CloudFSTestSupport
import Testing

/// What a program that has a file open may rely on, whatever becomes of the file meanwhile.
@Suite(.onMounts, .asRoot, .printingLogs, .notingIssues)
struct DescriptorTests {
    private static let old = HydrationTests.bytes(300_000, seed: 5)

    private static func with(
        _ reads: Reads,
        _ arguments: [String] = [],
        body: (TestDrive) async throws -> Void
    ) async throws {
        let filling = Filling {
            try $0.write("file", old)
            try $0.write("folder/file", old)
            // A cloud without anything may be one that is not there.
            try $0.write("other", "other")
        }
        try await TestDrive.with(reads.arguments + arguments, prepare: filling, body: body)
    }

    /// Such a page has its place, and the descriptor's writes have theirs.
    @Test(arguments: Reads.allCases, [false, true])
    func `what is stored into a mapping stays in its place, also of a file opened to append`(
        reads: Reads,
        isHere: Bool
    ) async throws {
        try await Self.with(reads) { drive in
            if isHere { try await drive.run("cat file > /dev/null") }
            try await drive.python(
                """
                old = open(cloud + "/file", "rb").read()
                file = os.open("file", os.O_RDWR | os.O_APPEND)
                mapping = mmap.mmap(file, 0)
                mapping[5:11] = b"stored"
                mapping.flush()
                os.write(file, b"appended")
                mapping.close()
                os.close(file)
                new = old[:5] + b"stored" + old[11:] + b"appended"
                assert open("file", "rb").read() == new
                open(os.environ["SCRATCH"] + "/new", "wb").write(new)
                """
            )
            try await eventually("the cloud has it", within: .seconds(20)) {
                try await drive.run("cmp -s \"$SCRATCH/new\" \"$CLOUD/file\" && echo same || true")
                    .contains("same")
            }
        }
    }

    /// `fcntl` changes it; only through the daemon, as the kernel opens the content as it was.
    @Test func `a descriptor that appends no more writes where it is told`() async throws {
        try await Self.with(.throughDaemon) { drive in
            try await drive.python(
                """
                import fcntl
                file = os.open("other", os.O_RDWR | os.O_APPEND)
                fcntl.fcntl(file, fcntl.F_SETFL, 0)
                os.pwrite(file, b"OT", 0)
                os.close(file)
                assert open("other", "rb").read() == b"OTher"
                """
            )
        }
    }

    @Test(arguments: Reads.allCases, ["file", "folder/file"])
    func `what is written after the cloud lost the file is sent as a new one`(
        reads: Reads,
        path: String
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.run("cat \(path) > /dev/null")
            let folder = path == "file" ? "" : "folder"
            let removed = folder.isEmpty ? "file" : folder
            try await drive.python(
                """
                import shutil, subprocess
                file = os.open("\(path)", os.O_RDWR)
                (shutil.rmtree if "\(folder)" else os.unlink)(cloud + "/\(removed)")
                subprocess.run(["cloudfs", "refresh", "."], check=True)
                os.pwrite(file, b"important", 100)
                os.fsync(file)
                os.close(file)
                """
            )
            try await eventually("the edit is in the cloud", within: .seconds(20)) {
                guard let bytes = drive.cloud.bytes(path) else { return false }
                return bytes.count == Self.old.count
                    && bytes[100..<109].elementsEqual("important".utf8)
            }
            try await drive.run("cmp \(path) \"$CLOUD/\(path)\"")
        }
    }

    @Test(arguments: Reads.allCases, ["file", "folder/file"])
    func `a file that the cloud lost goes with its last close if nothing was written`(
        reads: Reads,
        path: String
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.run("cat \(path) > /dev/null")
            let removed = path == "file" ? "file" : "folder"
            try await drive.python(
                """
                import subprocess
                # Of what came right before nobody can tell whether it is written on.
                time.sleep(0.1)
                file = os.open("\(path)", os.O_RDWR)
                subprocess.run(["rm", "-r", cloud + "/\(removed)"], check=True)
                subprocess.run(["cloudfs", "refresh", "."], check=True)
                assert os.pread(file, 1 << 20, 0) == open("\(path)", "rb").read()
                os.close(file)
                """
            )
            try await eventually("it is gone", within: .seconds(20)) {
                try await !drive.names().contains(removed)
            }
            #expect(drive.cloud.bytes(path) == nil)
        }
    }

    /// Whoever has a file of it open would keep from the cloud what exists here only.
    @Test(arguments: Reads.allCases)
    func `what is made in a folder that the cloud lost is sent though a file of it is open`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.run("cat folder/file > /dev/null")
            try await drive.python(
                """
                import shutil, subprocess
                file = os.open("folder/file", os.O_RDWR)
                shutil.rmtree(cloud + "/folder")
                subprocess.run(["cloudfs", "refresh", "."], check=True)
                open("folder/new", "w").write("new")
                limit = time.monotonic() + 20
                while not os.path.exists(cloud + "/folder/new"):
                    assert time.monotonic() < limit, "it is not sent"
                    time.sleep(0.05)
                os.close(file)
                """
            )
            try await drive.drain()
            #expect(drive.cloud.bytes("folder/new") == Array("new".utf8))
        }
    }

    @Test(arguments: Reads.allCases)
    func `what was removed while it was open is read to its end`(reads: Reads) async throws {
        let arguments = ["--hydration", "partial", "--quiet-time", "100ms"]
        try await Self.with(reads, arguments) { drive in
            try await drive.python(
                """
                old = open(cloud + "/file", "rb").read()
                file = os.open("file", os.O_RDONLY)
                assert os.pread(file, 100, 0) == old[:100]
                os.unlink("file")
                while os.path.exists(cloud + "/file"): time.sleep(0.01)
                assert os.pread(file, 1 << 20, 0) == old
                os.close(file)
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `O_TRUNC empties what is opened to be read`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                file = os.open("file", os.O_RDONLY | os.O_TRUNC)
                assert os.fstat(file).st_size == 0 and os.read(file, 10) == b""
                os.close(file)
                assert os.stat("file").st_size == 0
                """
            )
            try await eventually("the cloud has it") { drive.cloud.bytes("file") == [] }
        }
    }
}
