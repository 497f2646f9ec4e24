import CloudFSTestSupport
import Testing

/// What is seen of a cloud before anything is read.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct PlaceholderTests {
    /// Every item below the working folder: path, type, size, mode, time, link target.
    static let listing = """
        find . -mindepth 1 -name .cloudfs -prune -o -mindepth 1 ! -type d \\
            -printf '%P|%y|%s|%m|%T@|%l\\n' -o -mindepth 1 -type d -printf '%P|%y|%m|%T@\\n' | sort
        """

    static func fill(_ cloud: TestFolder) throws {
        try cloud.write("empty", "")
        try cloud.write("letter.txt", "Dear reader")
        try cloud.write(
            "Photos/Grüße aus Köln/one picture.jpg",
            [UInt8](repeating: 7, count: 70_000)
        )
        try cloud.write("deep/er/and/deeper/file.bin", [UInt8](repeating: 1, count: 5_000))
        try cloud.writeSparse("film.mkv", size: 3 << 30)
        try cloud.makeSymlink("link", target: "letter.txt")
        try cloud.makeSymlink("deep/dangling", target: "../no/such thing")
        try cloud.write("run.sh", "#!/bin/sh\n")
        try cloud.setMode("run.sh", 0o755)
        try cloud.setMode("letter.txt", 0o600)
        try cloud.setTimes("letter.txt", nanoseconds: 981_173_106_123_456_789)
        try cloud.setTimes("Photos", nanoseconds: 1_000_000_000_000_000_001)
        try cloud.setTimes("film.mkv", nanoseconds: -86_400_000_000_000)
    }

    @Test func `names, sizes, times, modes and links are there at once and nothing is fetched`()
        async throws
    {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            let seen = try await drive.run(Self.listing)
            let real = try await drive.run("cd \"$CLOUD\"\n" + Self.listing)
            #expect(seen == real)
            try await drive.run("ls -lR > /dev/null")
            let fetched = try await drive.fetched()
            #expect(fetched.count == 0)
            #expect(fetched.bytes == 0)
        }
    }

    @Test func `du shows next to nothing and the apparent sizes are exact`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            let apparent = try await drive.run(
                "find . -type f -print0 | du -bc --files0-from=- | tail -1"
            )
            let real = try await drive.run(
                "cd \"$CLOUD\"; find . -name .cloudfs -prune -o -type f -print0"
                    + " | du -bc --files0-from=- | tail -1"
            )
            #expect(apparent == real)
            let used = try await drive.run("du -s --block-size=1 . | cut -f1")
            #expect(try #require(Int(used)) < 1 << 20)
            #expect(try await drive.fetched().bytes == 0)
        }
    }

    @Test(.onMounts)
    func `a placeholder has blocks and no holes, so that sparse copies do not store zeros`()
        async throws
    {
        let bytes = [UInt8]((0..<300_000).map { UInt8(truncatingIfNeeded: $0 / 7) })
        try await TestDrive.with(prepare: Filling { try $0.write("data", bytes) }) { drive in
            try await drive.python(
                """
                assert os.stat("data").st_blocks > 0
                file = os.open("data", os.O_RDONLY)
                assert os.lseek(file, 0, os.SEEK_DATA) == 0
                assert os.lseek(file, 1000, os.SEEK_DATA) == 1000
                assert os.lseek(file, 0, os.SEEK_HOLE) == 300000
                fails(errno.ENXIO, os.lseek, file, 300000, os.SEEK_DATA)
                """
            )
            #expect(try await drive.fetched().bytes == 0)
            try await drive.run(
                """
                cp --sparse=always data "$SCRATCH/copy"
                cmp "$SCRATCH/copy" "$CLOUD/data"
                tar -cSf "$SCRATCH/data.tar" data
                tar -xOf "$SCRATCH/data.tar" data | cmp - "$CLOUD/data"
                """
            )
        }
    }

    @Test func `a folder of 3,000 items is listed whole, also while it is read in pieces`()
        async throws
    {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<3_000 {
                    try cloud.write("many/file with a rather long name \(number)", "")
                }
            }
        ) { drive in
            try await eventually("all are listed", within: .seconds(20)) {
                try await drive.names("many").count == 3_000
            }
            #expect(try await drive.run("ls -U many | sort | uniq | wc -l") == "3000")
            #expect(try await drive.run("find many -type f -size 0 | wc -l") == "3000")
        }
    }

    @Test func `names need not be UTF-8`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                name = b"caf\\xe9 \\xff.txt"
                with open(cloud.encode() + b"/" + name, "wb") as file:
                    file.write(b"bytes")
                end = time.monotonic() + 5
                while name not in os.listdir(b"."):
                    assert time.monotonic() < end, os.listdir(b".")
                    time.sleep(0.02)
                assert open(name, "rb").read() == b"bytes"
                os.rename(name, b"\\xf0\\x28.txt")
                assert open(b"\\xf0\\x28.txt", "rb").read() == b"bytes"
                """
            )
        }
    }

    @Test(.onMounts)
    func `the reserved name is not shown and cannot be made`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write(".cloudfs/secret", "own")
                try cloud.write("seen", "")
            }
        ) { drive in
            #expect(try await drive.names() == ["seen"])
            try await drive.python(
                """
                fails(errno.EEXIST, os.mkdir, ".cloudfs")
                fails(errno.EISDIR, os.open, ".cloudfs", os.O_CREAT | os.O_WRONLY)
                fails(errno.EISDIR, os.rename, "seen", ".cloudfs")
                fails(errno.EEXIST, os.symlink, "seen", ".cloudfs")
                assert not os.path.lexists(".cloudfs/secret")
                """
            )
        }
    }

    @Test(.onMounts)
    func `a cloud of 100,000 items is usable within 2 s in less than 150 MB`() async throws {
        try await TestDrive.with(
            slots: 4,
            prepare: Filling { cloud in
                for folder in 0..<1_000 {
                    try cloud.makeFolder("folder \(folder)")
                    for number in 0..<100 {
                        try cloud.writeSparse("folder \(folder)/item \(number)", size: 10)
                    }
                }
            }
        ) { drive in
            #expect(drive.mount.startDuration < .seconds(2))
            #expect(try await drive.run("ls | wc -l", within: .seconds(10)) == "1000")
            #expect(try await drive.run("ls 'folder 777' | wc -l", within: .seconds(5)) == "100")
            let found = try await drive.run("find . -type f | wc -l", within: .seconds(180))
            #expect(found == "100000")
            let peak = try await drive.run("grep VmHWM /proc/\(drive.mount.worker ?? 0)/status")
            let kilobytes = try #require(Int(peak.split(separator: " ").dropFirst().first ?? ""))
            #expect(kilobytes < 150 * 1_024)
        }
    }
}
