import CloudFSTestSupport
import Foundation
import Glibc
import Testing

/// The drive outlives the process that serves it.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct SurvivalTests {
    private static let ways = [["--no-passthrough"], []]

    /// Kills whoever serves the drive, and waits until another one does.
    private static func killWorker(of drive: TestDrive) async throws {
        func count() -> Int { drive.mount.logText.matches(of: /has taken over the drive/).count }
        let before = count()
        #expect(kill(try #require(drive.mount.worker), SIGKILL) == 0)
        try await eventually("another worker serves", within: .seconds(20)) { count() > before }
    }

    @Test(arguments: Reads.allCases)
    func `what was only opened for writing keeps its time`(reads: Reads) async throws {
        let file = Filling { cloud in
            try cloud.write("file", HydrationTests.bytes(200_000))
            try cloud.setTimes("file", nanoseconds: 1_234_567_890_000_000_000)
        }
        try await TestDrive.with(reads.arguments, prepare: file) { drive in
            try await drive.run("cat file > /dev/null")
            let holder = try drive.start("exec sleep 60 <> file")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/file") }
            try await Self.killWorker(of: drive)
            #expect(try await drive.run("stat -c %Y file") == "1234567890")
            holder.send(SIGKILL)
            try await drive.drain()
            #expect(try await drive.run("stat -c %Y \"$CLOUD/file\"") == "1234567890")
        }
    }

    @Test func `what is read before it is stored as resident can be written by the next worker`()
        async throws
    {
        var options = TestMount.Options()
        options.environment = ["CLOUDFS_FAULTS": "hydrate.flushed=delay:5000"]
        let file = Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        try await TestDrive.with(options: options, prepare: file) { drive in
            let disk = try await drive.run("stat -f -c %T '\(drive.mount.state)'")
            guard disk != "tmpfs" else { return }
            try await drive.run("cat file > /dev/null")
            let holder = try drive.start("exec sleep 60 < file")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/file") }
            let marked = "find '\(drive.mount.state)/content' -type f -perm -1000 | wc -l"
            try #require(try await drive.run(marked) == "1")
            try await Self.killWorker(of: drive)
            try await drive.run("printf more >> file")
            holder.send(SIGKILL)
            try await drive.drain()
            #expect(try await drive.run("tail -c 4 \"$CLOUD/file\"") == "more")
        }
    }

    /// A program that goes on until there is a file `stop` beside the drive, and says that it has
    /// begun by one of its own.
    private static func program(_ name: String, _ body: String) -> String {
        """
        import errno, fcntl, hashlib, mmap, os, pathlib, sqlite3, subprocess, sys, time
        os.chdir(os.environ["DRIVE"])
        beside = pathlib.Path(os.environ["DRIVE"]).parent / "run"
        rounds = 0
        def goes_on():
            global rounds
            rounds += 1
            if rounds == 2: (beside / "\(name).begun").touch()
            return rounds < 3 or not (beside / "stop").exists()
        \(body)
        """
    }

    private static let programs = [
        "copies": """
        data = os.urandom(6_000_000)
        while goes_on():
            with open("big", "wb") as file: file.write(data)
            subprocess.run(["cp", "big", "copy"], check=True)
            if open("copy", "rb").read() != data:
                # Which of the two is wrong, by how much, and whether it stays so.
                for _ in range(3):
                    for name in "big", "copy":
                        there = open(name, "rb").read()
                        print(name, os.stat(name), len(there), there == data[:len(there)])
                    time.sleep(1)
                raise AssertionError(f"round {rounds}")
        """,
        "saves": """
        while goes_on():
            with open(".save", "w") as file:
                file.write(f"version {rounds}")
                file.flush()
                os.fsync(file.fileno())
            os.rename(".save", "document")
            assert open("document").read() == f"version {rounds}"
        """,
        "appends": """
        with open("log", "a") as log:
            while goes_on():
                log.write(f"line {rounds}\\n")
                log.flush()
        assert open("log").read() == "".join(f"line {n}\\n" for n in range(1, rounds))
        """,
        "transactions": """
        database = sqlite3.connect("base.sqlite")
        database.execute("CREATE TABLE n (v INTEGER)")
        while goes_on():
            with database: database.execute("INSERT INTO n VALUES (?)", (rounds,))
        assert database.execute("SELECT count(*) FROM n").fetchone()[0] == rounds - 1
        assert database.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        """,
        "trees": """
        while goes_on():
            os.makedirs("tree/a/b")
            for n in range(10): pathlib.Path(f"tree/a/b/{n}").write_text(str(n))
            names = []
            with os.scandir("tree/a/b") as entries:
                for entry in entries: names.append(entry.name)
            assert sorted(names) == [str(n) for n in range(10)], names
            os.rename("tree/a", "tree/c")
            subprocess.run(["rm", "-r", "tree"], check=True)
        """,
        "mappings": """
        with open("mapped", "w+b") as file:
            file.truncate(65536)
            memory = mmap.mmap(file.fileno(), 65536)
            while goes_on():
                memory[rounds % 65536] = rounds % 251
                memory.flush()
                assert os.pread(file.fileno(), 1, rounds % 65536)[0] == rounds % 251
        """,
        "locks": """
        with open("locked", "w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            code = ("import fcntl\\nfile = open('locked', 'r+')\\n"
                    "fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)")
            while goes_on():
                other = subprocess.run([sys.executable, "-c", code], capture_output=True)
                assert other.returncode == 1 and b"BlockingIOError" in other.stderr, other
        """,
        "unlinked": """
        file = open("temporary", "w+b")
        file.write(b"kept")
        file.flush()
        os.unlink("temporary")
        while goes_on():
            assert os.pread(file.fileno(), 9, 0) == b"kept"
            os.pwrite(file.fileno(), b"kept", 0)
        assert os.fstat(file.fileno()).st_nlink == 0
        """,
        "streams": """
        for n in range(300): open(f"many/{n}", "w").close()
        while goes_on():
            with os.scandir("many") as entries:
                assert len({entry.name for entry in entries}) == 300
            assert len(os.listdir("many")) == 300
        """,
        "placeholders": """
        expected = hashlib.sha256(bytes(range(250)) * 4000).hexdigest()
        while goes_on():
            assert hashlib.sha256(open("cloudy", "rb").read()).hexdigest() == expected
            try:
                os.setxattr("cloudy", "user.cloudfs.evict", b"1")
            except OSError as error:
                # The kernel tells of a close when it likes.
                assert error.errno == errno.EBUSY
        """,
    ]

    @Test(arguments: ways)
    func `programs under way do not notice that workers die`(arguments: [String]) async throws {
        let filling = Filling { cloud in
            try cloud.makeFolder("many")
            let pattern = (0..<1_000_000).map { UInt8($0 % 250) }
            try cloud.write("cloudy", pattern)
        }
        try await TestDrive.with(arguments, slots: 2, prepare: filling) { drive in
            let beside = TestFolder(drive.folder + "/run")
            var running: [(name: String, process: ChildProcess)] = []
            for (name, body) in Self.programs.sorted(by: { $0.key < $1.key }) {
                try beside.write("\(name).py", Self.program(name, body))
                let process = try drive.start(
                    "exec python3 \(drive.folder)/run/\(name).py",
                    output: "\(drive.folder)/run/\(name).out"
                )
                running.append((name, process))
            }
            try await eventually("all have begun", within: .seconds(60)) {
                running.allSatisfy { program in
                    program.process.status != nil
                        || access("\(drive.folder)/run/\(program.name).begun", F_OK) == 0
                }
            }
            for _ in 1...4 { try await Self.killWorker(of: drive) }
            try beside.write("stop", "")
            for (name, process) in running {
                let status = try await process.wait(within: .seconds(60))
                #expect(
                    status == 0,
                    "\(name): \(Shell.text(of: "\(drive.folder)/run/\(name).out"))"
                )
            }
            try await drive.drain()
            #expect(try await drive.run("cloudfs check").contains("nothing is wrong"))
            #expect(drive.mount.logText.matches(of: /another one takes over/).count == 4)
        }
    }

    @Test func `commits to a repository go on, which can be cloned then`() async throws {
        try await TestDrive.with(slots: 2) { drive in
            let commits = try drive.start(
                """
                set -e; export GIT_CONFIG_GLOBAL=/dev/null
                git init -q origin; cd origin; git config user.name n; git config user.email e@x
                for i in $(seq 60); do
                    mkdir d$i; for j in 1 2 3 4; do echo "$i $j" > d$i/f$j; done
                    git add .; git commit -qm "$i"
                done
                cd ..; git clone -q --no-local origin clone; git -C clone fsck --strict
                diff -r -x .git origin clone
                """,
                output: "\(drive.folder)/run/commits.out"
            )
            for _ in 1...3 {
                try await Self.killWorker(of: drive)
                try await Task.sleep(for: .milliseconds(500))
            }
            let status = try await commits.wait(within: .seconds(120))
            #expect(status == 0, "\(Shell.text(of: "\(drive.folder)/run/commits.out"))")
        }
    }

    @Test func `cloudfs restart is not noticed either, and says who serves now`() async throws {
        try await TestDrive.with { drive in
            let before = try #require(drive.mount.worker)
            try await drive.python(
                """
                import subprocess
                with open("file", "w") as file:
                    file.write("before")
                    file.flush()
                    said = subprocess.run(["cloudfs", "restart"], capture_output=True, text=True)
                    assert said.returncode == 0, said
                    file.write(", after")
                assert open("file").read() == "before, after"
                """
            )
            let after = try #require(drive.mount.worker)
            #expect(after != before)
            let pid = try #require(drive.mount.pid)
            #expect(try await drive.run("cloudfs status").contains("pid \(pid),"))
            let again = try await drive.run("cloudfs restart")
            #expect(again.contains("served by pid \(drive.mount.worker ?? 0), version"))
        }
    }

    @Test func `locks of open files outlive a worker, and end with their files`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                import subprocess
                def lock(file, number):
                    fcntl.fcntl(file, number, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
                def other(how):
                    code = ("import fcntl, sys\\nwith open('file', 'r+') as file:\\n"
                            f" try: fcntl.{how}\\n"
                            " except OSError as error: sys.exit(error.errno)")
                    return subprocess.run([sys.executable, "-c", code]).returncode
                with open("file", "w") as file:
                    lock(file, 37)
                    fcntl.flock(file, fcntl.LOCK_EX)
                    file.write("text")
                    file.flush()
                    subprocess.run(["cloudfs", "restart"], check=True)
                    for how in "lockf", "flock":
                        assert other(f"{how}(file, fcntl.LOCK_EX | fcntl.LOCK_NB)") == errno.EAGAIN
                for how in "lockf", "flock":
                    assert other(f"{how}(file, fcntl.LOCK_EX)") == 0
                """
            )
            try await drive.drain()
        }
    }

    @Test func `a drive that is told to end while a worker takes over is gone`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("echo text > file")
            let first = try #require(drive.mount.worker)
            #expect(kill(first, SIGKILL) == 0)
            try await eventually("another worker begins") {
                drive.mount.worker.map { $0 != first } ?? false
            }
            drive.mount.send(SIGTERM)
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
            #expect(MountEntry.at(drive.path).isEmpty)
        }
    }

    @Test func `unmounting while a worker takes over unmounts`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("echo text > file")
            let first = try #require(drive.mount.worker)
            #expect(kill(first, SIGKILL) == 0)
            let result = try await drive.cloudfs(["unmount", drive.path])
            #expect(result.status == 0, "\(result)")
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
            #expect(drive.cloud.text("file") == "text\n")
        }
    }

    /// The drive, taken from its place, goes on for a program that stands in it.
    @Test(.asRoot)
    func `what was mounted in a drive's place stays when the drive ends`() async throws {
        try await TestDrive.with { drive in
            let holder = try drive.start("exec sleep 60")
            try await eventually("a program stands in it") {
                let folder = try? SystemCall.symlinkTarget("/proc/\(holder.pid)/cwd")
                return folder == drive.path
            }
            try await drive.run(
                """
                cd /; umount -l "$DRIVE"
                mount -t tmpfs other "$DRIVE"
                echo other > "$DRIVE/file"
                """
            )
            try await Self.killWorker(of: drive)
            drive.mount.send(SIGTERM)
            #expect(try await drive.mount.wait(within: .seconds(25)) == 0)
            #expect(MountEntry.at(drive.path).map(\.type) == ["tmpfs"])
            #expect(try await drive.run("cat \"$DRIVE/file\"; cd /; umount \"$DRIVE\"") == "other")
        }
    }

    /// A content file that the kernel keeps looks as if programs wrote it for ever.
    @Test func `a worker that dies during a close leaves nothing of the open file`() async throws {
        var options = TestMount.Options()
        options.environment = ["CLOUDFS_FAULTS": "close.begun=crash"]
        try await TestDrive.with(options: options) { drive in
            try await drive.python(
                """
                file = os.open("file", os.O_CREAT | os.O_RDWR)
                os.write(file, b"text")
                fcntl.flock(file, fcntl.LOCK_EX)
                # So many that the first one is not found by looking at the last few.
                others = [os.open(f"other {n}", os.O_CREAT | os.O_WRONLY) for n in range(70)]
                os.close(file)
                file = os.open("file", os.O_RDWR)
                fcntl.flock(file, fcntl.LOCK_EX)
                """
            )
            try await drive.drain()
            try await eventually("the file is clean", within: .seconds(20)) {
                try await drive.cloudfs(["evict", "file"]).status == 0
            }
            #expect(drive.mount.logText.contains("the fault point close.begun is reached"))
        }
    }

    @Test func `a listing goes on, and ends where it would have`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<1_500 { try cloud.write("\(number)", "") }
            }
        ) { drive in
            try await drive.python(
                """
                import subprocess
                stream = os.scandir(".")
                seen = [next(stream).name]
                subprocess.run(["cloudfs", "restart"], check=True)
                for number in range(100): open(f"new{number}", "w").close()
                seen += [entry.name for entry in stream]
                assert sorted(seen) == sorted(str(number) for number in range(1500)), len(seen)
                """
            )
        }
    }

    @Test func `a worker that crashes over and over is not restarted for ever`() async throws {
        let filling = Filling { try $0.write("file", "text") }
        try await TestDrive.with(ending: .killed, prepare: filling) { drive in
            try await drive.run("echo local > mine; ls -l")
            try await drive.mount.stop()
            let drive = try await drive.again(TestMount.Options.hanging + ["--read-timeout", "1h"])
            let reader = try drive.start("cat file", output: "\(drive.folder)/run/reader")
            let holder = try drive.start(
                """
                exec python3 -c 'import os, sys, time
                file = os.open("mine", os.O_RDONLY)
                try:
                    while True:
                        os.fstatvfs(file)
                        time.sleep(0.01)
                except OSError as error:
                    sys.exit(error.errno)'
                """
            )
            for _ in 1...4 { try await Self.killWorker(of: drive) }
            #expect(kill(try #require(drive.mount.worker), SIGKILL) == 0)
            #expect(try await drive.mount.wait() == 1)
            #expect(drive.mount.logText.contains("the 5th time in a minute; the drive ends"))
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(try await reader.wait(within: .seconds(10)) != 0)
            let number = try await holder.wait(within: .seconds(10))
            #expect([ENOTCONN, EIO, ECONNABORTED].contains(number))
        }
    }

    @Test func `any command takes away a mount that has lost all of its processes`() async throws {
        try await TestDrive.with(ending: .killed) { drive in
            try await drive.run("echo text > file")
            try await drive.mount.kill9()
            try await eventually("the mount is dead") {
                let result = try await Shell.run(["stat", "-f", drive.path])
                return result.errors.contains("Transport endpoint")
            }
            let said = try await Shell.run(
                [TestMount.binary("cloudfs"), "mounts"],
                environment: drive.environment
            )
            #expect(said.errors.contains("had lost its daemon, and is detached"))
            #expect(MountEntry.at(drive.path).isEmpty)
            let again = try await drive.again()
            #expect(try await again.text("file") == "text\n")
        }
    }

    /// Runs `script` while `$daemon` serves the drive with a program file of its own, in whose
    /// place `put` has another one.
    private static func run(_ script: String, replacing drive: TestDrive) async throws -> String {
        try await drive.mount.stop()
        let daemon = drive.mount.command.map {
            $0.hasPrefix("/") && $0.hasSuffix("cloudfs-mount")
                ? "\(drive.folder)/run/cloudfs-mount" : "'\($0)'"
        }
        return try await drive.run(
            """
            cd /; run=\(drive.folder)/run
            put() { printf "$1" > $run/new; chmod +x $run/new; mv $run/new $run/cloudfs-mount; }
            cp \(TestMount.binary("cloudfs-mount")) $run/cloudfs-mount
            \(daemon.joined(separator: " ")) > $run/log 2>&1 & daemon=$!
            trap 'kill $daemon; wait $daemon' EXIT
            until cloudfs status "$DRIVE" > /dev/null 2>&1; do sleep 0.05; done
            \(script)
            """
        )
    }

    @Test(arguments: [
        ("#!/bin/sh\\nexit 3\\n", "the new daemon ended with status 3"),
        ("half an ELF", "the drive's worker cannot be started: Exec format error"),
    ])
    func `a new version that does not come up leaves the old one`(
        file: String,
        reason: String
    ) async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            let said = try await Self.run(
                """
                put '\(file)'
                cloudfs restart "$DRIVE" 2>&1 && exit 1
                cat "$DRIVE/file"
                """,
                replacing: drive
            )
            #expect(said.contains("\(reason); the old one goes on"))
            #expect(said.hasSuffix("text"))
        }
    }

    @Test(arguments: [
        ("#!/bin/sh\\nexit 3\\n", "the drive's next worker ended with status 3; it is"),
        ("half an ELF", "the drive's worker cannot be started: Exec format error; it is"),
    ])
    func `a drive whose worker dies while its program is being written goes on`(
        file: String,
        reason: String
    ) async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            let said = try await Self.run(
                """
                # From then on the supervisor takes the drive for usable.
                until cloudfs restart "$DRIVE" > /dev/null 2>&1; do sleep 0.05; done
                ln $run/cloudfs-mount $run/whole
                put '\(file)'
                kill -KILL $(cat /proc/$daemon/task/*/children) || :
                until grep -q 'it is tried again' $run/log; do sleep 0.05; done
                mv $run/whole $run/cloudfs-mount
                cat "$DRIVE/file"
                """,
                replacing: drive
            )
            #expect(said == "text")
            let log = Shell.text(of: "\(drive.folder)/run/log")
            #expect(log.contains(reason), "\(log)")
        }
    }

    /// So that `ps` tells whose process it is.
    @Test func `a worker shows the command line of its mount`() async throws {
        try await TestDrive.with { drive in
            let worker = try #require(drive.mount.worker)
            let words = Shell.text(of: "/proc/\(worker)/cmdline").split(separator: "\0")
            #expect(words.first == "cloudfs-mount")
            #expect(Array(words.suffix(2)) == [drive.mount.container[...], drive.path[...]])
        }
    }
}
