import CloudFSTestSupport
import Foundation
import Glibc
import Testing

/// From the command line to a usable drive, and to its end.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct MountingTests {
    @Test func `it is mounted as fuse.cloudfs, nosuid and nodev`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            let mount = try #require(MountEntry.at(drive.path).first)
            #expect(mount.type == "fuse.cloudfs")
            #expect(mount.options.isSuperset(of: ["nosuid", "nodev"]))
            #expect(try await drive.text("a") == "1")
        }
    }

    @Test func `without -f it returns when the drive is usable and leaves a daemon`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            try await drive.mount.stop()
            let arguments = drive.mount.command.filter { $0 != "-f" }
            // Something that the shell has open, and means for nobody.
            let result = try await Shell.run(
                ["bash", "-c", "exec 8< \"$CLOUD\" 12< /etc/passwd; exec \"$@\"", "-"] + arguments,
                environment: drive.environment
            )
            #expect(result.status == 0, "\(result)")
            #expect(try await drive.text("a") == "1")
            let daemon = try #require(Self.owner(of: drive.mount.state))
            #expect(daemon != drive.mount.pid)
            #expect(try await !drive.run("readlink /proc/\(daemon)/fd/*").contains("/etc/passwd"))
            #expect(try await drive.run("readlink /proc/\(daemon)/cwd") == "/")
            try await drive.run("cd /; fusermount3 -u \"$DRIVE\"")
            #expect(MountEntry.at(drive.path).isEmpty)
            try await eventually("the daemon ends") { kill(daemon, 0) != 0 }
        }
    }

    /// The process number in a state directory's lock.
    static func owner(of state: String) -> pid_t? {
        let text = FileManager.default.contents(atPath: state + "/lock") ?? Data()
        return String(decoding: text, as: UTF8.self).split(separator: "\n").first.flatMap {
            pid_t($0)
        }
    }

    @Test func `-o ro refuses every change with EROFS`() async throws {
        try await TestDrive.with(
            ["-o", "ro"],
            prepare: Filling { cloud in
                try cloud.write("file", "text")
                try cloud.makeFolder("folder")
            }
        ) { drive in
            #expect(MountEntry.at(drive.path).first?.options.contains("ro") == true)
            try await drive.python(
                """
                assert open("file").read() == "text"
                fails(errno.EROFS, os.open, "file", os.O_WRONLY)
                fails(errno.EROFS, os.open, "new", os.O_CREAT | os.O_WRONLY)
                fails(errno.EROFS, os.truncate, "file", 0)
                fails(errno.EROFS, os.rename, "file", "other")
                fails(errno.EROFS, os.unlink, "file")
                fails(errno.EROFS, os.rmdir, "folder")
                fails(errno.EROFS, os.mkdir, "new")
                fails(errno.EROFS, os.symlink, "file", "new")
                fails(errno.EROFS, os.chmod, "file", 0o600)
                fails(errno.EROFS, os.utime, "file")
                fails(errno.EROFS, os.setxattr, "file", "user.a", b"1")
                """
            )
        }
    }

    @Test(arguments: [SIGTERM, SIGINT])
    func `a signal ends it cleanly and what waits is uploaded first`(signal: Int32) async throws {
        var options = TestMount.Options()
        options.quietTime = "30s"
        try await TestDrive.with(options: options) { drive in
            try await drive.write("late", "written just before the end")
            drive.mount.send(signal)
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(drive.cloud.text("late") == "written just before the end")
        }
    }

    @Test func `a second SIGINT ends it at once, and nothing is lost`() async throws {
        try await TestDrive.with(["--upload-limit", "2KB"]) { drive in
            try await drive.run("head -c 2M /dev/urandom > large; cp large \"$SCRATCH\"")
            drive.mount.send(SIGINT)
            try await eventually("it is unmounted") { MountEntry.at(drive.path).isEmpty }
            drive.mount.send(SIGINT)
            #expect(try await drive.mount.wait(within: .seconds(5)) == 128 + SIGINT)
            #expect(drive.mount.logText.contains("ending at once; what is queued"))
            #expect(!drive.mount.logText.contains("cannot be detached"))
            let again = try await drive.again([])
            try await again.drain()
            try await again.run("cmp \"$SCRATCH/large\" \"$CLOUD/large\"")
        }
    }

    @Test func `fusermount3 -u ends it cleanly`() async throws {
        try await TestDrive.with { drive in
            try await drive.write("late", "text")
            try await drive.run("cd /; fusermount3 -u \"$DRIVE\"")
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
            #expect(drive.cloud.text("late") == "text")
        }
    }

    /// Whoever waits for an answer in that moment is told something else than who asks later.
    @Test func `a daemon that dies while it is asked is replaced`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            let processes = [try #require(drive.mount.worker), try #require(drive.mount.pid)]
            for process in processes { kill(process, SIGSTOP) }
            let mounting = try ChildProcess(
                drive.mount.command.filter { $0 != "-f" },
                environment: drive.environment,
                output: "/dev/null",
                errors: "/dev/null"
            )
            let threads = "/proc/\(mounting.pid)/task"
            try await eventually("it is asked") {
                try FileManager.default.contentsOfDirectory(atPath: threads).contains {
                    Shell.text(of: "\(threads)/\($0)/wchan").contains("request_wait_answer")
                }
            }
            for process in processes { kill(process, SIGKILL) }
            #expect(try await mounting.wait(within: .seconds(15)) == 0)
            #expect(try await drive.text("a") == "1")
            try await drive.run("cd /; fusermount3 -u \"$DRIVE\"")
            _ = try await drive.mount.wait()
        }
    }

    /// Nobody heard of its mount, as the kernel has said nothing yet.
    @Test func `a daemon that dies when it has just mounted leaves no mount`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            try await drive.mount.stop()
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "mount.made=crash"])
            let failure = await #expect(throws: TestMount.NotReady.self) {
                _ = try await drive.again()
            }
            #expect(failure?.status == 1)
            let log = failure?.log ?? ""
            #expect(log.contains("the fault point mount.made is reached"))
            #expect(log.contains("before the drive was usable"))
            #expect(MountEntry.at(drive.path).isEmpty)
            drive.mount.change(environment: [:])
            #expect(try await drive.again().text("a") == "1")
        }
    }

    /// As a container does that was started meanwhile.
    @Test(.asRoot)
    func `it ends although another namespace has a copy of its mount`() async throws {
        try await TestDrive.with { drive in
            let container = try drive.start(
                """
                cd /
                exec unshare --mount --propagation private bash -c '
                    cd "$DRIVE"
                    echo 1 > "$SCRATCH/there"
                    sleep 60
                '
                """
            )
            let sign = "\(drive.folder)/run/there"
            try await eventually("there is a copy") { access(sign, F_OK) == 0 }
            drive.mount.send(SIGTERM)
            #expect(try await drive.mount.wait(within: .seconds(25)) == 0)
            #expect(MountEntry.at(drive.path).isEmpty)
            var statistics = statvfs()
            let copy = "/proc/\(container.pid)/root\(drive.path)"
            #expect(statvfs(copy, &statistics) != 0 && errno == ENOTCONN)
        }
    }

    @Test(.asRoot, .enabled(if: MountingTests.nobodyCanRun, "others cannot reach the binary"))
    func `another user than root mounts through fusermount3`() async throws {
        try await Self.asNobody(Self.mounting + Self.userScript) { cloud in
            #expect(cloud.text("folder/new") == "new\n")
            #expect(!cloud.exists("a"))
        }
    }

    @Test(.asRoot, .enabled(if: MountingTests.nobodyCanRun, "others cannot reach the binary"))
    func `a folder of the cloud that may not be listed hides no news of others`() async throws {
        try await Self.asNobody(Self.mounting + Self.closedScript) { cloud in
            #expect(cloud.exists("closed") && !cloud.exists("open/file"))
        }
    }

    /// The directory does not tell them to its owner either.
    @Test(.asRoot, .enabled(if: MountingTests.nobodyCanRun, "others cannot reach the binary"))
    func `attributes outlive a mode that hides them`() async throws {
        try await Self.asNobody(Self.mounting + Self.hidingScript) { cloud in
            let told = try await Shell.run(
                ["getfattr", "--only-values", "-n", "user.note", "\(cloud.path)/file"]
            )
            #expect(told.output == "kept")
        }
    }

    /// Their directory refuses its owner, too.
    @Test(.asRoot, .enabled(if: MountingTests.nobodyCanRun, "others cannot reach the binary"))
    func `a tree of read-only folders reaches the cloud and goes from it`() async throws {
        try await Self.asNobody(Self.mounting + Self.readOnlyScript) { cloud in
            #expect(!cloud.exists("tree") && cloud.exists("a"))
        }
    }

    /// Runs a script as a user who is nobody, in a folder with a cloud and a mountpoint.
    ///
    /// - Parameter check: Looks at the cloud afterwards.
    static func asNobody(
        _ script: String,
        _ check: (TestFolder) async throws -> Void = { _ in },
        prepare: (TestFolder) throws -> Void = { try $0.write("a", "1") }
    ) async throws {
        let folder = try Shell.makeTemporaryFolder()
        defer { Shell.removeTree(folder) }
        for name in ["cloud", "drive", "run"] { try TestFolder(folder).makeFolder(name) }
        try prepare(TestFolder(folder + "/cloud"))
        try TestFolder(folder).write("script", script)
        // A namespace of its own, as some machines let only root open /dev/fuse.
        let result = try await Shell.script(
            """
            cd "$FOLDER"
            chown -R 65534:65534 .
            exec unshare -m bash -ec '
                mknod -m 666 fuse c 10 229
                mount --bind fuse /dev/fuse
                trap "kill \\$(head -1 state/lock) 2> /dev/null || true" EXIT
                setpriv --reuid=65534 --regid=65534 --clear-groups bash -ex script
            '
            """,
            environment: [
                "FOLDER": folder, "XDG_RUNTIME_DIR": "\(folder)/run", "HOME": folder,
                "MOUNT": TestMount.binary("cloudfs-mount"),
            ]
        )
        #expect(result.status == 0, "\(result)")
        try await check(TestFolder(folder + "/cloud"))
    }

    private static let hidingScript = """
        start
        echo text > drive/file
        setfattr -n user.note -v kept drive/file
        for mode in 644 0 644; do
            chmod $mode drive/file
            "${MOUNT%-mount}" drain --wait drive
            [ "$(stat -c %a cloud/file)" = $mode ]
        done
        [ "$(getfattr --only-values -n user.note drive/file)" = kept ]
        # By somebody else, and seen before it is undone.
        chmod 0 cloud/file
        eventually has_mode 0 drive/file
        chmod 644 drive/file
        "${MOUNT%-mount}" drain --wait drive
        has_mode 644 cloud/file
        [ "$(getfattr --only-values -n user.note drive/file)" = kept ]
        end
        """

    private static let readOnlyScript = """
        start
        mkdir -p drive/tree/below
        echo 1 > drive/tree/below/file
        echo 1 > drive/tree/file
        chmod 555 drive/tree/below drive/tree
        "${MOUNT%-mount}" drain --wait drive
        [ "$(cat cloud/tree/below/file cloud/tree/file | wc -c)" = 4 ]
        has_mode 555 cloud/tree/below
        has_mode 555 cloud/tree
        chmod 755 drive/tree
        rm drive/tree/file
        chmod 555 drive/tree
        "${MOUNT%-mount}" drain --wait drive
        is_absent cloud/tree/file
        has_mode 555 cloud/tree
        chmod -R u+w drive/tree
        rm -r drive/tree
        "${MOUNT%-mount}" drain --wait drive
        end
        """

    private static let mounting = """
        umask 022
        start() { "$MOUNT" --state-dir state --quiet-time 50ms "local:$PWD/cloud" drive; }
        eventually() {
            for turn in $(seq 200); do
                if "$@" 2> /dev/null; then return; fi
                sleep 0.1
            done
            return 1
        }
        end() {
            daemon=$(head -1 state/lock)
            fusermount3 -u drive
            eventually is_gone "$daemon"
        }
        is_gone() { ! kill -0 "$1"; }
        is_absent() { [ ! -e "$1" ]; }
        has_mode() { [ "$(stat -c %a "$2")" = "$1" ]; }

        """

    private static let closedScript = """
        mkdir cloud/closed cloud/open
        echo 1 > cloud/closed/file
        echo 1 > cloud/open/file
        start
        [ "$(cat drive/closed/file drive/open/file | wc -c)" = 4 ]
        end
        chmod 000 cloud/closed
        rm cloud/open/file
        start
        eventually is_absent drive/open/file
        # Nobody tells of what happens in it.
        chmod 700 cloud/closed
        echo 1 > cloud/closed/late
        eventually [ -e drive/closed/late ]
        end
        """

    private static let userScript = """
        start
        grep -F "$PWD/drive fuse.cloudfs rw,nosuid,nodev,relatime,user_id=65534" /proc/mounts
        [ "$(cat drive/a)" = 1 ]
        echo new > drive/new
        [ "$(stat -c %u:%a drive/new)" = 65534:644 ]
        mkdir drive/folder
        mv drive/new drive/folder/
        rm drive/a
        (cd drive; ! fusermount3 -u "$OLDPWD/drive")
        end
        """

    static let nobodyCanRun: Bool = {
        // Every folder on the way must let others through.
        var url = URL(filePath: TestMount.binary("cloudfs-mount"))
        while url.path != "/" {
            guard let status = try? SystemCall.status(url.path), status.mode & 0o1 != 0 else {
                return false
            }
            url.deleteLastPathComponent()
        }
        return true
    }()

    @Test func `mount's own words are accepted in -o`() async throws {
        let list = "rw,_netdev,noauto,nofail,x-systemd.automount,noatime,quiet-time=50ms"
        try await TestDrive.with(["-o", list]) { drive in
            try await drive.write("a", "1")
            try await drive.untilCloudHas("a", "1")
        }
    }

    @Test func `spaces and other letters in paths are no obstacle`() async throws {
        try await TestDrive.with { drive in
            try await drive.mount.stop()
            let other = try TestFolder.make("\(drive.folder)/a drive, \\ ünd")
            try drive.cloud.write("in, the cloud/ä b", "text")
            let mount = TestMount(
                container: "local:\(drive.cloud.path)",
                path: other.path,
                folder: drive.folder,
                name: "other",
                options: TestMount.Options()
            )
            do {
                try await mount.start()
                let result = try await Shell.run(["cat", "\(other.path)/in, the cloud/ä b"])
                #expect(result.output == "text")
                try await mount.stop()
            } catch {
                await mount.dispose()
                throw error
            }
        }
    }

    @Test func `without --state-dir the same command finds the same state`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            try await drive.mount.stop()
            let command = [
                TestMount.binary("cloudfs-mount"), "local:\(drive.cloud.path)", drive.path,
            ]
            let first = try await Shell.run(command, environment: drive.environment)
            try #require(first.status == 0, "\(first)")
            try await drive.mustDo(["pause"])
            try await drive.write("held", "back")
            try await drive.run("cd /; fusermount3 -u \"$DRIVE\"")
            let daemons = "pgrep -f '[c]loudfs-mount local:\(drive.cloud.path)' || true"
            try await eventually("the daemon ends") { try await drive.run(daemons).isEmpty }
            let again = try await Shell.run(command, environment: drive.environment)
            try #require(again.status == 0, "\(again)")
            #expect(try await drive.text("held") == "back")
            try await drive.run("cd /; fusermount3 -u \"$DRIVE\"")
            try await eventually("the daemon ends") { try await drive.run(daemons).isEmpty }
        }
    }

    @Test func `a drive file says the same as options, and unknown keys are errors`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            try await drive.mount.stop()
            let file = TestFolder(drive.folder)
            let text = """
                mountpoint = "\(drive.path)"
                state-dir = "\(drive.mount.state)"
                read-only = true
                quiet-time = "50ms"

                [[container]]
                url = "local:\(drive.cloud.path)"
                """
            try file.write("drive.toml", text)
            let command = [
                TestMount.binary("cloudfs-mount"), "--config", file.path + "/drive.toml",
            ]
            let result = try await Shell.run(command, environment: drive.environment)
            try #require(result.status == 0, "\(result)")
            try await drive.python("fails(errno.EROFS, os.mkdir, 'new')")
            try await drive.run("cd /; fusermount3 -u \"$DRIVE\"")

            try file.write("drive.toml", "quiet-tiem = \"50ms\"\n" + text)
            let refused = try await Shell.run(command, environment: drive.environment)
            #expect(refused.status != 0)
            #expect(refused.errors.contains("quiet-tiem"))
            #expect(MountEntry.at(drive.path).isEmpty)
        }
    }

    @Test(arguments: [["--help"], ["--version"], ["-h"]])
    func `help and version are told on standard output`(arguments: [String]) async throws {
        for name in ["cloudfs-mount", "cloudfs"] {
            let result = try await Shell.run([TestMount.binary(name)] + arguments)
            #expect(result.status == 0)
            #expect(!result.output.isEmpty)
            #expect(result.errors.isEmpty)
        }
    }
}
