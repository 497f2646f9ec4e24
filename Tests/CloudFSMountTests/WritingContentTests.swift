import CloudFSTestSupport
import Testing

/// Bytes that programs write, on new files and into placeholders.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct WritingContentTests {
    static let old = HydrationTests.bytes(300_000, seed: 9)

    /// A drive with the placeholder `file`; `body` changes it; cloud and drive must agree after.
    static func changing(_ program: String) async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", old) }) { drive in
            try await drive.python(
                "old = open(cloud + '/file', 'rb').read()\n" + program
                    + "\nnew = open('file', 'rb').read()\n"
                    + "open(os.environ['SCRATCH'] + '/expected', 'wb').write(new)\n"
            )
            let expected = try await drive.run("md5sum < \"$SCRATCH/expected\"")
            try await eventually("the cloud has it", within: .seconds(10)) {
                try await drive.run("md5sum < \"$CLOUD/file\"") == expected
            }
            #expect(try await drive.run("md5sum < file") == expected)
        }
    }

    @Test func `a partial write changes its own bytes only`() async throws {
        try await Self.changing(
            """
            file = os.open("file", os.O_WRONLY)
            assert os.pwrite(file, b"NEW BYTES", 123456) == 9
            os.close(file)
            new = open("file", "rb").read()
            assert new == old[:123456] + b"NEW BYTES" + old[123465:]
            """
        )
    }

    @Test func `appending adds at the end, also from two handles`() async throws {
        try await Self.changing(
            """
            first = os.open("file", os.O_WRONLY | os.O_APPEND)
            second = os.open("file", os.O_WRONLY | os.O_APPEND)
            os.write(first, b"one")
            os.write(second, b"two")
            os.pwrite(first, b"three", 5)
            assert os.fstat(second).st_size == len(old) + 11
            os.close(first); os.close(second)
            assert open("file", "rb").read() == old + b"onetwothree"
            """
        )
    }

    @Test func `truncating shorter and longer keeps the beginning and adds zeros`() async throws {
        try await Self.changing(
            """
            os.truncate("file", 100000)
            os.truncate("file", 200000)
            assert open("file", "rb").read() == old[:100000] + bytes(100000)
            with open("file", "r+b") as file:
                file.truncate(150000)
                assert os.fstat(file.fileno()).st_size == 150000
            assert open("file", "rb").read() == old[:100000] + bytes(50000)
            """
        )
    }

    @Test func `O_TRUNC and writing anew leaves the new bytes only`() async throws {
        try await Self.changing(
            """
            with open("file", "wb") as file:
                assert os.stat("file").st_size == 0
                file.write(b"short")
            assert open("file", "rb").read() == b"short"
            """
        )
    }

    @Test func `a write far behind the end leaves a hole of zeros`() async throws {
        try await Self.changing(
            """
            file = os.open("file", os.O_RDWR)
            os.pwrite(file, b"end", 5000000)
            assert os.pread(file, 4096, 4000000) == bytes(4096)
            assert os.fstat(file).st_size == 5000003
            os.close(file)
            """
        )
    }

    @Test func `a shared mapping writes to the file`() async throws {
        try await Self.changing(
            """
            with open("file", "r+b") as file:
                view = mmap.mmap(file.fileno(), 0)
                view[200000:200005] = b"store"
                view.flush()
                view[4096] = 255
                view.close()
            new = open("file", "rb").read()
            assert new[200000:200005] == b"store" and new[4096] == 255
            assert new[:4096] == old[:4096]
            """
        )
    }

    @Test func `stores into a mapping after its file was closed are kept`() async throws {
        try await Self.changing(
            """
            file = os.open("file", os.O_RDWR)
            view = mmap.mmap(file, 0)
            os.close(file)
            # Later files are in the cloud by now; this one could be.
            open("other", "w").close()
            end = time.monotonic() + 10
            while not os.path.exists(cloud + "/other"):
                assert time.monotonic() < end
                time.sleep(0.02)
            view[1000:1004] = b"late"
            view.close()
            assert open("file", "rb").read()[1000:1004] == b"late"
            """
        )
    }

    @Test func `fallocate makes room, keeps the size when told so, and punches holes`()
        async throws
    {
        try await Self.changing(
            """
            libc = ctypes.CDLL(None, use_errno=True)
            def fallocate(file, mode, offset, length):
                result = libc.fallocate(file, mode, ctypes.c_long(offset), ctypes.c_long(length))
                if result != 0:
                    raise OSError(ctypes.get_errno(), "fallocate")
            file = os.open("file", os.O_RDWR)
            fallocate(file, 0, 0, 400000)
            assert os.fstat(file).st_size == 400000
            fallocate(file, 1, 0, 900000)
            assert os.fstat(file).st_size == 400000
            fallocate(file, 3, 4096, 8192)
            assert os.pread(file, 8192, 4096) == bytes(8192)
            assert os.pread(file, 4096, 0) == old[:4096]
            assert os.pread(file, 4096, 12288) == old[12288:16384]
            fallocate(file, 16, 20480, 4096)
            assert os.pread(file, 4096, 20480) == bytes(4096)
            os.close(file)
            """
        )
    }

    @Test func `copy_file_range copies within and between files`() async throws {
        try await Self.changing(
            """
            source = os.open("file", os.O_RDONLY)
            target = os.open("copy", os.O_RDWR | os.O_CREAT)
            done = 0
            while done < len(old):
                count = os.copy_file_range(source, target, len(old) - done)
                assert count > 0
                done += count
            os.close(source); os.close(target)
            assert open("copy", "rb").read() == old
            both = os.open("file", os.O_RDWR)
            count = os.copy_file_range(both, both, 1000, 0, 200000)
            assert 0 < count <= 1000
            os.close(both)
            assert open("file", "rb").read()[200000:200000 + count] == old[:count]
            """
        )
    }

    @Test func `SEEK_DATA and SEEK_HOLE find what was written and what was not`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                file = os.open("sparse", os.O_RDWR | os.O_CREAT)
                os.ftruncate(file, 1 << 20)
                os.pwrite(file, b"x" * 4096, 524288)
                assert os.lseek(file, 524288, os.SEEK_DATA) == 524288
                assert os.lseek(file, 0, os.SEEK_DATA) in (0, 524288)
                assert os.lseek(file, 524288, os.SEEK_HOLE) >= 528384
                assert os.lseek(file, 0, os.SEEK_END) == 1 << 20
                fails(errno.ENXIO, os.lseek, file, 1 << 20, os.SEEK_DATA)
                """
            )
        }
    }

    /// What is stored into a mapping is the kernel's alone for a while; `cp` looks for data first.
    @Test(arguments: [[], ["--no-passthrough"]])
    func `a copy of a file with holes has what another program has just stored into a mapping`(
        options: [String]
    ) async throws {
        try await TestDrive.with(options) { drive in
            try await drive.python(
                """
                import mmap
                with open("sparse", "wb") as new: new.truncate(1 << 20)
                begins, begin = os.pipe()
                # Before it is open here: what a child closes brings the pages to the drive.
                copier = os.fork()
                if copier == 0:
                    os.read(begins, 1)
                    os.execvp("cp", ["cp", "sparse", "copy"])
                file = os.open("sparse", os.O_RDWR)
                pages = mmap.mmap(file, 1 << 20)
                pages[8192:8193]
                open("sparse", "rb").read(10)
                pages[8192:8197] = b"hello"
                os.write(begin, b"x")
                assert os.waitpid(copier, 0)[1] == 0
                assert open("copy", "rb").read()[8192:8197] == b"hello"
                """
            )
        }
    }

    @Test func `a file unlinked while open lives until its last close`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", Self.old) }) { drive in
            try await drive.python(
                """
                old = open(cloud + "/file", "rb").read()
                first = os.open("file", os.O_RDWR)
                second = os.open("file", os.O_RDONLY)
                os.unlink("file")
                assert os.fstat(first).st_nlink == 0
                assert os.listdir(".") == []
                assert os.pread(second, 1000, 1000) == old[1000:2000]
                os.pwrite(first, b"ghost", 10)
                os.close(first)
                assert os.pread(second, 5, 10) == b"ghost"
                os.ftruncate(os.open("file", os.O_CREAT | os.O_EXCL | os.O_WRONLY), 7)
                assert os.fstat(second).st_size == len(old)
                os.close(second)
                """
            )
            try await eventually("the cloud has the new one") {
                drive.cloud.bytes("file") == [UInt8](repeating: 0, count: 7)
            }
        }
    }

    @Test func `handles that may not read or write say EBADF`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                """
                reading = os.open("file", os.O_RDONLY)
                writing = os.open("file", os.O_WRONLY)
                fails(errno.EBADF, os.write, reading, b"x")
                fails(errno.EBADF, os.read, writing, 1)
                fails(errno.EINVAL, os.ftruncate, reading, 1)
                fails(errno.EISDIR, os.open, ".", os.O_WRONLY)
                """
            )
        }
    }

    @Test func `writing the largest offset fails with EFBIG or EINVAL and changes nothing`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                """
                file = os.open("file", os.O_RDWR)
                for call in (lambda: os.pwrite(file, b"x", (1 << 63) - 1),
                             lambda: os.ftruncate(file, (1 << 63) - 1)):
                    try:
                        call()
                    except OSError as error:
                        assert error.errno in (errno.EFBIG, errno.EINVAL), error
                    else:
                        raise AssertionError("no error")
                assert os.fstat(file).st_size == 4
                """
            )
        }
    }
    /// The kernel keeps what it was told while the file was open.
    @Test(arguments: [[], ["--no-passthrough"]])
    func `blocks are those on the disk, whenever they are asked for`(
        options: [String]
    ) async throws {
        try await TestDrive.with(options) { drive in
            try await drive.python(
                """
                def blocks(name): return os.stat(name).st_blocks * 512
                file = os.open("new", os.O_WRONLY | os.O_CREAT)
                os.write(file, bytes(1_000_000))
                assert 1_000_000 <= blocks(file) < 2_000_000, blocks(file)
                os.utime(file, (1, 2))
                blocks(file)
                os.close(file)
                assert 1_000_000 <= blocks("new") < 2_000_000, blocks("new")
                file = os.open("new", os.O_WRONLY | os.O_APPEND)
                os.write(file, bytes(1_000_000))
                blocks(file)
                os.close(file)
                assert 2_000_000 <= blocks("new") < 3_000_000, blocks("new")
                """
            )
            try await drive.drain()
            try await drive.python("assert os.stat(\"new\").st_blocks * 512 >= 2_000_000")
        }
    }
}
