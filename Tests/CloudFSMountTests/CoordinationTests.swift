import CloudFSTestSupport
import Glibc
import Testing

/// Programs that claim what they use, and programs that know nothing of that.
///
/// A claim is held by `cloudfs coordinate` around a command that waits for a file beside the drive.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct CoordinationTests {
    /// A claim that is held until it is let go.
    private struct Held {
        let drive: TestDrive
        let name: String
        let process: ChildProcess

        private static func begun(_ drive: TestDrive, _ name: String) -> String {
            "\(drive.folder)/run/\(name).begun"
        }

        /// - Parameters:
        ///   - words: What is claimed, as `cloudfs coordinate` wants it.
        ///   - work: Commands to run before the claim is held on to.
        init(
            _ words: String,
            _ name: String = "holder",
            work: String = "true",
            on drive: TestDrive
        ) async throws {
            (self.drive, self.name) = (drive, name)
            let run = "\(drive.folder)/run"
            process = try drive.start(
                """
                mkfifo \(run)/\(name).pipe
                exec cloudfs coordinate \(words) -- bash -c '
                    \(work); cd \(run); touch \(name).begun
                    # Killed, cloudfs leaves it alone: it ends when the test has cleaned up.
                    while test -e \(name).begun && ! test -e \(name).go
                    do read -t 1 <> \(name).pipe || true
                    done'
                """,
                output: "\(run)/\(name).out"
            )
            try await eventually("\(words) is had") { [process] in
                try #require(
                    process.status == nil,
                    "\(Shell.text(of: "\(run)/\(name).out"))"
                )
                return access(Self.begun(drive, name), F_OK) == 0
            }
        }

        /// Ends the command, and with it the claim.
        func letGo() async throws {
            let run = "\(drive.folder)/run"
            try await drive.run("touch \(run)/\(name).go; echo > \(run)/\(name).pipe")
            #expect(try await process.wait(within: .seconds(20)) == 0)
        }
    }

    private static func start(_ drive: TestDrive, _ program: String) throws -> ChildProcess {
        let name = "run/\(drive.mount.path.hash).py"
        try TestFolder(drive.folder).write(name, "import os\n" + program + "\n")
        return try drive.start("exec python3 \(drive.folder)/\(name)")
    }

    private static var document: Filling {
        Filling { cloud in try cloud.write("doc", "old\n") }
    }

    // MARK: - Readers keep plain writers out

    @Test func `who writes waits for a coordinated reader`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let reader = try await Held("--read doc", on: drive)
            let writer = try drive.start("echo new > doc")
            try await eventually("the writer waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            #expect(writer.status == nil)
            // Who reads does not wait, and nobody is kept from other files.
            #expect(try await drive.text("doc") == "old\n")
            try await drive.run("echo other > other")
            try await reader.letGo()
            #expect(try await writer.wait(within: .seconds(20)) == 0)
            #expect(try await drive.text("doc") == "new\n")
            // The kernel tells of a close when it likes.
            try await eventually("nobody has a claim") {
                try await drive.cloudfs(["claims"]).output == "nobody uses anything\n"
            }
        }
    }

    @Test func `what cannot wait is told that the file is busy`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            try await drive.write("mine", "mine\n")
            let reader = try await Held("--read doc", on: drive)
            try await drive.python(
                """
                import errno, os
                def busy(work):
                    try: work()
                    except OSError as error: assert error.errno == errno.EBUSY, error
                    else: raise AssertionError("it was done")
                busy(lambda: os.unlink("doc"))
                busy(lambda: os.rename("doc", "elsewhere"))
                busy(lambda: os.rename("mine", "doc"))
                busy(lambda: os.truncate("doc", 0))
                busy(lambda: os.chmod("doc", 0o600))
                busy(lambda: os.setxattr("doc", "user.tag", b"red"))
                assert sorted(os.listdir(".")) == ["doc", "mine"]
                """
            )
            try await reader.letGo()
            try await drive.python(
                "import os; os.chmod('doc', 0o600); os.rename('mine', 'doc'); os.unlink('doc')"
            )
        }
    }

    @Test func `a file that cannot be opened is not made`() async throws {
        try await TestDrive.with(
            prepare: Filling { try $0.write("folder/old", "old\n") }
        ) { drive in
            let mover = try await Held("--write folder --for moving", on: drive)
            try await drive.python(
                """
                for turn in range(2): fails(errno.EBUSY, open, "folder/new", "w")
                """
            )
            try await mover.letGo()
            try await drive.python(
                """
                assert os.listdir("folder") == ["old"], os.listdir("folder")
                fails(errno.ENOENT, os.stat, "folder/new")
                """
            )
            try await drive.drain()
            #expect(try drive.cloud.paths() == ["folder", "folder/old"])
            try await drive.run("echo new > folder/new")
            try await drive.untilCloudHas("folder/new", "new\n")
        }
    }

    @Test func `a writer that waits can be interrupted, and waits no longer than it is told to`()
        async throws
    {
        try await TestDrive.with(["--claim-timeout", "1s"], prepare: Self.document) { drive in
            let reader = try await Held("--read doc", on: drive)
            try await drive.python(
                """
                import errno
                try: open("doc", "r+b")
                except OSError as error: assert error.errno == errno.ETIMEDOUT, error
                else: raise AssertionError("it was opened")
                """
            )
            try await reader.letGo()
        }
        try await TestDrive.with(prepare: Self.document) { drive in
            let reader = try await Held("--read doc", on: drive)
            let writer = try drive.start("exec python3 -c 'open(\"doc\", \"r+b\")'")
            try await eventually("the writer waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            writer.send(SIGTERM)
            #expect(try await writer.wait(within: .seconds(5)) == 128 + SIGTERM)
            try await reader.letGo()
        }
    }

    // MARK: - Writers keep everybody else out

    @Test func `the command of a coordinated writer writes, and nothing is sent meanwhile`()
        async throws
    {
        try await TestDrive.with(prepare: Self.document) { drive in
            let writer = try await Held("--write doc", work: "echo half > doc", on: drive)
            // The quiet time of a test is a tenth of a second.
            try await drive.write("other", "other\n")
            try await drive.untilCloudHas("other", "other\n")
            #expect(drive.cloud.text("doc") == "old\n")
            // Nobody but its own programs may write; who asks to read by a claim waits.
            let reader = try drive.start("exec cloudfs coordinate --read doc -- cat doc")
            let stranger = try drive.start("echo stranger >> doc")
            try await eventually("both wait") {
                try await drive.cloudfs(["claims"]).output.matches(of: #/waits /#).count == 2
            }
            try await writer.letGo()
            #expect(try await reader.wait(within: .seconds(20)) == 0)
            #expect(try await stranger.wait(within: .seconds(20)) == 0)
            try await drive.untilCloudHas("doc", "half\nstranger\n")
        }
    }

    @Test func `a newer version of the cloud waits for a coordinated writer and reader`()
        async throws
    {
        try await TestDrive.with(prepare: Self.document) { drive in
            #expect(try await drive.text("doc") == "old\n")
            let reader = try await Held("--read doc", on: drive)
            try drive.cloud.write("doc", "newer\n")
            try drive.cloud.write("beside", "beside\n")
            try await eventually("the cloud's change is known") {
                try await drive.exists("beside")
            }
            try await drive.mustDo(["refresh", "."])
            #expect(try await drive.text("doc") == "old\n")
            try await reader.letGo()
            try await eventually("the newer version is here") {
                try await drive.text("doc") == "newer\n"
            }
        }
    }

    @Test func `a file that the cloud has deleted stays until its reader is done`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            try drive.cloud.write("beside", "beside\n")
            #expect(try await drive.text("doc") == "old\n")
            let reader = try await Held("--read doc", on: drive)
            try drive.cloud.remove("doc")
            try await drive.mustDo(["refresh", "."])
            #expect(try await drive.text("doc") == "old\n")
            try await reader.letGo()
            try await eventually("it is gone") { try await !drive.exists("doc") }
        }
    }

    @Test func `an enforced drive keeps plain readers from a coordinated writer's file`()
        async throws
    {
        try await TestDrive.with(["--coordination", "enforced"], prepare: Self.document) { drive in
            let writer = try await Held("--write doc", work: "echo half > doc", on: drive)
            let reader = try drive.start("cat doc", output: "\(drive.folder)/run/read")
            try await eventually("the reader waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            try await writer.letGo()
            #expect(try await reader.wait(within: .seconds(20)) == 0)
            #expect(Shell.text(of: "\(drive.folder)/run/read") == "half\n")
        }
    }

    /// The demonstration: a document saved in two halves with a pause between them.
    @Test func `no reader ever sees half of a document, here, on another device or in the cloud`()
        async throws
    {
        let old = String(repeating: "old ", count: 2_000)
        let filling = Filling { cloud in try cloud.write("doc", old) }
        try await TestDrive.with(slots: 2, prepare: filling) { drive in
            try await drive.withSecondDrive { second in
                #expect(try await second.text("doc") == old)
                let looks = """
                    import subprocess
                    whole = {"old " * 2000, "new " * 2000}
                    def look(text): assert text in whole, text[:20] + "…" + text[-20:]
                    """
                let here = try Self.start(
                    drive,
                    looks + """

                        while not os.path.exists("../run/stop"):
                            look(subprocess.run(["cloudfs", "coordinate", "--read", "doc", "--",
                                "cat", "doc"], check=True, stdout=subprocess.PIPE,
                                encoding="utf-8").stdout)
                        """
                )
                let elsewhere = try Self.start(
                    second,
                    looks + """

                        while not os.path.exists("../run/stop"):
                            look(open("doc").read())
                            look(open("../cloud/doc").read())
                        """
                )
                for text in ["new ", "old ", "new "] {
                    try await drive.run(
                        """
                        cloudfs coordinate --write doc -- python3 -c '
                        import os, time
                        file = open("doc", "r+b", buffering=0)
                        file.write(b"\(text)" * 1000)
                        os.fsync(file.fileno())
                        # Longer than the quiet time, after which a change is sent.
                        time.sleep(0.5)
                        file.write(b"\(text)" * 1000)
                        '
                        """
                    )
                    let whole = String(repeating: text, count: 2_000)
                    try await drive.untilCloudHas("doc", whole)
                    try await eventually("the other device has it", within: .seconds(20)) {
                        try await second.text("doc") == whole
                    }
                }
                try await drive.run("touch ../run/stop")
                #expect(try await here.wait(within: .seconds(20)) == 0)
                #expect(try await elsewhere.wait(within: .seconds(20)) == 0)
            }
        }
    }

    @Test func `locks and claims wait for each other`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let reader = try await Held("--read doc", on: drive)
            let locker = try drive.start("exec flock doc true")
            try await drive.python(
                """
                file = open("doc")
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                try: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError: pass
                else: raise AssertionError("it was locked")
                """
            )
            try await eventually("the lock waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            try await reader.letGo()
            #expect(try await locker.wait(within: .seconds(20)) == 0)

            let run = "\(drive.folder)/run"
            let holder = try drive.start(
                "exec flock doc sh -c 'touch \(run)/locked; while ! test -e \(run)/go; "
                    + "do read x < \(run)/pipe; done'"
            )
            try await drive.run("mkfifo ../run/pipe")
            try await eventually("it is locked") { access("\(run)/locked", F_OK) == 0 }
            let waiter = try drive.start("exec cloudfs coordinate --read doc -- true")
            try await eventually("the reader waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            try await drive.run("touch ../run/go; echo > ../run/pipe")
            #expect(try await holder.wait(within: .seconds(20)) == 0)
            #expect(try await waiter.wait(within: .seconds(20)) == 0)
        }
    }

    @Test func `what is claimed is not evicted`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let reader = try await Held("--read doc", on: drive)
            let refused = try await drive.cloudfs(["evict", "doc"])
            #expect(refused.status == 1)
            try await reader.letGo()
            try await drive.mustDo(["evict", "doc"])
        }
    }

    // MARK: - Folders, names and rings

    @Test func `who moves a folder waits for those below it`() async throws {
        let filling = Filling { cloud in
            try cloud.makeFolder("folder")
            try cloud.write("folder/doc", "old\n")
        }
        try await TestDrive.with(prepare: filling) { drive in
            let reader = try await Held("--read folder/doc", on: drive)
            try await drive.python(
                """
                import errno, os
                try: os.rename("folder", "moved")
                except OSError as error: assert error.errno == errno.EBUSY, error
                else: raise AssertionError("it was moved")
                """
            )
            // A claim of the folder alone says nothing of what is in it.
            try await drive.mustDo(["coordinate", "--write", "folder", "--", "true"])
            let mover = try drive.start(
                "exec cloudfs coordinate --write folder --for moving -- mv folder moved"
            )
            try await eventually("the mover waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            try await reader.letGo()
            #expect(try await mover.wait(within: .seconds(20)) == 0)
            #expect(try await drive.text("moved/doc") == "old\n")
        }
    }

    @Test func `a claim follows a document that is saved by renaming`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let writer = try await Held(
                "--write doc",
                work: "echo new > temporary; mv temporary doc",
                on: drive
            )
            let stranger = try drive.start("echo stranger >> doc")
            try await eventually("the stranger waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            try await writer.letGo()
            #expect(try await stranger.wait(within: .seconds(20)) == 0)
            #expect(try await drive.text("doc") == "new\nstranger\n")
        }
    }

    @Test func `a name is claimed before anything has it`() async throws {
        try await TestDrive.with { drive in
            let writer = try await Held("--write new", on: drive)
            try await drive.python(
                """
                import errno
                try: open("new", "w")
                except OSError as error: assert error.errno == errno.EBUSY, error
                else: raise AssertionError("a stranger made it")
                """
            )
            try await writer.letGo()
            let maker = try await Held("--write new", "maker", work: "echo new > new", on: drive)
            let stranger = try drive.start("echo stranger >> new")
            try await eventually("the stranger waits") {
                try await drive.cloudfs(["claims"]).output.contains("waits")
            }
            try await maker.letGo()
            #expect(try await stranger.wait(within: .seconds(20)) == 0)
            #expect(try await drive.text("new") == "new\nstranger\n")
        }
    }

    // MARK: - Other devices

    @Test func `writers of two devices take turns, and each begins with what the other wrote`()
        async throws
    {
        try await TestDrive.with(slots: 2, prepare: Self.document) { drive in
            try await drive.withSecondDrive { second in
                #expect(try await second.text("doc") == "old\n")
                let writer = try await Held("--write doc", work: "echo one >> doc", on: drive)
                let late = try await second.cloudfs(
                    ["coordinate", "--write", "doc", "--timeout", "0.5s", "--", "true"]
                )
                #expect(late.status == 75, "\(late)")
                #expect(late.errors.contains("cloudfs ("), "\(late)")
                let other = try second.start(
                    "exec cloudfs coordinate --write doc -- sh -c 'echo two >> doc'"
                )
                try await eventually("it is known whose turn it is") {
                    try await second.cloudfs(["claims"]).output.contains("writes doc: cloudfs (")
                }
                try await writer.letGo()
                #expect(try await other.wait(within: .seconds(40)) == 0)
                try await second.untilCloudHas("doc", "old\none\ntwo\n")
                #expect(try await second.names() == ["doc"])
            }
        }
    }

    @Test func `a turn that a killed daemon left behind is its own device's again`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let writer = try await Held("--write doc", on: drive)
            try await drive.mount.kill9()
            try await drive.mount.start()
            try await drive.mustDo(["coordinate", "--write", "doc", "--", "true"])
            writer.process.send(SIGKILL)
        }
    }

    // MARK: - Ends

    @Test func `a claim ends with its program, and can be taken from it`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let killed = try await Held("--read doc", on: drive)
            killed.process.send(SIGKILL)
            try await drive.run("echo new > doc")

            let robbed = try await Held("--read doc", "robbed", on: drive)
            let list = try await drive.cloudfs(["claims"]).output
            let number = try #require(list.firstMatch(of: /(\d+) +holds/)?.1, "\(list)")
            try await drive.mustDo(["claims", "--end", String(number)])
            try await drive.run("echo newer > doc")
            try await robbed.letGo()
            let said = Shell.text(of: "\(drive.folder)/run/robbed.out")
            #expect(said.contains("not held any more"), "\(said)")
            let unknown = try await drive.cloudfs(["claims", "--end", "999999"])
            #expect(unknown.status == 1)
        }
    }

    @Test func `a command has its own exit status, and a wrong call is told`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            for (words, status) in [
                (["--read", "doc", "--", "sh", "-c", "exit 7"], 7),
                (["--read", "doc", "--", "no-such-command"], 127),
                // By a signal that the command gets, as from any shell.
                (["--read", "doc", "--", "timeout", "0.2", "sleep", "25"], 124),
                (["--read", "absent", "--", "true"], 1), (["--read", "doc"], 64),
                (["--", "true"], 64),
            ] {
                let result = try await drive.cloudfs(["coordinate"] + words)
                #expect(result.status == status, "\(words): \(result)")
            }
            let reader = try await Held("--read doc", on: drive)
            let late = try await drive.cloudfs(
                ["coordinate", "--write", "doc", "--timeout", "0.2s", "--", "true"]
            )
            #expect(late.status == 75, "\(late)")
            try await reader.letGo()
        }
    }

    @Test func `a claim that is taken away while its file is brought here is not granted`()
        async throws
    {
        let film = Filling { try $0.write("film", [UInt8](repeating: 1, count: 4_000_000)) }
        try await TestDrive.with(["--download-limit", "50KB"], prepare: film) { drive in
            let reader = try drive.start(
                "exec cloudfs coordinate --read film -- touch ran",
                output: "\(drive.folder)/run/reader"
            )
            var number: Int?
            try await eventually("it is brought here") {
                let list = try await drive.cloudfs(["claims"]).output
                number = list.firstMatch(of: /(\d+) +holds/).flatMap { Int($0.1) }
                return try await drive.fetched().count > 0 && number != nil
            }
            try await drive.mustDo(["claims", "--end", String(try #require(number))])
            #expect(try await reader.wait(within: .seconds(10)) != 0)
            #expect(try await !drive.exists("ran"))
        }
    }

    @Test func `claims and news are plain HTTP`() async throws {
        try await TestDrive.with(prepare: Self.document) { drive in
            let socket = try await drive.run(
                """
                cloudfs mounts --json | python3 -c '
                import json, os, sys
                drives = {drive["mountpoint"]: drive for drive in json.load(sys.stdin)}
                print(drives[os.environ["DRIVE"]]["socket"])'
                """
            )
            let watcher = try drive.start(
                "exec curl -sN --unix-socket \(socket) http://drive/v1/events",
                output: "\(drive.folder)/run/events"
            )
            func told() -> String { Shell.text(of: "\(drive.folder)/run/events") }
            try await eventually("it listens") { told().contains("listening") }
            try await drive.run("echo a > a; mv a b")
            // Of an item that is gone by then no path could be told.
            try await eventually("the move is told", within: .seconds(20)) {
                told().contains(#""from":"a","kind":"moved""#)
            }
            try await drive.run("rm b")
            try drive.cloud.write("remote", "r")
            try await eventually("all is told", within: .seconds(20)) {
                told().contains(#""kind":"vanished","origin":"local","path":"b""#)
                    && told().contains(#""path":"remote""#)
            }
            #expect(told().contains(#""kind":"appeared""#))
            #expect(told().contains(#""origin":"cloud""#))
            watcher.send(SIGTERM)
            _ = try await watcher.wait(within: .seconds(5))
        }
    }

    @Test func `who presents an item hears that a folder above it moved or is gone`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("A/doc", "text")
                try cloud.write("F/doc", "text")
            }
        ) { drive in
            _ = try await drive.run("cat A/doc F/doc")
            let socket = try await drive.run(
                """
                cloudfs mounts --json | python3 -c '
                import json, os, sys
                drives = {drive["mountpoint"]: drive for drive in json.load(sys.stdin)}
                print(drives[os.environ["DRIVE"]]["socket"])'
                """
            )
            func present(_ path: String, as name: String) throws -> ChildProcess {
                try drive.start(
                    """
                    exec curl -sN --unix-socket \(socket) -H 'content-type: application/json' \
                        -d '{"path": "\(path)"}' http://drive/v1/presenters
                    """,
                    output: "\(drive.folder)/run/\(name)"
                )
            }
            func told(_ name: String) -> String { Shell.text(of: "\(drive.folder)/run/\(name)") }
            let presenters = [
                try present("A/doc", as: "first"), try present("F/doc", as: "second"),
            ]
            try await eventually("they are there") {
                !told("first").isEmpty && !told("second").isEmpty
            }
            try await drive.run("mv A B")
            try await eventually("the move is told", within: .seconds(20)) {
                told("first").contains("didMove") && told("first").contains("B/doc")
            }
            try await drive.run("rm -r F")
            try await eventually("the end is told", within: .seconds(20)) {
                told("second").contains("wasDeleted")
            }
            for presenter in presenters {
                presenter.send(SIGTERM)
                _ = try await presenter.wait(within: .seconds(5))
            }
        }
    }

    /// Each asks for what has the name at that moment, which may be replaced before it is granted.
    @Test func `regression: who saves by renaming under a claim loses no other's save`()
        async throws
    {
        let count = 300
        try await TestDrive.with(prepare: Filling { try $0.write("doc", "0") }) { drive in
            let programs = try (1...3).map { number in
                try drive.start(
                    """
                    exec python3 - <<'EOF'
                    import json, os, socket, subprocess
                    drives = json.loads(subprocess.check_output(["cloudfs", "mounts", "--json"]))
                    sockets = {drive["mountpoint"]: drive.get("socket") for drive in drives}
                    order = json.dumps({"intents": [{"path": "doc", "access": "write"}]}).encode()
                    head = "POST /v1/claims HTTP/1.1\\r\\nHost: d\\r\\n"
                    head += f"Content-Length: {len(order)}\\r\\n\\r\\n"
                    for _ in range(\(count)):
                        claim = socket.socket(socket.AF_UNIX)
                        claim.connect(sockets[os.environ["DRIVE"]])
                        claim.sendall(head.encode() + order)
                        answer = b""
                        while b'"granted"' not in answer:
                            more = claim.recv(65536)
                            assert more, answer
                            answer += more
                        value = int(open("doc").read())
                        with open(".doc-\(number)", "w") as new: new.write(str(value + 1))
                        os.rename(".doc-\(number)", "doc")
                        claim.close()
                    EOF
                    """,
                    output: "\(drive.folder)/run/\(number).out"
                )
            }
            for (index, program) in programs.enumerated() {
                let status = try await program.wait(within: .seconds(120))
                #expect(status == 0, "\(Shell.text(of: "\(drive.folder)/run/\(index + 1).out"))")
            }
            #expect(try await drive.text("doc") == "\(3 * count)")
        }
    }
}
