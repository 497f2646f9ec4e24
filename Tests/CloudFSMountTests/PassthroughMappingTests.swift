import CloudFSTestSupport
import Testing

/// Mappings that outlive the descriptor that they were made of.
@Suite(.onMounts, .asRoot, .printingLogs, .notingIssues)
struct PassthroughMappingTests {
    /// The module `mmap` keeps a descriptor, so that this has mappings without one.
    private static let prelude = """
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype = ctypes.c_void_p
        libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 \
            + [ctypes.c_long]
        libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
        SHARED, PRIVATE = 1, 2
        class Mapping:
            def __init__(self, name, flags, writes=False):
                handle = os.open(name, os.O_RDWR if writes else os.O_RDONLY)
                self.count = os.fstat(handle).st_size
                self.place = libc.mmap(None, self.count, 3 if writes else 1, flags, handle, 0)
                assert self.place not in (None, ctypes.c_void_p(-1).value), ctypes.get_errno()
                os.close(handle)
            def bytes(self, start=0, end=None):
                end = self.count if end is None else end
                return ctypes.string_at(self.place + start, end - start)
            def store(self, offset, text):
                ctypes.memmove(self.place + offset, text, len(text))
            def unmap(self):
                assert libc.munmap(self.place, self.count) == 0
        def child(work):
            pid = os.fork()
            if pid == 0:
                try: work()
                except BaseException as error: print(repr(error), file=sys.stderr, flush=True)
                else: os._exit(0)
                os._exit(1)
            return pid
        def signal_of(work):
            return os.WTERMSIG(os.waitpid(child(work), 0)[1])
        def until(condition):
            end = time.monotonic() + 30
            while not condition():
                assert time.monotonic() < end
                time.sleep(0.02)
        def content(name):
            with open(name, "rb") as file: return file.read()
        def is_local(name):
            return os.getxattr(name, "user.cloudfs.status") == b"local"
        real = content(cloud + "/file")

        """

    /// Lends a drive with a file that ends within a page, and runs programs in it.
    ///
    /// - Parameters:
    ///   - reads: How its bytes are reached; a program finds it in `by_kernel`.
    ///   - body: The test, given what runs a program.
    private static func with(
        _ reads: Reads,
        isLocal: Bool = true,
        body: (TestDrive, _ python: (String) async throws -> Void) async throws -> Void
    ) async throws {
        let filling = Filling { try $0.write("file", HydrationTests.bytes(200_000)) }
        try await TestDrive.with(reads.arguments, prepare: filling) { drive in
            if isLocal {
                try await drive.run("cat file > /dev/null")
                try await eventually("it is here") { try await drive.state("file") == "local" }
            }
            let disk = try await drive.run("stat -f -c %T '\(drive.mount.state)'")
            let isByKernel = reads == .byKernel && disk != "tmpfs"
            let known = "by_kernel = \(isByKernel ? "True" : "False")\n"
            try await body(drive) { program in
                try await drive.python(known + prelude + program, within: .seconds(60))
            }
        }
    }

    /// Some pages are seen before and some after: neither may be of anything else.
    @Test(arguments: Reads.allCases)
    func `a mapping shows its version, whole, though the file is evicted or replaced`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { _, python in
            try await python(
                """
                maps = [Mapping("file", SHARED), Mapping("file", PRIVATE)]
                def expect_old():
                    for map in maps: assert map.bytes() == real
                assert maps[0].bytes(0, 90000) == real[:90000]
                evicted = []
                def evict():
                    try: os.setxattr("file", "user.cloudfs.evict", b"1")
                    except OSError as error: assert error.errno == errno.EBUSY, error
                    else: evicted.append(True)
                    return evicted
                if by_kernel: until(evict)
                else: evict()
                expect_old()
                assert content("file") == real

                newer = bytes(reversed(real)) + b"newer"
                with open(cloud + "/other", "wb") as other: other.write(newer)
                os.rename(cloud + "/other", cloud + "/file")
                def is_noticed():
                    now = content("file")
                    assert now in (real, newer), "two versions are mixed"
                    return now == newer or \
                        b'"has-newer-version":true' in os.getxattr("file", "user.cloudfs")
                until(is_noticed)
                # The drive cannot tell who only reads a mapping, and nobody is kept waiting by it.
                if by_kernel: until(lambda: content("file") == newer)
                expect_old()
                for map in maps: map.unmap()
                until(lambda: content("file") == newer)
                assert Mapping("file", SHARED).bytes() == newer
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `what is cut off is zeros in the last page of a mapping, and SIGBUS behind it`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { _, python in
            try await python(
                """
                import resource
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                seen, unseen = Mapping("file", SHARED), Mapping("file", PRIVATE)
                assert seen.bytes() == real
                def expect(size):
                    end = (size + 4095) // 4096 * 4096
                    for map in seen, unseen:
                        assert map.bytes(0, end) == real[:size] + bytes(end - size)
                        for place in end, 196608, 199999:
                            died = signal_of(lambda: map.bytes(place, place + 1))
                            assert died == signal.SIGBUS, (place, died)
                os.truncate("file", 5000)
                expect(5000)
                os.truncate("file", 100)
                expect(100)
                os.truncate("file", 200000)
                for map in seen, unseen: assert map.bytes() == real[:100] + bytes(199900)
                """
            )
        }
    }

    @Test(arguments: Reads.allCases)
    func `a mapping of what was not here yet shows what others see when it is`(
        reads: Reads
    ) async throws {
        try await Self.with(reads, isLocal: false) { drive, python in
            try await python(
                """
                maps = [Mapping("file", SHARED), Mapping("file", PRIVATE)]
                assert not is_local("file")
                assert maps[0].bytes(0, 100) == real[:100]
                os.setxattr("file", "user.cloudfs.hydrate", b"1")
                until(lambda: is_local("file"))
                assert content("file") == real
                for map in maps: assert map.bytes() == real
                writer = os.open("file", os.O_RDWR)
                os.pwrite(writer, b"written", 100000)
                for map in maps: assert map.bytes(100000, 100007) == b"written"
                os.close(writer)
                maps[0].unmap()
                last = content("file")
                assert last == real[:100000] + b"written" + real[100007:]
                assert maps[1].bytes() == last
                """
            )
            try await drive.drain()
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }

    @Test(arguments: Reads.allCases)
    func `what a child stores arrives though its parent has unmapped and closed the file`(
        reads: Reads
    ) async throws {
        try await Self.with(reads) { drive, python in
            try await python(
                """
                view = Mapping("file", SHARED, writes=True)
                view.store(0, b"parent")
                go, gone = os.pipe()
                def store():
                    assert os.read(go, 1) == b"!"
                    view.store(100000, b"child")
                    assert view.bytes(0, 6) == b"parent"
                pid = child(store)
                view.unmap()
                # What can be told of it now is that nobody has it open.
                assert content("file")[:6] == b"parent"
                os.write(gone, b"!")
                assert os.waitpid(pid, 0)[1] == 0
                assert content("file")[100000:100005] == b"child"
                """
            )
            try await eventually("the cloud has both") {
                let bytes = drive.cloud.bytes("file") ?? []
                return bytes.count == 200_000 && bytes.starts(with: "parent".utf8)
                    && bytes[100_000...].starts(with: "child".utf8)
            }
            try await drive.run("cmp file \"$CLOUD/file\"")
        }
    }
}
