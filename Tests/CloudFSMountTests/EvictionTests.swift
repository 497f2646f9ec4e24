import CloudFSTestSupport
import Testing

/// Space that is given back.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct EvictionTests {
    static let count = 10

    /// Ten files of 1 MiB, and room for four.
    private static func with(
        _ reads: Reads = .byKernel,
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await TestDrive.with(
            reads.arguments + ["--cache-size", "4MiB"],
            prepare: Filling { cloud in
                for number in 0..<count {
                    try cloud.write(
                        "\(number)",
                        HydrationTests.bytes(1 << 20, seed: UInt64(number))
                    )
                }
            },
            body: body
        )
    }

    /// Which of the files are here.
    private static func resident(_ drive: TestDrive) async throws -> [Int] {
        var found: [Int] = []
        for number in 0..<count where try await drive.state("\(number)") == "local" {
            found.append(number)
        }
        return found
    }

    @Test(arguments: Reads.allCases)
    func `what was opened longest ago goes first, and comes back when it is read`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive in
            for number in 0..<Self.count {
                try await drive.run("cat \(number) > /dev/null; cat 0 > /dev/null")
            }
            try await eventually("the cache fits", within: .seconds(10)) {
                try await Self.resident(drive).count <= 4
            }
            let resident = try await Self.resident(drive)
            #expect(resident.contains(0) && resident.contains(9), "\(resident)")
            #expect(!resident.contains(1), "\(resident)")
            // Content is unlinked once the commit that stopped naming it is durable.
            try await eventually("its space is given back") {
                let used = try await drive.run(
                    "du -s --block-size=1 '\(drive.mount.state)/content' | cut -f1"
                )
                return try #require(Int(used)) < 6 << 20
            }
            try await drive.run("for n in 0 1 2 3 4 5 6 7 8 9; do cmp $n \"$CLOUD/$n\"; done")
        }
    }

    @Test func `what was downloaded and not opened yet is not the first to go`() async throws {
        try await Self.with { drive in
            for number in 0..<4 { try await drive.run("cat \(number) > /dev/null") }
            try await drive.mustDo(["download", "9"])
            try await eventually("the cache fits", within: .seconds(10)) {
                try await Self.resident(drive).count <= 4
            }
            let resident = try await Self.resident(drive)
            #expect(resident.contains(9) && !resident.contains(0), "\(resident)")
        }
    }

    @Test(arguments: Reads.allCases)
    func `dirty, open and pinned items stay`(reads: Reads) async throws {
        try await Self.with(reads) { drive in
            let holder = try drive.start("exec sleep 60 < 1")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/1") }
            try await drive.hydrate("1")
            try await drive.setAttribute("user.cloudfs.pin", of: "2", to: "pinned")
            try await eventually("the pinned one is here") {
                try await drive.state("2") == "local"
            }
            try await drive.mustDo(["pause"])
            try await drive.run("cat 3 > /dev/null; echo changed >> 3")
            try await drive.mustDo(["resume"])
            try await drive.run("for n in 4 5 6 7 8 9 0; do cat $n > /dev/null; done")
            try await eventually("others were evicted", within: .seconds(10)) {
                try await Self.resident(drive).count <= 5
            }
            #expect(try await drive.state("1") == "local")
            #expect(try await drive.state("2") == "local")
            #expect(try await drive.bytes("3").count == (1 << 20) + 8)
            try await eventually("the change is in the cloud") {
                drive.cloud.bytes("3")?.count == (1 << 20) + 8
            }
        }
    }

    /// What came last took the place of what came first, for which a command waited again.
    @Test func `more than the cache takes is not downloaded, and said at once`() async throws {
        try await Self.with { drive in
            let all = try await drive.cloudfs(["download", "."])
            #expect(all.status == 1)
            #expect(all.errors.contains("10 MiB, and cache-size allows 4 MiB"), "\(all)")
            let hydrating = try await drive.run(
                "setfattr -n user.cloudfs.hydrate -v 1 . 2>&1 || true"
            )
            #expect(hydrating.contains("No space left"), "\(hydrating)")
            #expect(try await Self.resident(drive).isEmpty)
        }
    }

    @Test func `a write that needs more than the cache is not lost`() async throws {
        try await Self.with { drive in
            try await drive.run("head -c 12000000 /dev/urandom > large; cat 0 1 2 > /dev/null")
            try await drive.drain()
            try await drive.run("cmp large \"$CLOUD/large\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `an evicted file looks the same and gives its blocks back`(
        reads: Reads
    ) async throws {
        try await TestDrive.with(
            reads.arguments,
            prepare: Filling { cloud in
                try cloud.write("file", HydrationTests.bytes(3 << 20))
            }
        ) { drive in
            try await drive.hydrate("file")
            let before = try await drive.status("file")
            try await drive.evict("file")
            let after = try await drive.status("file")
            #expect(after.size == before.size && after.modified == before.modified)
            #expect(after.inode == before.inode && after.mode == before.mode)
            #expect(after.blocks < before.blocks)
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    /// The new file has its place in the cloud: nobody but this machine has the bytes then.
    @Test func `what a save leaves as a backup stays, also right after it was fetched`()
        async throws
    {
        try await TestDrive.with(
            ["--quiet-time", "1h"],
            prepare: Filling { try $0.write("document", "text") }
        ) { drive in
            try await drive.hydrate("document")
            try await drive.python(
                """
                os.rename("document", "document~")
                with open("document", "w") as file: file.write("new")
                fails(errno.EBUSY, os.setxattr, "document~", "user.cloudfs.evict", b"1")
                with open("document~") as file: assert file.read() == "text"
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `an open, mapped or dirty file is not evicted, with EBUSY`(reads: Reads) async throws {
        let filling = Filling { try $0.write("file", "text") }
        try await TestDrive.with(reads.arguments, prepare: filling) { drive in
            try await drive.python(
                """
                evict = lambda: os.setxattr("file", "user.cloudfs.evict", b"1")
                file = os.open("file", os.O_RDONLY)
                assert os.read(file, 10) == b"text"
                fails(errno.EBUSY, evict)
                view = mmap.mmap(file, 0, prot=mmap.PROT_READ)
                os.close(file)
                assert view[:] == b"text"
                view.close()
                end = time.monotonic() + 5
                while True:
                    try:
                        evict()
                        break
                    except OSError as error:
                        assert error.errno == errno.EBUSY and time.monotonic() < end
                        time.sleep(0.02)
                assert os.getxattr("file", "user.cloudfs.status") == b"cloud"
                """
            )
            try await drive.mustDo(["pause"])
            try await drive.run("echo more >> file")
            try await drive.python(
                """
                fails(errno.EBUSY, os.setxattr, "file", "user.cloudfs.evict", b"1")
                assert open("file").read() == "textmore\\n"
                """
            )
        }
    }
}
