import CloudFSTestSupport
import Testing

/// A cloud that takes requests and never answers.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct HangingTests {
    /// A drive whose folders are known and whose `here` is resident, before its cloud hangs.
    static func with(
        readTimeout: String,
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await TestDrive.with(
            ending: .killed,
            prepare: Filling { cloud in
                try cloud.write("here", "resident bytes")
                try cloud.write("folder/inside", "more")
                for number in 0..<24 {
                    try cloud.write("absent\(number)", HydrationTests.bytes(200_000))
                }
            }
        ) { drive in
            try await drive.hydrate("here")
            try await drive.run("find . > /dev/null")
            let hanging = try await drive.restart(
                TestMount.Options.hanging + ["--read-timeout", readTimeout]
            )
            try await body(hanging)
        }
    }

    @Test func `what is local works while reads of absent bytes wait`() async throws {
        try await Self.with(readTimeout: "60s") { drive in
            // More than the kernel's 12 background requests, which must not be used up.
            let readers = try (0..<24).map { try drive.start("exec cat absent\($0) > /dev/null") }
            try await eventually("readers are reading") {
                readers.enumerated().allSatisfy { $1.hasOpen("\(drive.path)/absent\($0)") }
            }
            try await drive.run(
                """
                ls -l . folder > /dev/null
                stat absent0 folder/inside > /dev/null
                df . > /dev/null
                [ "$(cat here)" = "resident bytes" ]
                echo new > new
                cat new > /dev/null
                mv new newer
                mkdir made
                mv absent1 made/moved
                rm newer
                echo changed >> here
                getfattr -n user.cloudfs.status absent0 > /dev/null
                sync -d here
                """,
                within: .seconds(5)
            )
        }
    }

    /// The kernel drops what it kept of a file before it opens it again, and waits for reads.
    @Test func `a file that a program waits for is used by others without waiting`() async throws {
        try await Self.with(readTimeout: "60s") { drive in
            _ = try drive.start("exec cat absent5 > /dev/null")
            try await eventually("it is reading") {
                try await drive.state("absent5") == "downloading"
            }
            try await drive.python(
                """
                begin = time.monotonic()
                for flags in [os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND]:
                    file = os.open("absent5", flags)
                    assert os.fstat(file).st_size == 200000
                    os.close(file)
                os.rename("absent5", "moved")
                with open("moved", "w") as file: file.write("new")
                assert open("moved").read() == "new"
                os.remove("moved")
                assert time.monotonic() - begin < 3
                """
            )
        }
    }

    @Test(
        arguments: [Int32(2), 15, 9],
        ["cat absent0 > /dev/null", "dd if=absent0 of=/dev/null iflag=direct bs=64K status=none"]
    )
    func `a signal ends a blocked reader at once`(signal: Int32, program: String) async throws {
        try await Self.with(readTimeout: "60s") { drive in
            let reader = try drive.start("exec \(program)")
            try await eventually("it is reading") { reader.hasOpen("\(drive.path)/absent0") }
            reader.send(signal)
            #expect(try await reader.wait(within: .seconds(1)) == 128 + signal)
            #expect(try await drive.text("here") == "resident bytes")
        }
    }

    @Test func `a read fails with ETIMEDOUT after its deadline and then at once`() async throws {
        try await Self.with(readTimeout: "1s") { drive in
            try await drive.python(
                """
                file = os.open("absent0", os.O_RDONLY)
                begin = time.monotonic()
                fails(errno.ETIMEDOUT, os.pread, file, 4096, 0)
                first = time.monotonic() - begin
                assert 0.8 < first < 4, first
                begin = time.monotonic()
                fails(errno.ETIMEDOUT, os.pread, file, 4096, 0)
                again = time.monotonic() - begin
                assert again < 0.5, again
                """
            )
        }
    }

    @Test func `a mapping of bytes that cannot come raises SIGBUS`() async throws {
        try await Self.with(readTimeout: "1s") { drive in
            let reader = try drive.start(
                """
                exec /usr/bin/python3 -c '
                import mmap
                file = open("absent2", "rb")
                view = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
                print(view[100000])
                '
                """
            )
            #expect(try await reader.wait(within: .seconds(10)) == 128 + 7)
        }
    }

    @Test func `writing into a placeholder does not wait`() async throws {
        try await Self.with(readTimeout: "60s") { drive in
            try await drive.python(
                """
                begin = time.monotonic()
                file = os.open("absent3", os.O_WRONLY)
                assert os.pwrite(file, b"new bytes", 100000) == 9
                os.fsync(file)
                os.close(file)
                with open("absent4", "wb") as whole:
                    whole.write(b"all new")
                assert open("absent4", "rb").read() == b"all new"
                assert os.stat("absent3").st_size == 200000
                assert time.monotonic() - begin < 3
                """
            )
        }
    }

    @Test func `it ends when asked to, and says what stays in the queue`() async throws {
        try await Self.with(readTimeout: "60s") { drive in
            try await drive.write("new", "not yet in the cloud")
            _ = try await drive.mount.stop(within: .seconds(30))
            #expect(MountEntry.at(drive.path).isEmpty)
            let again = try await drive.again([])
            #expect(try await again.text("new") == "not yet in the cloud")
            try await again.untilCloudHas("new", "not yet in the cloud")
        }
    }
}
