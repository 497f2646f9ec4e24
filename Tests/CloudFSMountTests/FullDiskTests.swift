import CloudFSTestSupport
import Foundation
import Glibc
import Testing

/// What runs out, and what a drive does then.
@Suite(
    .onMounts,
    .printingLogs,
    .notingIssues,
    .enabled(if: TestMount.isRoot, "mounting disks needs root")
)
struct FullDiskTests {
    enum Disk: String, CaseIterable, Sendable {
        /// Programs reach the content through the daemon.
        case memory
        /// They reach it directly.
        case ext4
    }

    /// Lends a drive whose state directory is a small disk of its own.
    ///
    /// - Parameter megabytes: How large it is.
    private static func withSmallDisk(
        _ disk: Disk,
        _ arguments: [String] = [],
        megabytes: Int = 64,
        _ body: (TestDrive) async throws -> Void
    ) async throws {
        let floor = arguments.contains("--free-floor") ? [] : ["--free-floor", "0"]
        try await TestDrive.with(floor + arguments, ending: .killed) { drive in
            try await drive.mount.stop()
            let state = drive.mount.state
            let image = "\(drive.folder)/disk"
            let mount =
                switch disk {
                case .memory: "mount -t tmpfs -o size=\(megabytes)m,mode=700 tmpfs \(state)"
                case .ext4:
                    """
                    truncate -s \(megabytes)M \(image)
                    mkfs.ext4 -q -m 0 -e remount-ro \(image)
                    mount \(image) \(state)
                    """
                }
            try await shell(mount)
            do {
                try await body(try await drive.again())
                try await drive.mount.stop()
            } catch {
                try await drive.mount.kill9()
                try await shell("umount -l \(state)")
                throw error
            }
            try await shell("umount \(state)")
        }
    }

    private static func shell(_ script: String) async throws {
        let result = try await Shell.script(script)
        try #require(result.status == 0, "\(result)")
    }

    @Test(arguments: Disk.allCases)
    func `what is read finds room on a full disk, whatever may be kept`(disk: Disk) async throws {
        try await Self.withSmallDisk(disk, ["--cache-size", "10GiB"]) { drive in
            for number in 0..<90 {
                let content = HydrationTests.bytes(1_000_000 + number)
                try drive.cloud.write("\(number)", content)
            }
            try await eventually("they are listed", within: .seconds(20)) {
                try await drive.names().count == 90
            }
            try await drive.run("for name in *; do cmp $name \"$CLOUD/$name\"; done")
            try await drive.run("for name in *; do cmp $name \"$CLOUD/$name\"; done")
        }
    }

    /// A file that is there at once, and all of it.
    private static func add(
        _ name: String,
        megabytes: Int,
        to drive: TestDrive
    ) async throws {
        try await drive.run(
            """
            head -c \(megabytes)M /dev/urandom > "$SCRATCH/\(name)"
            mv "$SCRATCH/\(name)" "$CLOUD/\(name)"
            """
        )
        try await eventually("it is listed") { try await drive.names().contains(name) }
    }

    @Test(arguments: Disk.allCases, [[], ["--no-passthrough", "--hydration", "partial"]])
    func `a file larger than the disk is read from the beginning to the end and again`(
        disk: Disk,
        options: [String]
    ) async throws {
        try await Self.withSmallDisk(disk, options, megabytes: 128) { drive in
            try await Self.add("large", megabytes: 200, to: drive)
            try await drive.run("cmp large \"$CLOUD/large\"; cmp large \"$CLOUD/large\"")
            // Four programs at once, each of which wants what the others have let go of.
            try await drive.python(
                """
                import random, threading
                failures = []
                def read(seed):
                    try:
                        chosen = random.Random(seed)
                        here = os.open("large", os.O_RDONLY)
                        there = os.open(os.environ["CLOUD"] + "/large", os.O_RDONLY)
                        for _ in range(12):
                            place = chosen.randrange(200 << 20)
                            for step in range(chosen.randrange(1, 40)):
                                at = place + (step << 19)
                                own = os.pread(here, 1 << 19, at)
                                true = os.pread(there, 1 << 19, at)
                                if own == true: continue
                                same = len(os.path.commonprefix([own, true]))
                                raise AssertionError((seed, at, len(own), same, own[same:][:16]))
                    except BaseException as error:
                        failures.append(repr(error))
                threads = [threading.Thread(target=read, args=[seed]) for seed in range(4)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                assert not failures, failures
                """,
                within: .seconds(120)
            )
            let check = try await drive.cloudfs(["check"])
            #expect(check.status == 0, "\(check)")
        }
    }

