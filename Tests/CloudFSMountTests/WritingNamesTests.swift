import CloudFSTestSupport
import Testing

/// Names that are made, moved and removed.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct WritingNamesTests {
    static func fill(_ cloud: TestFolder) throws {
        try cloud.write("a", "content of a")
        try cloud.write("b", "content of b")
        try cloud.write("full/inside", "inside")
        try cloud.makeFolder("empty")
    }

    @Test func `rename replaces a file at once`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                held = os.open("b", os.O_RDONLY)
                number = os.stat("a").st_ino
                os.rename("a", "b")
                assert open("b").read() == "content of a"
                assert os.stat("b").st_ino == number
                assert os.read(held, 100) == b"content of b"
                fails(errno.ENOENT, os.stat, "a")
                """
            )
            try await drive.untilCloudHas("b", "content of a")
            try await eventually("the old name is gone") { !drive.cloud.exists("a") }
        }
    }

    @Test func `rename of folders replaces empty ones only`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                fails(errno.ENOTEMPTY, os.rename, "empty", "full")
                fails(errno.ENOTDIR, os.rename, "full", "a")
                fails(errno.EISDIR, os.rename, "a", "empty")
                fails(errno.EINVAL, os.rename, "full", "full/below")
                fails(errno.ENOENT, os.rename, "none", "a")
                os.rename("full", "empty")
                assert open("empty/inside").read() == "inside"
                """
            )
            try await eventually("the cloud followed") {
                drive.cloud.text("empty/inside") == "inside" && !drive.cloud.exists("full")
            }
        }
    }

    @Test func `RENAME_NOREPLACE refuses with EEXIST what is there`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                fails(errno.EEXIST, renameat2, "a", "b", 1)
                assert open("a").read() == "content of a"
                assert open("b").read() == "content of b"
                renameat2("a", "c", 1)
                assert open("c").read() == "content of a"
                """
            )
        }
    }

    @Test func `RENAME_EXCHANGE swaps two items, also of different kinds`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                numbers = os.stat("a").st_ino, os.stat("full").st_ino
                renameat2("a", "b", 2)
                assert open("a").read() == "content of b"
                renameat2("b", "full", 2)
                assert open("full").read() == "content of a"
                assert open("b/inside").read() == "inside"
                assert (os.stat("full").st_ino, os.stat("b").st_ino) == numbers
                fails(errno.ENOENT, renameat2, "a", "none", 2)
                fails(errno.EINVAL, renameat2, "a", "empty", 3)
                """
            )
            try await eventually("the cloud followed") {
                drive.cloud.text("full") == "content of a"
                    && drive.cloud.text("b/inside") == "inside"
                    && drive.cloud.text("a") == "content of b"
            }
        }
    }

    @Test func `mkdir, rmdir and unlink refuse as POSIX says`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                fails(errno.EEXIST, os.mkdir, "a")
                fails(errno.EEXIST, os.mkdir, "empty")
                fails(errno.ENOENT, os.mkdir, "none/below")
                fails(errno.ENOTDIR, os.mkdir, "a/below")
                fails(errno.ENOTEMPTY, os.rmdir, "full")
                fails(errno.ENOTDIR, os.rmdir, "a")
                fails(errno.EISDIR, os.unlink, "empty")
                fails(errno.ENOENT, os.unlink, "none")
                fails(errno.EEXIST, os.open, "a", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                os.rmdir("empty")
                fails(errno.ENOENT, os.stat, "empty")
                """
            )
            try await eventually("the cloud followed") { !drive.cloud.exists("empty") }
        }
    }

    @Test func `names of 255 bytes are kept and longer ones refused with ENAMETOOLONG`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                long = "ü" * 127 + "x"
                open(long, "w").write("text")
                assert os.listdir(".") == [long]
                fails(errno.ENAMETOOLONG, os.mkdir, long + "x")
                fails(errno.ENAMETOOLONG, os.stat, long + "x")
                assert os.statvfs(".").f_namemax == 255
                """
            )
            let name = String(repeating: "ü", count: 127) + "x"
            try await drive.untilCloudHas(name, "text")
        }
    }

    @Test func `names differ by case and by normal form`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                names = ["file", "FILE", "\\u00e9", "e\\u0301", "*?", "back\\\\slash", " ", "-rf"]
                for name in names:
                    open(name, "w").write(name)
                assert sorted(os.listdir(".")) == sorted(names)
                for name in names:
                    assert open(name).read() == name
                """
            )
            for name in ["file", "FILE", "\u{e9}", "e\u{301}", "*?", "back\\slash", " ", "-rf"] {
                try await drive.untilCloudHas(name, name)
            }
        }
    }

    @Test func `symlinks keep their target as it is given`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                os.symlink("../a b/ü", "link")
                os.symlink("full/inside", "through")
                assert os.readlink("link") == "../a b/ü"
                assert os.lstat("link").st_size == len("../a b/ü".encode())
                assert open("through").read() == "inside"
                fails(errno.EEXIST, os.symlink, "x", "a")
                fails(errno.EINVAL, os.readlink, "a")
                os.symlink("loop", "loop")
                fails(errno.ELOOP, open, "loop")
                os.rename("through", "moved")
                os.unlink("link")
                """
            )
        }
    }

    @Test(.onMounts)
    func `hard links and device nodes are refused with EPERM, fifos and sockets stay here`()
        async throws
    {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.python(
                """
                import socket
                fails(errno.EPERM, os.link, "a", "hard")
                fails(errno.EPERM, os.mknod, "device", stat.S_IFBLK | 0o600, os.makedev(7, 0))
                os.mkfifo("fifo")
                assert stat.S_ISFIFO(os.stat("fifo").st_mode)
                reader = os.open("fifo", os.O_RDONLY | os.O_NONBLOCK)
                writer = os.open("fifo", os.O_WRONLY)
                os.write(writer, b"through")
                assert os.read(reader, 10) == b"through"
                server = socket.socket(socket.AF_UNIX)
                server.bind("socket")
                assert stat.S_ISSOCK(os.stat("socket").st_mode)
                open("last", "w").close()
                """
            )
            try await drive.untilCloudHas("last", "")
            try await drive.drain()
            #expect(!drive.cloud.exists("fifo") && !drive.cloud.exists("socket"))
        }
    }

    @Test func `what has lost its name is there for who uses it`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                os.mkfifo("fifo")
                pipe = os.open("fifo", os.O_RDWR)
                os.unlink("fifo")
                os.write(pipe, b"through")
                assert os.read(pipe, 10) == b"through"
                os.fchmod(pipe, 0o640)
                facts = os.fstat(pipe)
                assert (facts.st_nlink, stat.S_IMODE(facts.st_mode)) == (0, 0o640), facts
                os.mkdir("folder")
                os.mkdir("other")
                working = os.open("folder", os.O_RDONLY)
                replaced = os.open("other", os.O_RDONLY)
                number = os.fstat(working).st_ino
                os.chdir(working)
                os.rename("../folder", "../other")
                os.rmdir("../other")
                facts = os.stat(".")
                assert (facts.st_nlink, facts.st_ino) == (0, number), facts
                assert os.fstat(replaced).st_nlink == 0
                fails(errno.ENOENT, open, "file", "w")
                assert os.listdir(working) == []
                """
            )
        }
    }

    @Test func `a tree is removed while it is being listed`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<600 { try cloud.write("tree/\(number % 7)/\(number)", "x") }
            }
        ) { drive in
            try await eventually("all is listed") {
                try await drive.run("find tree -type f | wc -l") == "600"
            }
            try await drive.run("rm -r tree")
            #expect(try await drive.names().isEmpty)
            try await eventually("the cloud followed", within: .seconds(20)) {
                !drive.cloud.exists("tree")
            }
        }
    }

    @Test(arguments: [1, 2_000])
    func `a listing ends and has each name once, whatever is renamed meanwhile`(
        count: Int
    ) async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<count { try cloud.write("\(number)", "") }
            }
        ) { drive in
            try await drive.python(
                """
                seen = []
                for entry in os.scandir("."):
                    seen.append(entry.name)
                    assert len(seen) <= \(count), seen[-5:]
                    os.rename(entry.name, "aside")
                    os.rename("aside", entry.name)
                assert sorted(seen) == sorted(str(number) for number in range(\(count)))
                """,
                within: .seconds(60)
            )
        }
    }

    @Test func `a listing has each name once while its files are saved`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<1_500 { try cloud.write("\(number)", "old") }
            }
        ) { drive in
            try await drive.python(
                """
                names = [str(number) for number in range(1500)]
                seen = []
                for entry in os.scandir("."):
                    seen.append(entry.name)
                    assert len(seen) <= len(names), seen[-5:]
                    open("new", "w").close()
                    os.replace("new", entry.name)
                    if len(seen) == 100: renameat2(names[0], names[-1], 2)
                assert sorted(seen) == sorted(names)
                """,
                within: .seconds(60)
            )
        }
    }

    @Test(.onMounts)
    func `what the cloud has just brought is opened by who would make it`() async throws {
        // The kernel does not hear that there is something where it looked in vain.
        var options = TestMount.Options([])
        options.environment = ["CLOUDFS_FAULTS": "notify.taken=delay:60000"]
        try await TestDrive.with(options: options, ending: .killed) { drive in
            try await drive.python(
                """
                for name in ("file", "link", "folder"): fails(errno.ENOENT, os.stat, name)
                """
            )
            try drive.cloud.write("file", "cloud,")
            try await drive.run(
                "ln -s file \(drive.cloud.path)/link; mkdir \(drive.cloud.path)/folder"
            )
            for name in ["file", "link", "folder"] {
                try await eventually("the drive knows of \(name)") {
                    try await drive.run("cloudfs query name:\(name)").hasSuffix("/\(name)")
                }
            }
            try await drive.python(
                """
                fails(errno.ENOENT, os.stat, "file")
                fails(errno.EISDIR, open, "folder", "a")
                for name in ("file", "link"): fails(errno.EEXIST, open, name, "x")
                open("link", "a").write("link,")
                open("file", "a").write("file")
                assert open("file").read() == "cloud,link,file"
                """
            )
            try await drive.untilCloudHas("file", "cloud,link,file")
        }
    }

    @Test func `many names made at once from several processes are all there`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                for worker in 1 2 3 4; do
                    (mkdir w$worker; for n in $(seq 60); do echo $n > w$worker/$n; done
                     mkdir -p shared; echo $worker > shared/$worker) &
                done
                wait
                [ "$(find . -type f | wc -l)" = 244 ]
                """
            )
            try await eventually("the cloud has them", within: .seconds(30)) {
                try drive.cloud.paths().count == 244 + 5
            }
        }
    }
}
