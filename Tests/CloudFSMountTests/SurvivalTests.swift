import CloudFSTestSupport
import Foundation
import Glibc
import Testing

/// The drive outlives the process that serves it.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct SurvivalTests {
    private static let ways = [["--no-passthrough"], []]

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
            try await drive.loseWorker()
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
            try await drive.loseWorker()
            try await drive.run("printf more >> file")
            holder.send(SIGKILL)
            try await drive.drain()
            #expect(try await drive.run("tail -c 4 \"$CLOUD/file\"") == "more")
        }
    }

    @Test(arguments: ways)
    func `programs under way do not notice that workers die`(arguments: [String]) async throws {
        let filling = Filling { cloud in
            try cloud.makeFolder("many")
            let pattern = (0..<1_000_000).map { UInt8($0 % 250) }
            try cloud.write("cloudy", pattern)
        }
        try await TestDrive.with(arguments, slots: 2, prepare: filling) { drive in
            let programs = try await WorkingPrograms.start(in: drive)
            for _ in 1...4 { try await drive.loseWorker() }
            try await programs.finish()
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
                try await drive.loseWorker()
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
            try await drive.loseWorker()
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
            for _ in 1...4 { try await drive.loseWorker() }
            #expect(kill(try #require(drive.mount.worker), SIGKILL) == 0)
            #expect(try await drive.mount.wait() == 1)
            #expect(drive.mount.logText.contains("the 5th time in a minute; the drive ends"))
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(try await reader.wait(within: .seconds(10)) != 0)
            let number = try await holder.wait(within: .seconds(10))
            #expect([ENOTCONN, EIO, ECONNABORTED].contains(number))
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