    /// It cannot be sent without the rest, which was fetched all the same.
    @Test func `a byte written into a file larger than the disk does not fill the disk`()
        async throws
    {
        try await Self.withSmallDisk(.ext4, ["--free-floor", "16MiB"], megabytes: 64) { drive in
            try await Self.add("large", megabytes: 100, to: drive)
            try await drive.run("printf x | dd of=large conv=notrunc status=none")
            try await eventually("it is said what is lacking", within: .seconds(30)) {
                try await drive.cloudfs(["queue"]).output.contains("the disk lacks")
            }
            try await drive.run("head -c 8M /dev/zero > other; cmp -n 8388608 other /dev/zero")
            #expect(try await drive.run("head -c 1 large") == "x")
            try await eventually("the other is in the cloud", within: .seconds(30)) {
                drive.cloud.bytes("other")?.count == 8 << 20
            }
        }
    }

    @Test func `who reads more than there is room for leaves some to who writes`() async throws {
        let options = ["--free-floor", "64MiB", "--download-limit", "60MiB"]
        try await Self.withSmallDisk(.ext4, options, megabytes: 200) { drive in
            try await Self.add("large", megabytes: 240, to: drive)
            try await drive.python(
                """
                import subprocess
                reader = subprocess.Popen(["cmp", "large", os.environ["CLOUD"] + "/large"])
                least, saves = 1 << 40, 0
                while reader.poll() is None:
                    with open(f"save{saves % 4}", "wb") as file:
                        file.write(b"x" * 1_000_000)
                        os.fsync(file.fileno())
                    saves += 1
                    room = os.statvfs("\(drive.mount.state)")
                    least = min(least, room.f_bavail * room.f_frsize)
                    time.sleep(0.02)
                assert reader.returncode == 0, reader.returncode
                assert saves > 20, saves
                assert least > 16 << 20, f"{least >> 20} MiB were left"
                """,
                within: .seconds(60)
            )
        }
    }

    @Test(arguments: [[], ["--no-passthrough"]])
    func `a film that rests makes room for who saves`(mode: [String]) async throws {
        let options = ["--free-floor", "64MiB", "--hydration", "partial"] + mode
        try await Self.withSmallDisk(.ext4, options, megabytes: 256) { drive in
            try await Self.add("film", megabytes: 240, to: drive)
            try await drive.python(
                """
                film = os.open("film", os.O_RDONLY)
                for at in range(0, 120 << 20, 1 << 20):
                    assert len(os.pread(film, 1 << 20, at)) == 1 << 20
                # Slower than somebody looks, and more than was left beside the film.
                with open("save", "wb") as file:
                    for _ in range(150):
                        file.write(b"x" * (1 << 20))
                        file.flush()
                        time.sleep(0.05)
                there = os.open(os.environ["CLOUD"] + "/film", os.O_RDONLY)
                for at in range(0, 120 << 20, 1 << 20):
                    assert os.pread(film, 1 << 20, at) == os.pread(there, 1 << 20, at), at
                """,
                within: .seconds(60)
            )
        }
    }

    @Test func `what is wanted and has no room is refused, and displaces nothing`() async throws {
        let options = ["--free-floor", "64MiB", "--cache-size", "10GiB"]
        try await Self.withSmallDisk(.ext4, options, megabytes: 200) { drive in
            try await Self.add("large", megabytes: 150, to: drive)
            try await Self.add("small", megabytes: 20, to: drive)
            try await drive.run("cat small > /dev/null")
            try await eventually("it is all here") { try await drive.state("small") == "local" }
            let refused = try await drive.cloudfs(["download", "large"])
            #expect(refused.status != 0, "\(refused)")
            #expect("\(refused)".contains("kept free"), "\(refused)")
            #expect(try await drive.state("small") == "local")
            #expect(try await drive.state("large") == "error")
            try await Self.add("fitting", megabytes: 40, to: drive)
            try await drive.mustDo(["download", "fitting"])
            #expect(try await drive.state("fitting") == "local")
        }
    }

    /// A disk that has no room for all of it makes room for a part.
    @Test(arguments: Disk.allCases)
    func `fallocate that fails changes nothing`(disk: Disk) async throws {
        try await Self.withSmallDisk(disk, ["--no-passthrough"]) { drive in
            try await drive.python(
                """
                import ctypes
                file = os.open("file", os.O_CREAT | os.O_RDWR)
                os.write(file, b"x" * 1000)
                fallocate = ctypes.CDLL(None, use_errno=True).fallocate64
                size = ctypes.c_int64
                assert fallocate(file, 0, size(0), size(400 << 20)) == -1
                assert ctypes.get_errno() == errno.ENOSPC
                assert os.fstat(file).st_size == 1000
                os.close(file)
                """
            )
            try await eventually("the cloud has it", within: .seconds(20)) {
                drive.cloud.bytes("file") == [UInt8](repeating: 0x78, count: 1_000)
            }
        }
    }

