import CloudFSTestSupport
import Testing

/// Changes made in the cloud by other programs and devices.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct RemoteChangeTests {
    /// The specification's second, and some for a loaded machine.
    static let soon: Duration = .seconds(4)

    @Test func `what is made in the cloud appears, also where it was missed before`() async throws {
        try await TestDrive.with { drive in
            #expect(try await drive.exists("new.txt") == false)
            #expect(try await drive.names().isEmpty)
            try drive.cloud.write("new.txt", "made elsewhere")
            try drive.cloud.write("folder/below/deep", "deep")
            try drive.cloud.makeSymlink("link", target: "new.txt")
            try await eventually("it is there", within: Self.soon) {
                try await drive.has(["new.txt", "folder/below/deep", "link"])
            }
            #expect(try await drive.names() == ["folder", "link", "new.txt"])
            #expect(try await drive.text("link") == "made elsewhere")
            #expect(try await drive.text("folder/below/deep") == "deep")
        }
    }

    @Test func `a change in the cloud is read, though the old bytes were cached`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("same", "1111")
                try cloud.write("longer", "1")
                try cloud.write("shorter", "1111")
            }
        ) { drive in
            let new = ["same": "2222", "longer": "22222222", "shorter": "2"]
            for name in new.keys { _ = try await drive.text(name) }
            for (name, text) in new { try drive.cloud.write(name, text) }
            try await eventually("the new bytes are read", within: Self.soon) {
                for (name, text) in new {
                    guard try await drive.text(name) == text,
                        try await drive.status(name).size == text.utf8.count
                    else { return false }
                }
                return true
            }
        }
    }

    @Test func `ctime moves with what the cloud replaces, also where nothing else does`()
        async throws
    {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("file", "1111")
                try cloud.makeSymlink("link", target: "aaaa")
            }
        ) { drive in
            let set = "touch -h -d 2001-02-03T04:05:06Z '\(drive.cloud.path)'/*"
            _ = try await Shell.script(set)
            try await eventually("the times are known", within: Self.soon) {
                try await drive.run("stat -c %Y file link") == "981173106\n981173106"
            }
            #expect(try await drive.text("file") == "1111")
            let before = try await drive.run("stat -c %z file link").split(separator: "\n")
            _ = try await Shell.script(
                "cd '\(drive.cloud.path)' && printf 22222 > file && ln -sfn bbbb link && \(set)"
            )
            try await eventually("the new ones are there", within: Self.soon) {
                try await drive.run("cat file; readlink link") == "22222bbbb"
            }
            let after = try await drive.run("stat -c %z file link").split(separator: "\n")
            #expect(zip(before, after).allSatisfy { $0 < $1 } && after.count == 2)
        }
    }

    @Test func `a file replaced in the cloud by rename is the same item`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "old") }) { drive in
            #expect(try await drive.text("file") == "old")
            try drive.cloud.write("temporary", "new bytes")
            try drive.cloud.rename("temporary", to: "file")
            try await eventually("the new bytes are read", within: Self.soon) {
                try await drive.text("file") == "new bytes"
            }
            try await eventually("nothing else is there", within: Self.soon) {
                try await drive.names() == ["file"]
            }
        }
    }

    @Test func `a rename in the cloud moves the item and keeps what is here`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("folder/file", "bytes")
                try cloud.makeFolder("other")
            }
        ) { drive in
            #expect(try await drive.text("folder/file") == "bytes")
            let inode = try await drive.status("folder/file").inode
            let fetched = try await drive.fetched()
            try drive.cloud.rename("folder/file", to: "other/moved")
            try await eventually("it moved", within: Self.soon) {
                try await drive.has(["other/moved"], not: ["folder/file"])
            }
            try drive.cloud.rename("other", to: "folder/inner")
            try await eventually("the folder moved", within: Self.soon) {
                try await drive.has(["folder/inner/moved"], not: ["other"])
            }
            #expect(try await drive.text("folder/inner/moved") == "bytes")
            #expect(try await drive.status("folder/inner/moved").inode == inode)
            #expect(try await drive.fetched().bytes == fetched.bytes)
        }
    }

    /// The time of change is what tells versions with one content apart in a folder.
    @Test func `an open file is read on while its mode, tags and name change in the cloud`()
        async throws
    {
        let megabyte = 1_000_000
        let bytes = (0..<8 * megabyte).map { UInt8(truncatingIfNeeded: $0 / 4096) }
        let filling = Filling { try $0.write("file", bytes) }
        try await TestDrive.with(["--hydration", "partial"], prepare: filling) { drive in
            try await drive.python(
                """
                there = "\(drive.cloud.path)/file"
                handle = os.open("file", os.O_RDONLY)

                def read(megabyte):
                    data = os.pread(handle, 4096, megabyte * 1_000_000)
                    assert len(data) == 4096
                    first = megabyte * 1_000_000
                    assert all(b == (first + i) // 4096 % 256 for i, b in enumerate(data))

                def known():
                    end = time.monotonic() + 20
                    while os.stat("file").st_mode & 0o777 != 0o640:
                        assert time.monotonic() < end
                        time.sleep(0.01)

                read(0)
                os.chmod(there, 0o640)
                read(1)
                known()
                read(2)
                os.setxattr(there, "user.comment", b"seen")
                read(3)
                os.rename(there, there + "-moved")
                read(4)
                os.rename(there + "-moved", there)
                read(5)
                os.chmod(there, 0o600)
                read(6)
                os.chmod(there, 0o640)
                known()
                read(7)
                """
            )
        }
    }

    /// The kernel keeps sizes, and does not ask for them when a file is opened.
    @Test func `a newer version is whole before the kernel was told of it`() async throws {
        var options = TestMount.Options()
        options.environment = ["CLOUDFS_FAULTS": "notify.taken=delay:5000"]
        let filling = Filling { try $0.write("file", [UInt8](repeating: 0x61, count: 10)) }
        try await TestDrive.with(options: options, prepare: filling) { drive in
            #expect(try await drive.run("stat -c %s file") == "10")
            let newer = String(repeating: "b", count: 1_000)
            try drive.cloud.write("file", newer)
            try await eventually("the drive knows it", within: Self.soon) {
                try await drive.mustDo(["query", "size:1000", drive.path]).contains("file")
            }
            #expect(try await drive.text("file") == newer)
        }
    }

    /// A rename tells the name, and not what the program has seen under it.
    @Test func `what moves is what the drive has, before the kernel was told of it`() async throws {
        var options = TestMount.Options()
        options.environment = ["CLOUDFS_FAULTS": "notify.taken=delay:60000"]
        let filling = Filling { cloud in
            for name in ["one", "two", "three", "gone"] { try cloud.write(name, name) }
        }
        try await TestDrive.with(options: options, ending: .killed, prepare: filling) { drive in
            try await drive.run("cat one two three gone")
            try drive.cloud.rename("two", to: "one")
            try drive.cloud.rename("gone", to: "elsewhere")
            for (name, count) in [("two", 0), ("gone", 0), ("elsewhere", 1)] {
                try await eventually("the drive knows what became of \(name)") {
                    try await drive.run("cloudfs query name:\(name)").split(separator: "\n").count
                        == count
                }
            }
            try await drive.python(
                """
                fails(errno.ENOENT, os.rename, "gone", "found")
                os.rename("one", "moved")
                assert open("moved").read() == "two", open("moved").read()
                assert os.path.exists("one") == False
                renameat2("moved", "three", 2)
                assert open("moved").read() == "three" and open("three").read() == "two"
                """
            )
            try await drive.untilCloudHas("three", "two")
            try await drive.untilCloudHas("moved", "three")
        }
    }

    /// The kernel keeps the folder that somebody is in, and finds it again under its new name.
    @Test func `a folder that moved goes on for who is in it, and for all others`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("old/file", "bytes") }) { drive in
            try await drive.python(
                """
                root = os.getcwd()
                os.chdir("old")
                os.rename(cloud + "/old", cloud + "/new")
                while os.listdir(root) != ["new"]: time.sleep(0.02)
                for place in [root + "/new", "."]:
                    assert os.listdir(place) == ["file"]
                    assert open(place + "/file").read() == "bytes"
                    with open(place + "/made", "w") as file: file.write("made")
                    os.remove(place + "/made")
                """
            )
        }
    }

    /// Folders are compared a few at a time: its old place comes long before its new one.
    @Test func `a folder that moved while nobody looked is known again, with all in it`()
        async throws
    {
        let folders = (100..<250).map { "f\($0)" }
        try await TestDrive.with(
            prepare: Filling { cloud in
                for folder in folders { try cloud.write("\(folder)/other", "text") }
                try cloud.write("f100/moved/deep/file", "text")
            }
        ) { drive in
            func numbers(in folder: String) async throws -> String {
                try await drive.run("cd \(folder)/moved; stat -c %i . deep deep/file")
            }
            try await drive.run("find . > /dev/null; setfattr -n user.a -v b f100/moved/deep/file")
            try await drive.drain()
            let before = try await numbers(in: "f100")
            try await drive.mount.stop()
            try drive.cloud.rename("f100/moved", to: "f249/moved")
            let again = try await drive.again()
            try await eventually("the old place is empty") { try await !again.exists("f100/moved") }
            try await eventually("it is in its new place") {
                try await again.exists("f249/moved/deep/file")
            }
            #expect(try await numbers(in: "f249") == before)
        }
    }

    @Test func `what is deleted in the cloud goes, whole folders too`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("file", "bytes")
                try cloud.write("stays", "bytes")
                for number in 0..<30 { try cloud.write("folder/\(number % 3)/\(number)", "x") }
            }
        ) { drive in
            try await drive.run("find . -type f -exec cat {} + > /dev/null")
            try await drive.run("rm -r \"$CLOUD/folder\" \"$CLOUD/file\"")
            try await eventually("it went", within: Self.soon) {
                try await drive.names() == ["stays"]
            }
            #expect(try await drive.exists("folder/1/1") == false)
        }
    }

    @Test func `what is deleted in the cloud goes while something else is uploaded`() async throws {
        try await TestDrive.with(
            TestMount.Options.bandwidth("300KB"),
            prepare: Filling { cloud in
                try cloud.write("busy/known", "bytes")
                try cloud.write("elsewhere/file", "bytes")
            }
        ) { drive in
            try await drive.run("find . -type f | wc -l; head -c 3000000 /dev/zero > busy/known")
            try await eventually("the upload began") {
                try await drive.state("busy/known") == "uploading"
            }
            // Its folder's listings meet the upload from now on.
            try drive.cloud.write("busy/seen", "bytes")
            try await eventually("the busy folder was listed", within: Self.soon) {
                try await drive.exists("busy/seen")
            }
            try drive.cloud.remove("elsewhere/file")
            try await eventually("it went", within: Self.soon) {
                try await drive.exists("elsewhere/file") == false
            }
            #expect(drive.cloud.text("busy/known") == "bytes")
        }
    }

    @Test func `mode and time changed in the cloud show`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "bytes") }) { drive in
            _ = try await drive.status("file")
            try drive.cloud.setMode("file", 0o711)
            try drive.cloud.setTimes("file", nanoseconds: 1_111_111_111_222_222_222)
            try await eventually("they show", within: Self.soon) {
                let status = try await drive.status("file")
                return status.mode == 0o711 && status.modified == 1_111_111_111_222_222_222
            }
            #expect(try await drive.text("file") == "bytes")
        }
    }

    @Test func `a time changed in the cloud shows of a file that is open`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "bytes") }) { drive in
            try await drive.python(
                """
                file = os.open("file", os.O_RDONLY)
                os.read(file, 10)
                os.fstat(file)
                os.utime(os.path.join(os.environ["CLOUD"], "file"), (1, 1_111_111_111))
                end = time.monotonic() + 4
                while os.fstat(file).st_mtime != 1_111_111_111:
                    assert time.monotonic() < end, os.fstat(file)
                    time.sleep(0.05)
                os.close(file)
                assert os.stat("file").st_mtime == 1_111_111_111
                """
            )
        }
    }

    @Test func `many folders and files made in one burst all appear`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                for a in 1 2 3 4 5; do for b in 1 2 3 4; do
                    mkdir -p "$CLOUD/$a/$b/deep"
                    for c in $(seq 15); do echo $c > "$CLOUD/$a/$b/deep/$c"; done
                done; done
                """
            )
            try await eventually("all are there", within: .seconds(10)) {
                try await drive.run("find . -type f -size 2c -o -type f -size 3c | wc -l") == "300"
            }
        }
    }

    @Test(.onMounts)
    func `an open file keeps its version until it is closed`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("file", [UInt8](repeating: 0x61, count: 400_000))
            }
        ) { drive in
            try await drive.python(
                """
                def now(name):
                    return open(cloud + "/" + name, "rb").read()
                file = os.open("file", os.O_RDONLY)
                assert os.read(file, 100000) == b"a" * 100000
                with open(cloud + "/next", "wb") as new:
                    new.write(b"b" * 500000)
                os.rename(cloud + "/next", cloud + "/file")
                with open(cloud + "/later", "wb") as new:
                    new.write(b"1")
                end = time.monotonic() + 5
                while not os.path.exists("later"):
                    assert time.monotonic() < end
                    time.sleep(0.02)
                # The drive knows of the change by now.
                assert os.fstat(file).st_size == 400000
                try:
                    rest = os.pread(file, 400000, 100000)
                    assert rest == b"a" * len(rest), "two versions are mixed"
                except OSError as error:
                    assert error.errno == errno.ESTALE, error
                os.close(file)
                end = time.monotonic() + 5
                while open("file", "rb").read() != b"b" * 500000:
                    assert time.monotonic() < end
                    time.sleep(0.02)
                """
            )
        }
    }

    @Test(.onMounts)
    func `a reader never gets two versions mixed`() async throws {
        try await TestDrive.with(
            TestMount.Options.bandwidth("8MB"),
            prepare: Filling { cloud in
                try cloud.write("file", [UInt8](repeating: 0x30, count: 3_000_000))
            }
        ) { drive in
            try await drive.python(
                """
                pid = os.fork()
                if pid == 0:
                    try:
                        for turn in range(1, 8):
                            with open(cloud + "/next", "wb") as new:
                                new.write(bytes([0x30 + turn]) * 3000000)
                            os.rename(cloud + "/next", cloud + "/file")
                            time.sleep(0.3)
                    finally:
                        os._exit(0)
                seen = set()
                while os.waitpid(pid, os.WNOHANG)[0] == 0:
                    try:
                        with open("file", "rb") as file:
                            data = file.read()
                    except OSError as error:
                        assert error.errno in (errno.ESTALE, errno.ENOENT), error
                        continue
                    assert len(set(data)) == 1 and len(data) == 3000000, (set(data), len(data))
                    seen.add(data[0])
                end = time.monotonic() + 8
                while open("file", "rb").read(1) != b"7":
                    assert time.monotonic() < end
                    time.sleep(0.05)
                """
            )
        }
    }

    @Test func `listings that the kernel keeps follow what is made and removed elsewhere`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("folder/first", "1") }) { drive in
            try await drive.python(
                """
                folder = os.open("folder", os.O_RDONLY)
                def follows(names):
                    end = time.monotonic() + 4
                    for look in (lambda: os.listdir("folder"), lambda: os.listdir(folder)):
                        while sorted(look()) != sorted(names):
                            assert time.monotonic() < end, look()
                follows(["first"])
                pid = os.fork()
                if pid == 0:
                    while True:
                        os.listdir("folder")
                names = ["first"]
                for turn in range(150):
                    name = "name%d" % turn
                    open(cloud + "/folder/" + name, "w").close()
                    names.append(name)
                    if turn % 3 == 2:
                        os.unlink(cloud + "/folder/" + names.pop(0))
                    if turn % 30 == 0:
                        follows(names)
                os.kill(pid, signal.SIGKILL)
                follows(names)
                open("folder/here", "w").close()
                os.rename("folder/" + names[0], "folder/renamed")
                follows(names[1:] + ["here", "renamed"])
                """
            )
        }
    }

    @Test func `a file that gets its name when it is complete is never seen without its bytes`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "0") }) { drive in
            try await drive.python(
                """
                pid = os.fork()
                if pid == 0:
                    while True:
                        try:
                            with open("file", "rb") as file:
                                if not file.read():
                                    os._exit(1)
                        except OSError as error:
                            if error.errno not in (errno.ESTALE, errno.ENOENT):
                                os._exit(2)
                for turn in range(40):
                    new = open(cloud + "/next", "wb")
                    end = time.monotonic() + 5
                    while not os.path.exists("next"):
                        assert time.monotonic() < end
                    new.write(b"bytes")
                    new.close()
                    os.rename(cloud + "/next", cloud + "/file")
                    while os.path.exists("next"):
                        assert time.monotonic() < end
                ended = os.waitpid(pid, os.WNOHANG)
                os.kill(pid, signal.SIGKILL)
                assert ended == (0, 0), ended
                """
            )
        }
    }

    @Test(.onMounts)
    func `two drives on one cloud see each other's work`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "one") }) { first in
            try await first.withSecondDrive { second in
                _ = try await second.text("file")
                let inode = try await second.status("file").inode
                try await first.run("echo two > file; mkdir folder; echo made > folder/made")
                try await eventually("the second has it") {
                    guard try await second.has(["folder/made"]) else { return false }
                    return try await second.text("file") == "two\n"
                }
                try await second.run(
                    "mv file folder/renamed; rm folder/made; chmod 600 folder/renamed"
                )
                try await eventually("the first has it") {
                    guard
                        try await first.has(["folder/renamed"], not: ["file", "folder/made"])
                    else { return false }
                    return try await first.status("folder/renamed").mode == 0o600
                }
                #expect(try await first.text("folder/renamed") == "two\n")
                #expect(try await second.status("folder/renamed").inode == inode)
                try await first.run("setfattr -n user.note -v hello folder/renamed; rm -r folder")
                try await eventually("it is gone everywhere") {
                    guard !first.cloud.exists("folder") else { return false }
                    return try await second.has([], not: ["folder"])
                }
            }
        }
    }
}
