import CloudFSTestSupport
import Testing

/// What a program asks for happens once, also when the worker dies between doing and answering.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RepeatedRequestTests {
    /// What a program does, and which answer the worker is about to give when it dies.
    struct Request: Sendable, CustomTestStringConvertible {
        var operation: String
        var program: String
        /// How many such answers are given before.
        var skipping = 0

        var testDescription: String { operation }
    }

    static let requests = [
        Request(
            operation: "mkdir",
            program: """
                os.mkdir("made", 0o750)
                assert os.stat("made").st_mode & 0o777 == 0o750
                fails(errno.EEXIST, os.mkdir, "made")
                """
        ),
        Request(
            operation: "mknod",
            program: """
                os.mkfifo("made")
                assert stat.S_ISFIFO(os.stat("made").st_mode)
                """
        ),
        Request(
            operation: "symlink",
            program: """
                os.symlink("target", "made")
                assert os.readlink("made") == "target"
                """
        ),
        Request(
            operation: "link",
            program: """
                fails(errno.EPERM, os.link, "file", "made")
                assert not os.path.exists("made")
                """
        ),
        Request(
            operation: "create",
            program: """
                made = os.open("made", os.O_CREAT | os.O_EXCL | os.O_RDWR)
                assert os.write(made, b"text") == 4 and os.pread(made, 9, 0) == b"text"
                os.close(made)
                assert open("made").read() == "text"
                """
        ),
        Request(
            operation: "unlink",
            program: """
                os.unlink("file")
                fails(errno.ENOENT, os.unlink, "file")
                assert sorted(os.listdir(".")) == ["folder", "other"]
                """
        ),
        Request(
            operation: "rmdir",
            program: """
                assert os.listdir("folder") == []
                os.rmdir("folder")
                assert sorted(os.listdir(".")) == ["file", "other"]
                """
        ),
        Request(
            operation: "rename",
            program: """
                os.rename("file", "other")
                assert open("other").read() == "one" and not os.path.exists("file")
                os.rename("other", "folder/in")
                assert open("folder/in").read() == "one"
                """
        ),
        Request(
            operation: "rename",
            program: """
                libc.renameat2(-100, b"file", -100, b"new", 1)
                assert open("new").read() == "one" and not os.path.exists("file")
                """
        ),
        Request(
            operation: "rename",
            program: """
                assert libc.renameat2(-100, b"file", -100, b"other", 2) == 0
                assert open("file").read() == "two" and open("other").read() == "one"
                """
        ),
        Request(
            operation: "setxattr",
            program: """
                os.setxattr("file", "user.a", b"1", os.XATTR_CREATE)
                assert os.getxattr("file", "user.a") == b"1"
                fails(errno.EEXIST, os.setxattr, "file", "user.a", b"2", os.XATTR_CREATE)
                """
        ),
        Request(
            operation: "removexattr",
            program: """
                os.setxattr("file", "user.a", b"1")
                os.removexattr("file", "user.a")
                fails(errno.ENODATA, os.removexattr, "file", "user.a")
                """
        ),
        Request(
            operation: "setattr",
            program: """
                os.chmod("file", 0o601)
                os.truncate("file", 2)
                os.utime("file", (5, 6))
                status = os.stat("file")
                assert (status.st_mode & 0o777, status.st_size, status.st_mtime) == (0o601, 2, 6)
                """
        ),
        Request(
            operation: "open",
            program: """
                with open("file", "r+") as file:
                    assert file.read() == "one"
                    file.write("+")
                assert open("file").read() == "one+"
                assert handles() == 0
                """
        ),
        Request(
            operation: "open",
            program: """
                with open("file", "w") as file: file.write("new")
                assert open("file").read() == "new"
                """
        ),
        Request(
            operation: "opendir",
            program: """
                assert sorted(os.listdir(".")) == ["file", "folder", "other"]
                """
        ),
        Request(
            operation: "readdirplus",
            program: """
                assert sorted(os.listdir(".")) == ["file", "folder", "other"]
                """
        ),
        Request(
            operation: "write",
            program: """
                with open("file", "a") as file: file.write("-end")
                with open("file", "a") as file: file.write("!")
                assert open("file").read() == "one-end!"
                """
        ),
        Request(
            operation: "write",
            program: """
                with open("file", "r+") as file: file.write("O")
                assert open("file").read() == "One"
                """
        ),
        Request(
            operation: "fallocate",
            program: """
                with open("file", "r+") as file: os.posix_fallocate(file.fileno(), 0, 100)
                assert os.stat("file").st_size == 100
                """
        ),
        Request(
            operation: "copy_file_range",
            program: """
                with open("file", "r+") as source, open("other", "r+") as target:
                    assert os.copy_file_range(source.fileno(), target.fileno(), 3, 0, 2) == 3
                assert open("file").read() == "one" and open("other").read() == "twone"
                """
        ),
        Request(
            operation: "flush",
            program: """
                with open("file", "a") as file: file.write("1")
                assert os.stat("file").st_size == 4
                """
        ),
        Request(
            operation: "fsync",
            program: """
                with open("file", "a") as file:
                    file.write("1")
                    file.flush()
                    os.fsync(file.fileno())
                assert open("file").read() == "one1"
                """
        ),
        Request(
            operation: "release",
            program: """
                open("file").close()
                with open("file", "a") as file: file.write("1")
                assert open("file").read() == "one1"
                """
        ),
        Request(
            operation: "setlk",
            program: """
                with open("file", "r+") as file:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
                    assert other("lockf") == errno.EAGAIN
                    fcntl.lockf(file, fcntl.LOCK_UN, 10, 0)
                    assert other("lockf") == 0
                """
        ),
        Request(
            operation: "setlk",
            program: """
                with open("file", "r+") as file:
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)
                    fcntl.lockf(file, fcntl.LOCK_UN, 10, 0)
                    assert other("lockf") == 0
                """,
            skipping: 1
        ),
        Request(
            operation: "flock",
            program: """
                with open("file", "r+") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    assert other("flock") == errno.EAGAIN
                assert other("flock") == 0
                """
        ),
        Request(
            operation: "lookup",
            program: """
                fails(errno.ENOENT, os.stat, "absent")
                assert os.stat("file").st_size == 3
                """
        ),
        Request(
            operation: "getxattr",
            program: """
                os.setxattr("file", "user.a", b"1")
                assert os.getxattr("file", "user.a") == b"1"
                """
        ),
        Request(
            operation: "read",
            program: """
                assert open("file").read() == "one"
                """
        ),
        Request(operation: "statfs", program: "assert os.statvfs('.').f_bsize == 4096"),
    ]

    /// What the programs use.
    private static let prelude = """
        import ctypes, fcntl, stat, subprocess, sys
        libc = ctypes.CDLL(None, use_errno=True)
        def other(kind):
            "What another process gets that tries the lock."
            code = ("import fcntl, sys\\nwith open('file', 'r+') as file:\\n try: "
                    + ("fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 0)"
                       if kind == "lockf" else "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)")
                    + "\\n except OSError as error: sys.exit(error.errno)")
            return subprocess.run([sys.executable, "-c", code]).returncode
        def handles():
            "How many handles of the drive this process has."
            return sum(os.readlink(f"/proc/self/fd/{name}").startswith(os.getcwd() + "/")
                       for name in os.listdir("/proc/self/fd")
                       if os.path.islink(f"/proc/self/fd/{name}"))

        """

    @Test(arguments: requests, [["--no-passthrough"], []])
    func `it happens once`(request: Request, arguments: [String]) async throws {
        var options = TestMount.Options(arguments)
        let point = "answer.\(request.operation)"
        options.environment = ["CLOUDFS_FAULTS": "\(point)=crash@\(request.skipping)"]
        let filling = Filling { cloud in
            try cloud.write("file", "one")
            try cloud.write("other", "two")
            try cloud.makeFolder("folder")
        }
        try await TestDrive.with(options: options, prepare: filling) { drive in
            let first = drive.mount.worker
            try await drive.python(Self.prelude + request.program)
            // With passthrough the kernel reads and writes by itself.
            let isKernels = ["write", "read", "fallocate"].contains(request.operation)
            if !isKernels || !arguments.isEmpty {
                #expect(drive.mount.logText.contains("the fault point \(point) is reached"))
                try await eventually("another worker serves") {
                    drive.mount.worker != nil && drive.mount.worker != first
                }
            }
            try await drive.drain()
            #expect(try await drive.run("cloudfs check").contains("nothing"))
        }
    }
}
