import CloudFSTestSupport
import Glibc
import Testing

/// Folders that are one document: one file in the cloud, which comes, changes and goes as one.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct PackageTests {
    private static let arguments = ["--package", "bundle"]

    private static func with(
        _ arguments: [String] = [],
        ending: TestDrive.Ending = .orderly,
        prepare: Filling = Filling { _ in },
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await TestDrive.with(
            Self.arguments + arguments,
            ending: ending,
            prepare: prepare,
            body: body
        )
    }

    /// What `tar` finds in a file of the cloud.
    private static func listing(_ name: String, in drive: TestDrive) async throws -> [String] {
        let result = try await Shell.run(["tar", "tf", "\(drive.cloud.path)/\(name)"])
        guard result.status == 0 else { return [] }
        return result.output.split(separator: "\n").map(String.init)
    }

    private static let filling = """
        mkdir Note.bundle Note.bundle/pictures Note.bundle/empty
        echo text > Note.bundle/text.md
        printf 'a\\0b' > Note.bundle/pictures/äöü
        ln -s ../text.md Note.bundle/pictures/link
        chmod 750 Note.bundle/pictures
        chmod 640 Note.bundle/text.md
        touch -d '2020-02-03 04:05:06.789' Note.bundle/text.md
        setfattr -n user.note.kind -v diary Note.bundle/text.md
        """

    private static let content = """
        cd Note.bundle
        cat text.md; od -c pictures/äöü; readlink pictures/link; ls -A empty
        stat -c '%n %A %.Y %F' text.md pictures
        getfattr --only-values -n user.note.kind text.md
        find . | LC_ALL=C sort
        """

    @Test func `it is one file in the cloud, and the same folder for another device`() async throws
    {
        try await Self.with { drive in
            try await drive.run(Self.filling)
            let here = try await drive.run(Self.content)
            // Its time is that of the folder, whatever becomes of it.
            try await drive.run("touch -d '2021-01-01 12:00:00.5' Note.bundle")
            try await drive.drain()
            let time = "stat -c '%.Y %A' Note.bundle"
            #expect(try await drive.run(time) == "1609502400.500000000 drwxr-xr-x")
            #expect(try drive.cloud.paths() == ["Note.bundle"])
            #expect(
                try await Self.listing("Note.bundle", in: drive) == [
                    "empty/", "pictures/", "pictures/link", "pictures/äöü", "text.md",
                ]
            )
            #expect(try await drive.state("Note.bundle") == "local")
            #expect(try await drive.state("Note.bundle/text.md") == "local")
            try await drive.withSecondDrive(Self.arguments) { second in
                try await eventually("it is there") { try await second.has(["Note.bundle"]) }
                try await second.run("ls -l . ; test -d Note.bundle")
                #expect(try await second.state("Note.bundle") == "cloud")
                #expect(try await second.fetched().bytes == 0)
                #expect(try await second.run(Self.content) == here)
                #expect(try await second.run(time) == "1609502400.500000000 drwxr-xr-x")
                try await second.mustDo(["check"])
            }
            try await drive.mustDo(["check"])
        }
    }

    @Test func `half a save is never in the cloud, however long it takes`() async throws {
        try await Self.with(["--quiet-time", "50ms"]) { drive in
            try await drive.run("mkdir Note.bundle; echo one > Note.bundle/one")
            try await drive.drain()
            let before = drive.cloud.bytes("Note.bundle")
            let saving = try drive.start(
                "exec 3> Note.bundle/one; echo first >&3; echo two > Note.bundle/two; "
                    + "rm -f Note.bundle/gone; while [ ! -e stop ]; do sleep 0.05; done; exec 3>&-"
            )
            try await eventually("it is half saved") { try await drive.exists("Note.bundle/two") }
            // Sent after it, and there before it.
            try await drive.write("other", "other")
            try await drive.untilCloudHas("other", "other")
            #expect(drive.cloud.bytes("Note.bundle") == before)
            #expect(try await drive.state("Note.bundle") == "modified")
            try await drive.write("stop", "")
            #expect(try await saving.wait(within: .seconds(20)) == 0)
            try await drive.drain()
            #expect(try await Self.listing("Note.bundle", in: drive) == ["one", "two"])
        }
    }

    @Test func `what a coordinated program saves in steps is sent when it is done`() async throws {
        try await Self.with(["--quiet-time", "50ms"]) { drive in
            try await drive.run("mkdir Note.bundle; echo one > Note.bundle/one")
            try await drive.drain()
            let before = drive.cloud.bytes("Note.bundle")
            let saving = try drive.start(
                """
                cloudfs coordinate --write Note.bundle -- sh -c 'echo 1 > Note.bundle/one
                    while [ ! -e stop ]; do sleep 0.05; done; echo 2 > Note.bundle/two'
                """
            )
            try await eventually("half of it is saved") {
                try await drive.text("Note.bundle/one") == "1\n"
            }
            try await drive.write("other", "other")
            try await drive.untilCloudHas("other", "other")
            #expect(drive.cloud.bytes("Note.bundle") == before)
            try await drive.write("stop", "")
            #expect(try await saving.wait(within: .seconds(20)) == 0)
            try await drive.drain()
            #expect(try await Self.listing("Note.bundle", in: drive) == ["one", "two"])
        }
    }

    @Test func `another device's version comes whole, and what is open stays`() async throws {
        try await Self.with { drive in
            try await drive.run(
                "mkdir N.bundle; echo 1 > N.bundle/a; echo 1 > N.bundle/b; mkdir N.bundle/c"
            )
            try await drive.drain()
            let identity = try await drive.itemID("N.bundle")
            try await drive.withSecondDrive(Self.arguments) { second in
                try await eventually("it is there") { try await second.has(["N.bundle/b"]) }
                let reading = try drive.start(
                    "exec 3< N.bundle/a; : > open; until [ -e stop ]; do sleep 0.05; done; cat <&3",
                    output: "\(drive.folder)/read"
                )
                try await eventually("it is open") { try await drive.exists("open") }
                try await second.run("echo 2 > N.bundle/a; rm N.bundle/b; echo 2 > N.bundle/c/d")
                try await second.drain()
                try await eventually("it is here") {
                    try await drive.has(["N.bundle/c/d"], not: ["N.bundle/b"])
                }
                #expect(try await drive.text("N.bundle/a") == "2\n")
                try await drive.write("stop", "")
                #expect(try await reading.wait(within: .seconds(20)) == 0)
                #expect(TestFolder(drive.folder).text("read") == "1\n")
                #expect(try await drive.itemID("N.bundle") == identity)
                // And back.
                try await drive.run("echo 3 > N.bundle/a")
                try await drive.drain()
                try await eventually("it came back") {
                    try await second.text("N.bundle/a") == "3\n"
                }
            }
            try await drive.mustDo(["check"])
        }
    }

    @Test func `two versions are kept as two packages`() async throws {
        try await Self.with(["--device-name", "testbox"]) { drive in
            try await drive.run("mkdir N.bundle; echo 1 > N.bundle/a; echo 1 > N.bundle/b")
            try await drive.drain()
            try await drive.withSecondDrive(Self.arguments) { second in
                try await eventually("it is there") { try await second.has(["N.bundle/b"]) }
                try await drive.mustDo(["pause"])
                try await drive.run("echo ours > N.bundle/a")
                try await second.run("echo theirs > N.bundle/b")
                try await second.drain()
                try await drive.mustDo(["resume"])
                try await drive.drain()
                try await eventually("both are here") { try await drive.names().count == 2 }
                let copy = try #require(
                    try await drive.names().first { $0.hasPrefix("N (conflicted copy testbox") }
                )
                #expect(copy.hasSuffix(").bundle"))
                #expect(try await drive.text("N.bundle/a") == "1\n")
                #expect(try await drive.text("N.bundle/b") == "theirs\n")
                #expect(try await drive.text("\(copy)/a") == "ours\n")
                #expect(try await drive.text("\(copy)/b") == "1\n")
                try await eventually("the other device has both") {
                    try await second.has(["\(copy)/a", "N.bundle/b"])
                }
                #expect(try await second.text("\(copy)/a") == "ours\n")
            }
        }
    }

    @Test func `it is moved, saved anew and removed as one, and nothing slips in or out`()
        async throws
    {
        try await Self.with { drive in
            try await drive.run("mkdir -p dir N.bundle/sub; echo 1 > N.bundle/a; echo x > x")
            try await drive.drain()
            let identity = try await drive.itemID("N.bundle")
            try await drive.run("mv N.bundle dir/M.bundle")
            try await drive.drain()
            #expect(try Set(drive.cloud.paths()) == ["dir", "dir/M.bundle", "x"])
            #expect(try await drive.itemID("dir/M.bundle") == identity)
            let names = try await drive.python(
                """
                import errno, os
                for a, b in [("x", "dir/M.bundle/x"), ("dir/M.bundle/a", "a"), ("dir", "d.bundle"),
                        ("dir/M.bundle", "plain"), ("dir/M.bundle/sub", "sub")]:
                    try: os.rename(a, b)
                    except OSError as e: print(errno.errorcode[e.errno], end=" ")
                """
            )
            #expect(names == "EXDEV EXDEV EXDEV EXDEV EXDEV ")
            // As `mv` does it then.
            try await drive.run("mv x dir/M.bundle/x; mv dir/M.bundle plain; mv plain P.bundle")
            try await drive.drain()
            #expect(try Set(drive.cloud.paths()) == ["dir", "P.bundle"])
            #expect(try await Self.listing("P.bundle", in: drive) == ["a", "sub/", "x"])
            // A whole new tree in its place is its next version.
            let own = try await drive.itemID("P.bundle")
            try await drive.run("rm -r P.bundle; mkdir P.bundle; echo 2 > P.bundle/new")
            #expect(try await drive.itemID("P.bundle") == own)
            try await drive.drain()
            #expect(try await Self.listing("P.bundle", in: drive) == ["new"])
            try await drive.run("rm -r P.bundle")
            try await drive.drain()
            #expect(try drive.cloud.paths() == ["dir"])
            try await drive.mustDo(["check"])
        }
    }

    @Test(arguments: ["package.packed", "upload.sent", "package.unpacked", "write.marked"])
    func `an end at any step loses nothing`(point: String) async throws {
        try await Self.with(ending: .killed) { drive in
            try await drive.run(Self.filling)
            let content = try await drive.run(Self.content)
            try await drive.drain()
            try await drive.mustDo(["evict", "Note.bundle"])
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "\(point)=kill"])
            let faulty = try await drive.restart()
            _ = try? await faulty.run(Self.content + "\necho more > more")
            _ = try? await faulty.drain()
            drive.mount.change(environment: [:])
            let again = try await faulty.crash()
            try await again.run("test -e Note.bundle/more || echo more > Note.bundle/more")
            try await again.drain()
            try await again.run("rm Note.bundle/more; touch -d @1 Note.bundle")
            #expect(try await again.run(Self.content) == content)
            try await again.drain()
            #expect(
                try await Self.listing("Note.bundle", in: again) == [
                    "empty/", "pictures/", "pictures/link", "pictures/äöü", "text.md",
                ]
            )
            try await again.mustDo(["check"])
            try await again.mount.stop()
        }
    }

    /// What nobody can stop goes on beside it, and is done first.
    @Test func `who gave up looking into it can look again`() async throws {
        try await Self.with { drive in
            try await drive.run(Self.filling)
            let content = try await drive.run(Self.content)
            try await drive.drain()
            try await drive.mustDo(["evict", "Note.bundle"])
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "package.unpacked=delay:2000"])
            let slow = try await drive.restart()
            let files = "find '\(slow.mount.state)/content' -type f | wc -l"
            let before = try #require(Int(try await slow.run(files)))
            let first = try slow.start("exec ls Note.bundle")
            try await eventually("its files are made") {
                try #require(Int(try await slow.run(files))) >= before + 3
            }
            first.send(SIGINT)
            _ = try await first.wait(within: .seconds(20))
            #expect(try await slow.run(Self.content) == content)
            try await slow.mustDo(["check"])
            try await eventually("what was made in vain is gone") {
                try await slow.run(files) == "3"
            }
        }
    }

    @Test func `its room is given back, and it comes again when it is looked into`() async throws {
        try await Self.with { drive in
            try await drive.run("mkdir N.bundle; head -c 3000000 /dev/urandom > N.bundle/big")
            try await drive.drain()
            let sum = try await drive.run("sha256sum < N.bundle/big")
            try await drive.mustDo(["evict", "N.bundle"])
            #expect(try await drive.state("N.bundle") == "cloud")
            try await eventually("the room is free") {
                let content = "\(drive.folder)/drive-state/content"
                let left = try await Shell.run(["du", "-sk", content])
                return Int(left.output.prefix { $0.isNumber }) ?? 9_999 < 1_500
            }
            #expect(try await drive.run("sha256sum < N.bundle/big") == sum)
            // What is open keeps all of it.
            let reading = try drive.start(
                "exec 3< N.bundle/big; : > open; while [ ! -e stop ]; do sleep 0.05; done"
            )
            try await eventually("it is open") { try await drive.exists("open") }
            let refused = try await drive.cloudfs(["evict", "N.bundle"])
            #expect(refused.status != 0 && (refused.output + refused.errors).contains("open"))
            try await drive.write("stop", "")
            #expect(try await reading.wait(within: .seconds(20)) == 0)
            try await drive.mustDo(["pause"])
            try await drive.run("echo changed >> N.bundle/note")
            let dirty = try await drive.cloudfs(["evict", "N.bundle"])
            #expect(dirty.status != 0)
            #expect((dirty.output + dirty.errors).contains("not uploaded yet"))
            try await drive.mustDo(["resume"])
            try await drive.drain()
        }
    }

    /// The kernel remembers which names there were not, also when the tree has gone.
    @Test func `what is put into one whose tree is not here is sent all the same`() async throws {
        try await Self.with { drive in
            try await drive.run("mkdir N.bundle; echo a > N.bundle/a")
            try await drive.drain()
            try await drive.run(
                "! test -e N.bundle/new && ! test -e N.bundle/folder && ! test -e N.bundle/link"
            )
            try await drive.mustDo(["evict", "N.bundle"])
            try await drive.run("echo x > N.bundle/new")
            try await drive.drain()
            #expect(try await Self.listing("N.bundle", in: drive) == ["a", "new"])
            try await drive.mustDo(["evict", "N.bundle"])
            try await drive.run("mkdir N.bundle/folder; ln -s a N.bundle/link")
            try await drive.drain()
            try await drive.mustDo(["evict", "N.bundle"])
            #expect(try await drive.run("cat N.bundle/new N.bundle/link") == "x\na")
            try await drive.mustDo(["check"])
        }
    }

    /// A path into a package is a read of its bytes: it takes as long as they do, and no listing.
    @Test func `it is waited for as long as its bytes come`() async throws {
        try await Self.with { drive in
            try await drive.run("mkdir N.bundle; head -c 3000000 /dev/urandom > N.bundle/big")
            try await drive.drain()
            let sum = try await drive.run("sha256sum < N.bundle/big")
            let slow = TestMount.Options(
                ["--device-name", "second", "--simulate-bandwidth", "1MB"] + Self.arguments
            )
            try await drive.withSecondDrive(options: slow) { second in
                try await eventually("it is there") { try await second.has(["N.bundle"]) }
                // To ask about it is not to read it.
                let asked = try await second.cloudfs(["status", "N.bundle/big"])
                #expect(asked.status != 0 && asked.errors.contains("not known yet"))
                #expect(try await second.fetched().bytes == 0)
                #expect(try await second.run("sha256sum < N.bundle/big") == sum)
            }
        }
    }

    /// Put aside for a new one, a file that is not here is the cloud's still, and can be read.
    @Test func `what is put aside keeps its bytes`() async throws {
        try await Self.with(
            ["--quiet-time", "60s"],
            prepare: Filling { try $0.write("promised", "old bytes\n") }
        ) { drive in
            try await drive.python(
                """
                open(".#new", "w").write("new")
                renameat2(".#new", "promised", 2)
                assert open(".#new").read() == "old bytes\\n"
                os.unlink(".#new")
                """
            )
            try await drive.mustDo(["drain", "--wait"])
            #expect(drive.cloud.text("promised") == "new")
            #expect(try drive.cloud.paths() == ["promised"])
        }
    }

    @Test func `who gets no downloads does not look into it`() async throws {
        try await Self.with(["--hydration-deny", "scanner"]) { drive in
            try await drive.run(
                "mkdir N.bundle; echo text > N.bundle/a; cp /bin/cat \"$SCRATCH\"/scanner"
            )
            try await drive.drain()
            try await drive.mustDo(["evict", "N.bundle"])
            let refused = try await drive.run("\"$SCRATCH\"/scanner N.bundle/a 2>&1 || true")
            #expect(refused.contains("Object is remote"))
            #expect(try await drive.state("N.bundle") == "cloud")
            #expect(try await drive.text("N.bundle/a") == "text\n")
            #expect(try await drive.run("\"$SCRATCH\"/scanner N.bundle/a") == "text")
        }
    }

    @Test func `a folder that only this machine knows becomes one, also in exchange for one`()
        async throws
    {
        try await Self.with(["--quiet-time", "60s"]) { drive in
            try await drive.run("mkdir N.bundle; echo old > N.bundle/a")
            try await drive.mustDo(["drain", "--wait"])
            let identity = try await drive.itemID("N.bundle")
            try await drive.python(
                """
                os.mkdir(".#new"); os.mkdir(".#new/sub")
                kept = open(".#new/sub/b", "w"); kept.write("new"); kept.flush()
                renameat2(".#new", "N.bundle", 2)
                kept.write("er"); kept.close()
                os.unlink(".#new/a"); os.rmdir(".#new")
                open("N.bundle/sub/b", "a").write("!")
                os.mkdir("tmp"); open("tmp/x", "w").write("x"); os.rename("tmp", "M.bundle")
                """
            )
            try await drive.mustDo(["drain", "--wait"])
            #expect(try drive.cloud.paths().sorted() == ["M.bundle", "N.bundle"])
            #expect(try await Self.listing("N.bundle", in: drive) == ["sub/", "sub/b"])
            #expect(try await Self.listing("M.bundle", in: drive) == ["x"])
            #expect(try await drive.text("N.bundle/sub/b") == "newer!")
            #expect(try await drive.itemID("N.bundle") == identity)
            try await drive.withSecondDrive(Self.arguments) { second in
                try await eventually("it is there") { try await second.has(["N.bundle"]) }
                #expect(try await second.text("N.bundle/sub/b") == "newer!")
            }
            try await drive.mustDo(["check"])
        }
    }

    @Test func `what is no package is shown as the file it is, and leads nowhere`() async throws {
        let prepare = Filling { cloud in
            try cloud.write("plain.bundle", "only text\n")
            try cloud.write("empty.bundle", "")
            try cloud.makeFolder("folder.bundle")
            try cloud.write("folder.bundle/file", "in a folder\n")
        }
        // A program that looks again at once is quicker than what the kernel is told.
        var options = TestMount.Options(Self.arguments)
        options.environment = ["CLOUDFS_FAULTS": "notify.taken=delay:50"]
        try await TestDrive.with(options: options, prepare: prepare) { drive in
            let made = try await Shell.run([
                "python3", "-c",
                """
                import io, os, tarfile
                os.chdir("\(drive.cloud.path)")
                def add(t, name, **more):
                    i = tarfile.TarInfo(name); i.size = more.pop("size", 0)
                    for k, v in more.items(): setattr(i, k, v)
                    t.addfile(i, io.BytesIO(bytes(i.size)))
                for n, name in enumerate(["../out", "/out", "a//b", "a/../b", "missing/file"]):
                    with tarfile.open(f"bad{n}.bundle", "w") as t: add(t, name, size=5)
                with tarfile.open("hard.bundle", "w") as t:
                    add(t, "a"); add(t, "b", type=tarfile.LNKTYPE, linkname="a")
                with tarfile.open("device.bundle", "w") as t: add(t, "d", type=tarfile.CHRTYPE)
                with tarfile.open("twice.bundle", "w") as t: add(t, "a"); add(t, "a")
                with tarfile.open("good.bundle", "w") as t: add(t, "a", size=5)
                data = open("good.bundle", "rb").read()
                open("cut.bundle", "wb").write(data[:515])
                """,
            ])
            #expect(made.status == 0, "\(made.errors)")
            try await eventually("all are there") {
                try await drive.has(["good.bundle", "cut.bundle", "twice.bundle"])
            }
            #expect(try await drive.names("good.bundle") == ["a"])
            #expect(try await drive.names("folder.bundle") == ["file"])
            for name in [
                "plain", "empty", "bad0", "bad1", "bad2", "bad3", "bad4", "hard", "device",
                "twice", "cut",
            ] {
                _ = try await drive.run("ls \(name).bundle/ 2> /dev/null || true")
                let status = try await drive.run("test -f \(name).bundle || ls -ld \(name).bundle")
                #expect(status.isEmpty, "\(name): \(status)")
            }
            #expect(try await drive.text("plain.bundle") == "only text\n")
            let paths = try await Shell.run(["find", drive.folder, "-name", "out"])
            #expect(paths.output.isEmpty)
            try await drive.mustDo(["check"])
        }
    }
}
