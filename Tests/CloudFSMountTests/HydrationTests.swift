import CloudFSTestSupport
import Testing

/// Bytes that come when they are read.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct HydrationTests {
    static func bytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        Fill(seed: seed, count: count).bytes
    }

    @Test func `cat, cp and mmap bring the right bytes, each of them once`() async throws {
        let size = 3_000_001
        try await TestDrive.with(
            prepare: Filling { cloud in
                for name in ["cat", "cp", "mmap"] { try cloud.write(name, Self.bytes(size)) }
            }
        ) { drive in
            try await drive.run("cat cat | cmp - \"$CLOUD/cat\"")
            try await drive.run("cp cp \"$SCRATCH/cp\" && cmp \"$SCRATCH/cp\" \"$CLOUD/cp\"")
            try await drive.python(
                """
                with open("mmap", "rb") as file:
                    view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                    real = open(cloud + "/mmap", "rb").read()
                    assert view[2000000:2000100] == real[2000000:2000100]
                    assert view[:] == real
                """
            )
            guard !TestDrive.isNative else { return }
            #expect(try await drive.fetched().bytes == Int64(size) * 3)
        }
    }

    @Test(arguments: [(0, 1), (4_095, 2), (1_000_000, 70_000), (2_999_999, 10), (3_500_000, 5)])
    func `dd at an offset brings the bytes of that offset`(skip: Int, count: Int) async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", Self.bytes(3_000_001)) }) {
            drive in
            try await drive.run(
                """
                read_part() {
                    dd if="$1" iflag=skip_bytes,count_bytes skip=\(skip) count=\(count) status=none
                }
                cmp <(read_part file) <(read_part "$CLOUD/file")
                """
            )
        }
    }

    @Test func `eight readers at once get the right bytes and each byte is fetched once`()
        async throws
    {
        let size = 12 << 20
        try await TestDrive.with(
            TestMount.Options.latency("5ms"),
            prepare: Filling { try $0.write("file", Self.bytes(size)) }
        ) { drive in
            try await drive.run(
                """
                expected=$(md5sum < "$CLOUD/file")
                for reader in 1 2 3 4 5 6 7 8; do md5sum < file > "$SCRATCH/sum$reader" & done
                wait
                for reader in 1 2 3 4 5 6 7 8; do
                    [ "$(cat "$SCRATCH/sum$reader")" = "$expected" ]
                done
                """
            )
            guard !TestDrive.isNative else { return }
            #expect(try await drive.fetched().bytes == Int64(size))
        }
    }

    /// The cloud has the bytes until the other one is sent, which waits for them.
    @Test(.onMounts) func `what is open while another is saved in its place is read to its end`()
        async throws
    {
        try await TestDrive.with(
            ["--hydration", "partial"],
            prepare: Filling { try $0.write("file", Self.bytes(4 << 20)) }
        ) { drive in
            try await drive.python(
                """
                import subprocess
                base = open(cloud + "/file", "rb").read()
                here = os.open("file", os.O_RDONLY)
                assert os.pread(here, 4096, 0) == base[:4096]
                with open("file.tmp", "wb") as new: new.write(b"new")
                os.rename("file.tmp", "file")
                assert os.pread(here, 4096, 2000000) == base[2000000:2004096]
                subprocess.run(["cloudfs", "drain", "--wait", "."], check=True)
                assert open(cloud + "/file", "rb").read() == b"new"
                assert os.pread(here, 4096, 3000000) == base[3000000:3004096]
                """
            )
        }
    }

    /// The drive has looked up which bytes are absent, and is slow to write them.
    ///
    /// Nobody reads the pages that are changed: the kernel would let the change wait. They come
    /// with those that somebody reads, as the file is small.
    @Test(
        .onMounts,
        arguments: [
            ("os.pwrite(file, b'mine', 50000)", "base[:50000] + b'mine' + base[50004:]"),
            (
                "os.truncate('file', 50000); os.truncate('file', 55000)",
                "base[:50000] + bytes(5000)"
            ),
            ("os.truncate('file', 0); os.pwrite(file, b'mine', 2)", "bytes(2) + b'mine'"),
        ]
    )
    func `what is changed while bytes arrive stays as it was changed`(
        change: String,
        outcome: String
    ) async throws {
        var options = TestMount.Options()
        options.environment = ["CLOUDFS_FAULTS": "hydrate.chosen=delay:1500"]
        try await TestDrive.with(
            options: options,
            prepare: Filling { try $0.write("file", Self.bytes(60_000)) }
        ) { drive in
            _ = try drive.start("head -c 4096 file")
            try await eventually("the first bytes came") { try await drive.fetched().bytes > 0 }
            try await drive.python(
                """
                import time
                base = open(cloud + "/file", "rb").read()
                file = os.open("file", os.O_RDWR)
                \(change)
                os.close(file)
                wanted = \(outcome)
                assert open("file", "rb").read() == wanted
                while open(cloud + "/file", "rb").read() != wanted: time.sleep(0.05)
                """
            )
        }
    }

    @Test(.onMounts)
    func `a small file comes whole with its first read`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("small", Self.bytes(60_000)) }) {
            drive in
            try await drive.run("head -c 1 small > /dev/null")
            try await eventually("all of it is here") { try await drive.state("small") == "local" }
            let fetched = try await drive.fetched()
            #expect(fetched.count == 1)
            #expect(fetched.bytes == 60_000)
        }
    }

    @Test(.onMounts)
    func `the first 4 KiB of 1 GiB cost a few round trips only`() async throws {
        let link = TestMount.Options.latency("20ms") + TestMount.Options.bandwidth("50MB")
        try await TestDrive.with(
            link,
            slots: 4,
            prepare: Filling { cloud in
                try cloud.writeSparse("film", size: 1 << 30)
            }
        ) { drive in
            let output = try await drive.python(
                """
                begin = time.monotonic()
                file = os.open("film", os.O_RDONLY)
                assert os.pread(file, 4096, 0) == bytes(4096)
                first = time.monotonic()
                assert os.pread(file, 4096, 700000000) == bytes(4096)
                print(first - begin, time.monotonic() - first)
                """
            )
            let times = output.split(separator: " ").compactMap { Double($0) }
            #expect(times.count == 2)
            #expect(times.allSatisfy { $0 < 0.2 }, "\(output)")
        }
    }

    @Test(.onMounts)
    func `reading from beginning to end is about as fast as the link`() async throws {
        let link = TestMount.Options.latency("20ms") + TestMount.Options.bandwidth("50MB")
        try await TestDrive.with(
            link,
            slots: 4,
            prepare: Filling { cloud in
                try cloud.write("film", Self.bytes(50_000_000))
            }
        ) { drive in
            let begin = ContinuousClock.now
            try await drive.run("cmp film \"$CLOUD/film\"")
            #expect(ContinuousClock.now - begin < .seconds(3))
        }
    }

    @Test(.onMounts)
    func `files are fetched from a folder that is being moved in the cloud`() async throws {
        let count = 300
        try await TestDrive.with(
            TestMount.Options.latency("30ms"),
            prepare: Filling { cloud in
                for number in 0..<count { try cloud.write("f0/sub/\(number)", Self.bytes(100)) }
            }
        ) { drive in
            // Names change again and again while each file is fetched, under whatever name.
            try await drive.run(
                """
                ls f0/sub > /dev/null
                (cd f0/sub; for number in {0..\(count - 1)}; do
                    cmp $number "$CLOUD"/f*/sub/$number 2>> "$SCRATCH/errors" || true
                done) &
                for move in {1..40}; do
                    mv f$((move - 1)) f$move
                    cloudfs drain --wait > /dev/null
                done
                wait
                ! grep -v "$CLOUD" "$SCRATCH/errors"
                """
            )
        }
    }

    /// Reads the files of a folder one after the other, in one process.
    private static func readInTurn(_ names: [String]) -> String {
        """
        for name in \(names):
            assert open(name, "rb").read() == open(cloud + "/" + name, "rb").read(), name
        """
    }

    @Test(.onMounts)
    func `small files that are read in turn are fetched before they are opened`() async throws {
        let names = (100..<200).map { "file\($0)" }
        try await TestDrive.with(
            TestMount.Options.latency("20ms"),
            prepare: Filling { cloud in
                for name in names { try cloud.write(name, Self.bytes(3_000)) }
            }
        ) { drive in
            try await drive.run("[ $(ls | wc -l) = 100 ]")
            try await drive.python(Self.readInTurn(["file100", "file101"]))
            #expect(try await drive.fetched().count == 2)
            try await drive.python(Self.readInTurn(Array(names.prefix(10))))
            try await eventually("others are here") { try await drive.fetched().count >= 50 }
            try await drive.python(Self.readInTurn(names))
            let (count, bytes) = try await drive.fetched()
            #expect(count == 100)
            #expect(bytes == 300_000, "each of them once")
        }
    }

    @Test(.onMounts)
    func `files that are read here and there, or in part, bring no others`() async throws {
        let names = (100..<200).map { "file\($0)" }
        let filling = Filling { cloud in
            for name in names { try cloud.write(name, Self.bytes(3_000)) }
        }
        try await TestDrive.with(prepare: filling) { drive in
            let some = [7, 70, 20, 90, 45, 5, 60].map { names[$0] }
            try await drive.python(Self.readInTurn(some))
            #expect(try await drive.fetched().count == Int64(some.count))
        }
        try await TestDrive.with(["--hydration", "partial"], prepare: filling) { drive in
            try await drive.python(Self.readInTurn(Array(names.prefix(20))))
            #expect(try await drive.fetched().count == 20)
        }
    }

    @Test(.onMounts)
    func `a read waits for its own range only`() async throws {
        try await TestDrive.with(
            TestMount.Options.bandwidth("4MB"),
            ending: .killed,
            slots: 2,
            prepare: Filling { try $0.writeSparse("film", size: 200 << 20) }
        ) { drive in
            let reader = try drive.start("cat film > /dev/null")
            try await eventually("bytes arrive") { try await drive.fetched().bytes > 1 << 20 }
            let begin = ContinuousClock.now
            try await drive.run("tail -c 4096 film | cmp - <(head -c 4096 /dev/zero)")
            #expect(ContinuousClock.now - begin < .seconds(3))
            #expect(reader.status == nil)
        }
    }

    @Test(.onMounts)
    func `a file that is being read through is completed in the background`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", Self.bytes(20 << 20)) }) {
            drive in
            try await drive.run("dd if=file bs=64k count=48 of=/dev/null status=none")
            try await eventually("the rest comes") { try await drive.state("file") == "local" }
            #expect(
                try await drive.attribute("user.cloudfs.percent-downloaded", of: "file") == "100"
            )
            #expect(try await drive.bytes("file") == Self.bytes(20 << 20))
        }
    }

    @Test(.onMounts)
    func `with the policy partial a look into a file does not bring all of it`() async throws {
        try await TestDrive.with(
            ["--hydration", "partial"],
            prepare: Filling { cloud in
                try cloud.write("file", Self.bytes(20 << 20))
                try cloud.write("other", Self.bytes(8 << 20))
            }
        ) { drive in
            try await drive.run("head -c 4096 file > /dev/null")
            try await drive.run("cmp other \"$CLOUD/other\"")
            #expect(try await drive.state("file") == "partial")
            #expect(try await drive.fetched().bytes < 10 << 20)
        }
    }

    @Test(.onMounts)
    func `with the policy full an open waits for all`() async throws {
        try await TestDrive.with(
            ["--hydration", "full"],
            prepare: Filling { cloud in
                try cloud.write("file", Self.bytes(6 << 20))
            }
        ) { drive in
            try await drive.run("exec 3< file")
            #expect(try await drive.state("file") == "local")
        }
    }

    @Test(.onMounts)
    func `hydration changes neither size nor time nor inode number`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("file", Self.bytes(500_000))
                try cloud.setTimes("file", nanoseconds: 1_234_567_890_123_456_789)
            }
        ) { drive in
            let before = try await drive.status("file")
            try await drive.hydrate("file")
            let after = try await drive.status("file")
            #expect(after.size == before.size)
            #expect(after.modified == 1_234_567_890_123_456_789)
            #expect(after.modified == before.modified)
            #expect(after.changed == before.changed)
            #expect(after.inode == before.inode)
            #expect(after.blocks * 512 >= 500_000)
        }
    }

    @Test(.onMounts)
    func `what the link drops is asked for again`() async throws {
        let link = TestMount.Options.failures("20%")
        try await TestDrive.with(
            link,
            ending: .killed,
            prepare: Filling { cloud in
                for number in 0..<10 { try cloud.write("\(number)", Self.bytes(700_000)) }
            }
        ) { drive in
            // The first listing may tell of a failure; only then a name may wait for the link.
            try await eventually("all are listed", within: .seconds(20)) {
                (try? await drive.names().count) == 10
            }
            try await drive.run(
                "for number in 0 1 2 3 4 5 6 7 8 9; do cmp $number \"$CLOUD/$number\"; done",
                within: .seconds(60)
            )
        }
    }
}