    @Test(arguments: Disk.allCases)
    func `a full disk is said at the write, and nothing acknowledged is lost`(
        disk: Disk
    ) async throws {
        try await Self.withSmallDisk(disk) { drive in
            try await drive.mustDo(["pause"])
            try await drive.python(
                """
                import hashlib
                def content(number):
                    return hashlib.sha256(str(number).encode()).digest() * (1 << 15)
                saved = []
                def save(number):
                    file = os.open(str(number), os.O_CREAT | os.O_WRONLY)
                    try:
                        data = memoryview(content(number))
                        while len(data):
                            data = data[os.write(file, data[:131072]):]
                        os.fsync(file)
                        saved.append(number)
                    finally:
                        os.close(file)
                for number in range(100):
                    try:
                        save(number)
                    except OSError as error:
                        assert error.errno == errno.ENOSPC, error
                        break
                else:
                    raise AssertionError("there was room for all")
                assert len(saved) > 5, saved
                os.unlink(str(number))
                for number in saved:
                    assert open(str(number), "rb").read() == content(number), number
                # Names need room too, but what is there can be removed.
                os.unlink(str(saved.pop(0)))
                os.unlink(str(saved.pop(0)))
                time_limit = time.monotonic() + 20
                while True:
                    try:
                        save(1000)
                        break
                    except OSError as error:
                        assert error.errno == errno.ENOSPC, error
                        assert time.monotonic() < time_limit, "the room does not come back"
                        time.sleep(0.1)
                with open(os.environ["SCRATCH"] + "/saved", "w") as list:
                    list.write("\\n".join(map(str, saved)))
                """,
                within: .seconds(60)
            )
            try await drive.mustDo(["resume"])
            try await drive.drain()
            try await drive.run(
                "while read name; do cmp $name \"$CLOUD/$name\"; done < \"$SCRATCH/saved\""
            )
            let check = try await drive.cloudfs(["check"])
            #expect(check.status == 0, "\(check)")
        }
    }

    @Test func `a full cloud keeps nobody from working, and is tried again`() async throws {
        try await TestDrive.with(ending: .killed) { drive in
            try await drive.mount.stop()
            try await Self.shell("mount -t tmpfs -o size=4m tmpfs \(drive.cloud.path)")
            try await Self.shell("head -c 3000000 /dev/zero > \(drive.cloud.path)/ballast")
            do {
                try await Self.shell("rm -r \(drive.mount.state)")
                let again = try await drive.again()
                try await again.run("head -c 2000000 /dev/urandom > file; echo small > small")
                try await eventually("it is known that there is no room") {
                    try await again.state("file") == "error"
                }
                #expect(try await again.attribute("user.cloudfs.error", of: "file") != nil)
                try await again.run("echo more >> file; mv file moved; cat moved > /dev/null")
                #expect(!again.cloud.exists("moved"), "half a file")
                try await Self.shell("rm \(drive.cloud.path)/ballast")
                try await again.drain()
                try await again.run("cmp moved \"$CLOUD/moved\"; cmp small \"$CLOUD/small\"")
                try await drive.mount.stop()
            } catch {
                try await drive.mount.kill9()
                try await Self.shell("umount -l \(drive.cloud.path)")
                throw error
            }
            try await Self.shell("umount \(drive.cloud.path)")
        }
    }

