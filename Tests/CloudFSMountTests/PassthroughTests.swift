import CloudFSTestSupport
import Glibc
import Testing

/// How the kernel gets the bytes of local files.
enum Reads: CaseIterable, CustomTestStringConvertible, Sendable {
    /// From the content file; only root may have that.
    case byKernel
    case throughDaemon

    var testDescription: String { "\(self)" }

    var arguments: [String] { self == .byKernel ? [] : ["--no-passthrough"] }
}

/// Transitions of a file between the ways in which its bytes are reached: all look alike.
@Suite(.onMounts, .asRoot, .printingLogs, .notingIssues)
struct PassthroughTests {
    private static func with(
        _ reads: Reads,
        _ arguments: [String] = [],
        prepare: Filling = Filling { try $0.write("file", HydrationTests.bytes(200_000)) },
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await TestDrive.with(reads.arguments + arguments, prepare: prepare, body: body)
    }

    @Test(arguments: Reads.allCases)
    func `the list of drives tells the way and why`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            let list = try await drive.run("cloudfs mounts --json")
            let disk = try await drive.run("stat -f -c %T '\(drive.mount.state)'")
            let isPossible = reads == .byKernel && disk != "tmpfs"
            #expect(list.contains(isPossible ? "\"passthrough\"" : "\"splice\""), "\(list)")
            #expect(list.contains("it is turned off") == (reads == .throughDaemon))
        }
    }

    /// Mapped so, it must never be thinned, whoever dies before it is stored.
    @Test func `what the kernel reads before it is stored as resident says so`() async throws {
        var options = TestMount.Options()
        options.environment = ["CLOUDFS_FAULTS": "hydrate.flushed=delay:20000"]
        try await TestDrive.with(
            options: options,
            prepare: Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        ) { drive in
            let list = try await drive.mustDo(["mounts", "--json"])
            let disk = try await drive.run("stat -f -c %T '\(drive.mount.state)'")
            #expect(list.contains("passthrough") || disk == "tmpfs")
            guard disk != "tmpfs" else { return }
            // Of those who open it at once, none is let read the disk that is the first.
            try await eventually("the content is marked") {
                try await drive.run(
                    """
                    cat file > /dev/null
                    find '\(drive.mount.state)/content' -type f -perm -1000 | wc -l
                    """
                ) == "1"
            }
        }
    }

    /// Without an object for the file that it was made of, which the module `mmap` keeps.
    @Test func `a mapping keeps its file though its descriptor is closed and others read`()
        async throws
    {
        try await Self.with(.byKernel) { drive in
            try await drive.python(
                """
                import ctypes, subprocess
                real = open(cloud + "/file", "rb").read()
                os.setxattr("file", "user.cloudfs.hydrate", b"1")
                while os.getxattr("file", "user.cloudfs.status") != b"local": time.sleep(0.01)
                libc = ctypes.CDLL(None, use_errno=True)
                libc.mmap.restype = ctypes.c_void_p
                libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 \
                    + [ctypes.c_long]
                written = os.open("file", os.O_RDWR)
                place = libc.mmap(None, len(real), 3, 1, written, 0)
                assert place not in (None, ctypes.c_void_p(-1).value), ctypes.get_errno()
                reader = open("file", "rb")
                os.close(written)
                open(cloud + "/other", "wb").close()
                os.unlink(cloud + "/file")
                subprocess.run(["cloudfs", "refresh", "."], check=True)
                ctypes.memmove(place, b"stored", 6)
                libc.munmap(ctypes.c_void_p(place), ctypes.c_size_t(len(real)))
                reader.close()
                """
            )
            try await eventually("what was stored is in the cloud") {
                try await drive.run("head -c 6 \"$CLOUD/file\" 2> /dev/null || true") == "stored"
            }
        }
    }

    @Test(arguments: Reads.allCases)
    func `a file becomes local while it is open`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                real = open(cloud + "/file", "rb").read()
                first = open("file", "rb", buffering=0)
                assert first.read(100) == real[:100]
                os.setxattr("file", "user.cloudfs.hydrate", b"1")
                while os.getxattr("file", "user.cloudfs.status") != b"local": time.sleep(0.01)
                second = open("file", "rb", buffering=0)
                assert second.read(500) == real[:500] and first.read(400) == real[100:500]
                first.close()
                third = open("file", "rb", buffering=0)
                assert third.readall() == real
                second.close(); third.close()
                assert open("file", "rb").read() == real
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `a file that has just come is read and written at once`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            // Before it is flushed and stored as resident, or after: nobody can tell.
            try await drive.python(
                """
                real = bytearray(open("file", "rb").read())
                reader = os.open("file", os.O_RDONLY)
                assert os.pread(reader, 300000, 0) == real
                writer = os.open("file", os.O_RDWR)
                os.pwrite(writer, b"now", 1000)
                real[1000:1003] = b"now"
                assert os.pread(reader, 300000, 0) == real
                os.close(reader); os.close(writer)
                assert open("file", "rb").read() == real
                """
            )
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `handles for reading and for writing see the same bytes, sizes and times`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                open("file", "rb").read()
                os.utime("file", (1, 1))
                reader = os.open("file", os.O_RDONLY)
                before = os.stat("file")
                assert before.st_mtime == 1
                writer = os.open("file", os.O_RDWR)
                assert os.stat("file").st_mtime == 1
                os.pwrite(writer, b"start", 0)
                assert os.pread(reader, 5, 0) == b"start"
                now = os.stat("file")
                assert now.st_mtime > 1 and now.st_size == 200000
                os.pwrite(writer, b"end", 300000)
                assert os.fstat(reader).st_size == os.stat("file").st_size == 300003
                assert os.pread(reader, 10, 299998) == bytes(2) + b"end"
                later = os.stat("file")
                assert later.st_mtime_ns >= now.st_mtime_ns
                os.utime(writer, (2, 2))
                assert os.stat("file").st_mtime == 2
                os.close(writer)
                assert os.stat("file").st_mtime == 2 and os.stat("file").st_size == 300003
                appenders = [os.open("file", os.O_WRONLY | os.O_APPEND) for _ in range(2)]
                for number in range(20): os.write(appenders[number % 2], b"%02d" % number)
                assert os.stat("file").st_size == 300043
                text = b"".join(b"%02d" % number for number in range(20))
                assert os.pread(reader, 100, 300003) == text
                for handle in appenders + [reader]: os.close(handle)
                assert os.stat("file").st_size == 300043
                """
            )
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `a file is cut and begun anew under open handles`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                open("file", "rb").read()
                reader = os.open("file", os.O_RDONLY)
                writer = os.open("file", os.O_WRONLY)
                os.truncate("file", 1000)
                assert os.fstat(reader).st_size == 1000 and os.pread(reader, 10, 995) != b""
                assert os.pread(reader, 10, 1000) == b""
                os.ftruncate(writer, 2000)
                assert os.pread(reader, 10, 1500) == bytes(10)
                again = os.open("file", os.O_WRONLY | os.O_TRUNC)
                assert os.stat("file").st_size == 0 and os.pread(reader, 10, 0) == b""
                os.write(again, b"anew")
                os.pwrite(writer, b"more", 4)
                assert os.pread(reader, 10, 0) == b"anewmore"
                for handle in (reader, writer, again): os.close(handle)
                assert open("file").read() == "anewmore"
                """
            )
            try await drive.untilCloudHas("file", "anewmore")
        }
    }

    @Test(arguments: Reads.allCases)
    func `a file is renamed over and unlinked under an open handle`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                real = open("file", "rb").read()
                reader = os.open("file", os.O_RDONLY)
                writer = os.open("file", os.O_RDWR)
                open("new", "w").write("new")
                os.rename("new", "file")
                assert open("file").read() == "new"
                assert os.pread(reader, 300000, 0) == real
                os.pwrite(writer, b"old", 0)
                assert os.pread(reader, 3, 0) == b"old"
                assert open("file").read() == "new"
                other = os.open("file", os.O_RDWR)
                os.unlink("file")
                os.pwrite(other, b"gone", 0)
                assert os.pread(other, 10, 0) == b"gone" and not os.path.exists("file")
                for handle in (reader, writer, other): os.close(handle)
                assert os.listdir(".") == []
                """
            )
            try await drive.drain()
            #expect(drive.cloud.text("file") == nil)
        }
    }

    @Test(arguments: Reads.allCases)
    func `mappings see writes, and what is stored into shared ones arrives`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                open("file", "rb").read()
                handle = os.open("file", os.O_RDWR)
                shared = mmap.mmap(handle, 0)
                private = mmap.mmap(handle, 0, flags=mmap.MAP_PRIVATE)
                reading = mmap.mmap(handle, 0, prot=mmap.PROT_READ)
                os.close(handle)
                private[0:4] = b"mine"
                shared[100:106] = b"shared"
                assert reading[100:106] == b"shared" and private[0:4] == b"mine"
                assert open("file", "rb").read()[100:106] == b"shared"
                writer = os.open("file", os.O_WRONLY)
                os.pwrite(writer, b"written", 200)
                os.close(writer)
                assert shared[200:207] == b"written"
                try:
                    os.setxattr("file", "user.cloudfs.evict", b"1")
                    assert False, "evicted under a mapping"
                except OSError as error:
                    assert error.errno == errno.EBUSY
                # The first store into a clean page sets the time.
                shared.flush()
                os.utime("file", (1, 1))
                assert os.stat("file").st_mtime == 1
                shared[300:304] = b"late"
                shared.flush()
                assert os.stat("file").st_mtime > 1, "a time from before the store"
                del shared, private, reading
                """
            )
            try await eventually("the cloud has all of it") {
                let bytes = drive.cloud.bytes("file") ?? []
                guard bytes.count == 200_000 else { return false }
                func text(_ range: Range<Int>) -> String {
                    String(decoding: bytes[range], as: UTF8.self)
                }
                return text(100..<106) == "shared" && text(200..<207) == "written"
                    && text(300..<304) == "late" && text(0..<4) != "mine"
            }
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
            try await eventually("it can be evicted") {
                let result = try await drive.cloudfs(["evict", "\(drive.path)/file"])
                return result.status == 0
            }
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `what a child inherits is written after its parent closed`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            try await drive.run(
                """
                cat file > /dev/null
                exec 3<> file
                (sleep 0.3; printf child >&3) &
                exec 3>&-
                wait
                [ "$(head -c 5 file)" = child ]
                """
            )
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test func `a file that several open at once is passed through to all`() async throws {
        try await Self.with(.byKernel) { drive in
            let daemon = try #require(drive.mount.worker)
            try await drive.python(
                """
                import threading
                open("file", "rb").read()
                def asked():
                    counts = open("/proc/\(daemon)/io").read()
                    return int(counts.split("syscr: ")[1].split()[0])
                page = mmap.mmap(-1, 4096)
                for attempt in range(50):
                    handles, start = [], threading.Barrier(4)
                    def opening():
                        start.wait()
                        handles.append(os.open("file", os.O_RDONLY | os.O_DIRECT))
                    threads = [threading.Thread(target=opening) for _ in range(4)]
                    for thread in threads: thread.start()
                    for thread in threads: thread.join()
                    before = asked()
                    for handle in handles:
                        for block in range(40): os.preadv(handle, [page], block * 4096)
                    assert asked() - before < 160, f"attempt {attempt}"
                    for handle in handles: os.close(handle)
                """
            )
        }
    }

    /// The kernel sends the pieces of each write at once.
    @Test(arguments: Reads.allCases)
    func `long writes with O_DIRECT and O_APPEND are all there, in their order`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                import mmap
                count = 8 << 20
                parts = [mmap.mmap(-1, count) for _ in range(3)]
                for part in parts: part.write(os.urandom(count))
                log = os.open("log", os.O_CREAT | os.O_WRONLY | os.O_APPEND | os.O_DIRECT)
                for part in parts: assert os.write(log, part) == count
                os.close(log)
                assert open("log", "rb").read() == b"".join(bytes(part) for part in parts)
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `O_DIRECT reads and writes beside others`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                open("file", "rb").read()
                direct = os.open("file", os.O_RDWR | os.O_DIRECT)
                cached = os.open("file", os.O_RDWR)
                page = mmap.mmap(-1, 4096)
                page[:] = b"d" * 4096
                assert os.pwritev(direct, [page], 4096) == 4096
                assert os.pread(cached, 5, 4094)[2:] == b"ddd"
                os.pwrite(cached, b"c" * 4096, 4096)
                assert os.preadv(direct, [page], 4096) == 4096 and page[:] == b"c" * 4096
                os.close(direct); os.close(cached)
                """
            )
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `a newer version replaces it after the last close, and old pages never show`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.run("cat file > /dev/null")
            let holder = try drive.start("exec sleep 60 < file")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/file") }
            try drive.cloud.write("file", Array("newer".utf8))
            try await eventually("it is known") {
                try await drive.attribute("user.cloudfs", of: "file")?
                    .contains("\"has-newer-version\":true") == true
            }
            #expect(try await drive.run("stat -c %s file") == "200000")
            holder.send(SIGKILL)
            try await eventually("the newer one shows") {
                try await drive.run("cat file") == "newer"
            }
            // From the daemon again, and directly once more.
            try await eventually("it can be evicted") {
                try await drive.cloudfs(["evict", "\(drive.path)/file"]).status == 0
            }
            #expect(try await drive.run("cat file; cat file") == "newernewer")
            try await drive.run("printf x >> file; [ \"$(cat file)\" = newerx ]")
        }
    }

    @Test(arguments: Reads.allCases)
    func `a file that was only opened for writing is no change and no conflict`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.run("cat file > /dev/null; sleep 0.1")
            let version = try await drive.attribute("user.cloudfs.version", of: "file")
            let holder = try drive.start("exec sleep 60 <> file")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/file") }
            try drive.cloud.write("other", Array("other".utf8))
            try await eventually("the other one is here") {
                try await drive.run("cat other || true") == "other"
            }
            try drive.cloud.write("file", Array("newer".utf8))
            try drive.cloud.write("last", Array("last".utf8))
            try await eventually("the last one is here") {
                try await drive.run("cat last || true") == "last"
            }
            #expect(try await drive.attribute("user.cloudfs.version", of: "file") == version)
            holder.send(SIGKILL)
            try await eventually("the newer one shows") {
                try await drive.run("cat file") == "newer"
            }
            #expect(try await drive.run("ls") == "file\nlast\nother")
            try await drive.drain()
            #expect(drive.cloud.text("file") == "newer")
        }
    }

    @Test func `what a program has mapped in a crash arrives when it is stored`() async throws {
        try await Self.with(.byKernel) { drive in
            try await drive.run("cat file > /dev/null")
            _ = try drive.start(
                """
                exec python3 -c '
                import mmap, os, time
                handle = os.open("file", os.O_RDWR)
                view = mmap.mmap(handle, 0)
                view[0:5] = b"first"
                scratch = os.environ["SCRATCH"]
                open(scratch + "/mapped", "w").close()
                while not os.path.exists(scratch + "/go"): time.sleep(0.01)
                view[10:16] = b"second"
                open(scratch + "/stored", "w").close()
                while not os.path.exists(scratch + "/end"): time.sleep(0.01)
                '
                """
            )
            try await eventually("it is mapped") {
                try await drive.run("[ -e \"$SCRATCH/mapped\" ] || true; ls \"$SCRATCH\"")
                    .contains("mapped")
            }
            let again = try await drive.crash()
            #expect(try await again.run("head -c 5 file") == "first")
            try await again.drain()
            try await again.run("touch \"$SCRATCH/go\"")
            try await eventually("it is stored") {
                try await again.run("ls \"$SCRATCH\"").contains("stored")
            }
            // Though it is mapped still.
            try await eventually("the cloud has it") {
                let bytes = again.cloud.bytes("file") ?? []
                return String(decoding: bytes.prefix(16).suffix(6), as: UTF8.self) == "second"
            }
            try await again.run("touch \"$SCRATCH/end\"")
            try await eventually("it can be evicted") {
                try await again.cloudfs(["evict", "\(again.path)/file"]).status == 0
            }
        }
    }

    /// Its handles end with the drive, and not in the kernel, whether or not it could be mapped.
    @Test func `what a program writes on after the drive was taken from it arrives`() async throws {
        try await Self.with(.byKernel) { drive in
            try await drive.run("cat file > /dev/null")
            _ = try drive.start(
                """
                exec python3 -c '
                import os, time
                handle = os.open("file", os.O_WRONLY)
                os.pwrite(handle, b"first", 0)
                scratch = os.environ["SCRATCH"]
                open(scratch + "/opened", "w").close()
                while not os.path.exists(scratch + "/go"): time.sleep(0.01)
                os.pwrite(handle, b"second", 10)
                open(scratch + "/written", "w").close()
                '
                """
            )
            try await eventually("it is open") {
                try await drive.run("ls \"$SCRATCH\"").contains("opened")
            }
            try await drive.drain()
            try await drive.mount.stop()
            let again = try await drive.again()
            try await again.run("touch \"$SCRATCH/go\"")
            try await eventually("it is written") {
                try await again.run("ls \"$SCRATCH\"").contains("written")
            }
            try await eventually("the cloud has it", within: .seconds(20)) {
                let bytes = again.cloud.bytes("file") ?? []
                return String(decoding: bytes.prefix(16).suffix(6), as: UTF8.self) == "second"
            }
        }
    }

    @Test(arguments: Reads.allCases)
    func `what is written on after the cloud got the same bytes arrives`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                open("file", "rb").read()
                handle = os.open("file", os.O_RDWR)
                os.pwrite(handle, b"one", 0)
                os.fsync(handle)
                # The same bytes come from elsewhere, before ours are sent.
                with open(cloud + "/other", "wb") as other: other.write(open("file", "rb").read())
                os.rename(cloud + "/other", cloud + "/file")
                end = time.monotonic() + 10
                while os.getxattr("file", "user.cloudfs.status") != b"local":
                    assert time.monotonic() < end
                    time.sleep(0.02)
                os.pwrite(handle, b"two", 10)
                os.close(handle)
                """
            )
            try await eventually("the cloud has both") {
                let bytes = (drive.cloud.bytes("file") ?? []).prefix(13)
                return bytes.prefix(3) == Array("one".utf8)[...]
                    && bytes.suffix(3).elementsEqual("two".utf8)
            }
            #expect(try await drive.run("ls") == "file")
        }
    }

    @Test(arguments: Reads.allCases)
    func `what the cloud got from elsewhere while it was written keeps its length`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            try await drive.python(
                """
                handle = os.open("file", os.O_WRONLY | os.O_TRUNC)
                os.write(handle, b"new")
                with open(cloud + "/other", "wb") as other: other.write(b"new")
                os.rename(cloud + "/other", cloud + "/file")
                end = time.monotonic() + 10
                while os.getxattr("file", "user.cloudfs.status") != b"local":
                    assert time.monotonic() < end
                    time.sleep(0.02)
                os.close(handle)
                """
            )
            let again = try await drive.restart()
            #expect(try await again.run("stat -c %s file; cat file") == "3\nnew")
        }
    }

    @Test(arguments: Reads.allCases)
    func `draining sends what was held open when it began`(reads: Reads) async throws {
        // An open file is put off for fifteen quiet times, a closed one for one.
        var options = TestMount.Options(reads.arguments)
        options.quietTime = "30s"
        try await TestDrive.with(options: options) { drive in
            try await drive.python(
                """
                import subprocess
                handle = os.open("late", os.O_RDWR | os.O_CREAT)
                os.write(handle, b"text")
                os.fsync(handle)
                drain = subprocess.Popen(["cloudfs", "drain", "--wait"])
                try: drain.wait(1)
                except subprocess.TimeoutExpired: pass
                os.close(handle)
                assert drain.wait(15) == 0
                assert open(cloud + "/late").read() == "text"
                """
            )
        }
    }

    @Test func `a file that is unlinked and held in a crash is gone, and the drive mounts`()
        async throws
    {
        try await Self.with(.byKernel) { drive in
            _ = try drive.start(
                """
                exec python3 -c '
                import os, time
                handle = os.open("gone", os.O_RDWR | os.O_CREAT)
                os.write(handle, b"text")
                os.unlink("gone")
                open(os.environ["SCRATCH"] + "/held", "w").close()
                time.sleep(60)
                '
                """
            )
            try await eventually("it is held") {
                try await drive.run("ls \"$SCRATCH\"").contains("held")
            }
            let again = try await drive.crash()
            #expect(try await again.run("ls") == "file")
        }
    }

    @Test func `what is written after it was sent arrives, and what was sent is not sent again`()
        async throws
    {
        try await Self.with(.byKernel) { drive in
            try await drive.python(
                """
                open("file", "rb").read()
                handle = os.open("file", os.O_RDWR)
                os.pwrite(handle, b"one", 0)
                def sent(text):
                    end = time.monotonic() + 10
                    while open(cloud + "/file", "rb").read(3) != text:
                        assert time.monotonic() < end
                        time.sleep(0.02)
                sent(b"one")
                os.close(handle)
                handle = os.open("file", os.O_RDWR)
                os.pwrite(handle, b"two", 0)
                os.close(handle)
                sent(b"two")
                """,
                within: .seconds(40)
            )
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
            let inode = try drive.cloud.status("file").inode
            try await drive.run("exec 3<> file; exec 3>&-")
            try await drive.drain()
            #expect(try drive.cloud.status("file").inode == inode)
            #expect(try await drive.state("file") == "local")
        }
    }

    @Test(arguments: Reads.allCases)
    func `a crash loses nothing that was written`(reads: Reads) async throws {
        try await Self.with(reads, ["--quiet-time", "1h"]) { drive in
            try await drive.run("cat file > /dev/null; printf written >> file")
            let again = try await drive.crash()
            #expect(try await again.run("tail -c 7 file; stat -c %s file") == "written200007")
            try await again.drain()
            try await again.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `what unpackers set before they close survives a crash`(reads: Reads) async throws {
        try await Self.with(reads, ["--quiet-time", "1h"]) { drive in
            try await drive.python(
                """
                for number in range(100):
                    file = os.open(f"new-{number}", os.O_CREAT | os.O_WRONLY, 0o600)
                    os.write(file, b"x" * number)
                    os.utime(file, ns=(5_000_000_001, 1_600_000_000_123_456_789 + number))
                    os.fchown(file, os.getuid(), os.getgid())
                    os.fchmod(file, 0o600 if number % 2 else 0o640)
                    status = os.fstat(file)
                    assert status.st_mtime_ns == 1_600_000_000_123_456_789 + number, status
                    assert status.st_atime_ns == 5_000_000_001, status
                    os.close(file)
                """
            )
            let again = try await drive.crash()
            try await again.python(
                """
                for number in range(100):
                    status = os.stat(f"new-{number}")
                    assert status.st_size == number, status
                    assert status.st_mtime_ns == 1_600_000_000_123_456_789 + number, status
                    assert status.st_atime_ns == 5_000_000_001, status
                    assert stat.S_IMODE(status.st_mode) == (0o600 if number % 2 else 0o640)
                """
            )
            try await again.drain()
            try await again.run("[ $(stat -c %Y \"$CLOUD/new-7\") = 1600000000 ]")
        }
    }
}