    @Test func `a state directory that cannot be written is said at once`() async throws {
        try await TestDrive.with(ending: .killed) { drive in
            try await drive.mount.stop()
            let state = drive.mount.state
            try await Self.shell(
                "mount --bind \(state) \(state); mount -o remount,bind,ro \(state)"
            )
            let failure = await #expect(throws: TestMount.NotReady.self) {
                _ = try await drive.again()
            }
            try await Self.shell("umount \(state)")
            #expect(failure?.status == 1)
            #expect(failure?.log.contains(state) == true, "\(failure?.log ?? "")")
            _ = try await drive.again()
        }
    }

    @Test(arguments: [[], ["--no-passthrough"]])
    func `a disk that fails and is read-only from then on is said so, and nothing is lost`(
        arguments: [String]
    ) async throws {
        try await Self.withSmallDisk(.ext4, arguments + ["--quiet-time", "1h"]) { drive in
            let state = drive.mount.state
            try await drive.python(
                """
                made = os.open("made", os.O_CREAT | os.O_RDWR)
                os.write(made, b"made here")
                os.fsync(made)
                """
            )
            try drive.cloud.write("brought", "brought from there")
            try drive.cloud.write("absent", "not here yet")
            try await eventually("it is there") { try await drive.has(["brought", "absent"]) }
            #expect(try await drive.text("brought") == "brought from there")
            try await Self.shell(
                """
                set -e; disk=$(findmnt -n -o SOURCE \(state))
                echo 1 > /sys/fs/ext4/${disk##*/}/trigger_fs_error
                """
            )
            try await drive.python(
                """
                assert open("made").read() == "made here"
                assert open("brought").read() == "brought from there"
                fails(errno.EROFS, open, "new", "w")
                fails(errno.EROFS, os.mkdir, "folder")
                fails(errno.EROFS, os.rename, "made", "moved")
                fails(errno.EROFS, os.truncate, "made", 3)
                def extend():
                    with open("made", "r+b") as file: os.posix_fallocate(file.fileno(), 0, 9000)
                fails(errno.EROFS, extend)
                def change(name):
                    with open(name, "a") as file: file.write("more")
                fails(errno.EROFS, change, "made")
                fails(errno.EROFS, change, "brought")
                def get():
                    with open("absent") as file: file.read()
                fails(errno.EROFS, get)
                assert sorted(os.listdir(".")) == ["absent", "brought", "made"]
                """
            )
            try await drive.mount.kill9()
            try await eventually("nobody uses the disk any more") {
                try await Shell.script("umount \(state)").status == 0
            }
            try await Self.shell(
                """
                set -e; (e2fsck -p -f \(drive.folder)/disk || [ $? -lt 4 ])
                mount \(drive.folder)/disk \(state)
                """
            )
            let again = try await drive.again()
            #expect(try await again.text("made") == "made here")
            // That the cloud had brought it was not flushed.
            try await eventually("it is listed again") { try await again.has(["brought"]) }
            #expect(try await again.text("brought") == "brought from there")
            try await again.run("echo more >> made")
            try await again.drain()
            #expect(again.cloud.text("made") == "made heremore\n")
        }
    }

    @Test func `ten thousand files can be open at once`() async throws {
        try await TestDrive.with { drive in
            try await drive.mustDo(["pause"])
            try await drive.python(
                """
                import resource
                hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
                resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 20000), hard))
                files = [os.open(f"{n}", os.O_CREAT | os.O_RDWR) for n in range(10000)]
                for n, file in enumerate(files):
                    os.pwrite(file, str(n).encode(), 0)
                for n, file in enumerate(files):
                    assert os.pread(file, 10, 0) == str(n).encode(), n
                for file in files:
                    os.close(file)
                """,
                within: .seconds(120)
            )
            #expect(try await drive.names().count == 10_000)
        }
    }

    @Test func `a drive whose daemon has no descriptor left is unmounted when it ends`()
        async throws
    {
        try await TestDrive.with { drive in
            let worker = try #require(drive.mount.worker)
            _ = try drive.start(
                """
                exec python3 -c 'import errno, os, resource, time
                resource.prlimit(\(worker), resource.RLIMIT_NOFILE, (200, 200))
                files = []
                while True:
                    try:
                        files.append(os.open(str(len(files)), os.O_CREAT | os.O_RDWR))
                    except OSError as error:
                        if error.errno == errno.EMFILE:
                            open(os.environ["SCRATCH"] + "/full", "w").close()
                        time.sleep(0.005)'
                """
            )
            let sign = "\(drive.folder)/run/full"
            try await eventually("there is none left", within: .seconds(20)) {
                access(sign, F_OK) == 0
            }
            drive.mount.send(SIGTERM)
            #expect(try await drive.mount.wait(within: .seconds(40)) == 0)
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(!drive.mount.logText.contains("mounted elsewhere too"))
        }
    }

    @Test func `a clock that was set back keeps nothing from being sent`() async throws {
        try await TestDrive.with { drive in
            try await drive.mustDo(["pause"])
            try await drive.run("echo text > file")
            try await drive.mount.stop()
            let sql =
                "UPDATE outbox SET not_before = not_before + 86400000000000; "
                + "DELETE FROM setting WHERE key = 'paused'"
            try await Self.shell("sqlite3 \(drive.mount.state)/catalog.sqlite \"\(sql)\"")
            _ = try await drive.again()
            try await drive.untilCloudHas("file", "text\n")
        }
    }
}
