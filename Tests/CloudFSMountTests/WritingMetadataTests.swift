import CloudFSTestSupport
import Testing

/// Modes, owners, times, attributes and locks.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct WritingMetadataTests {
    @Test func `new items belong to their maker and get the mode that the umask leaves`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                os.umask(0o027)
                os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o666))
                os.mkdir("folder", 0o777)
                assert stat.S_IMODE(os.stat("file").st_mode) == 0o640
                assert stat.S_IMODE(os.stat("folder").st_mode) == 0o750
                assert os.stat("file").st_uid == os.getuid()
                assert os.stat("folder").st_gid == os.getgid()
                # A mode that forbids writing does not bind the handle that made the file.
                file = os.open("locked", os.O_CREAT | os.O_WRONLY, 0o400)
                os.write(file, b"text")
                os.close(file)
                assert open("locked").read() == "text"
                """
            )
        }
    }

    /// FILETIME begins in 1601, and much that was unpacked from such disks has that time.
    @Test func `times that are too far away are the last that can be told`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                printf text > file; mkdir folder; ln -s nowhere link
                for zero in 0001-01-01 1601-01-01 9999-12-31; do
                    touch -h -d "$zero UTC" file folder link
                    ls -l > /dev/null
                done
                touch -h -d '1601-01-01 UTC' file folder link
                [ "$(cat file)" = text ]
                [ "$(stat -c %Y folder)" -lt -9223372035 ]
                """
            )
            try await drive.untilCloudHas("file", "text")
            try await drive.mount.stop()
            _ = try await drive.again()
            try await drive.run(
                "[ $(ls -l | wc -l) = 4 ] && [ $(stat -c %Y folder) -lt -9223372035 ]"
            )
            let status = try await drive.cloudfs(["status", "--json", "folder"])
            #expect(status.status == 0, "\(status)")
        }
    }

    @Test(.asRoot) func `chown is kept and others get what the mode allows`() async throws {
        try await TestDrive.with(
            ["-o", "allow_other"],
            prepare: Filling { cloud in
                try cloud.write("file", "text")
                try cloud.setMode("file", 0o640)
            }
        ) { drive in
            try await drive.run(
                """
                chmod 755 . "$(dirname "$DRIVE")"
                chown 1234:4321 file
                [ "$(stat -c %u:%g file)" = 1234:4321 ]
                as() { setpriv --reuid=$1 --regid=$2 --clear-groups "${@:3}"; }
                refused() { if as "$@"; then exit 1; fi 2> /dev/null; }
                [ "$(as 1234 100 cat file)" = text ]
                [ "$(as 99 4321 cat file)" = text ]
                refused 99 99 cat file
                refused 99 4321 sh -c 'echo x >> file'
                refused 99 4321 chmod 777 file
                refused 99 99 touch new
                """
            )
        }
    }

    @Test(.asRoot, .onMounts)
    func `what modes hide from others is not shown below .cloudfs`() async throws {
        try await TestDrive.with(
            ["-o", "allow_other"],
            prepare: Filling { cloud in
                try cloud.write("private/secret", "text")
                try cloud.setMode("private", 0o700)
            }
        ) { drive in
            try await drive.setAttribute("user.cloudfs.favorite", of: "private/secret", to: "1")
            try await drive.run(
                """
                chmod 755 . "$(dirname "$DRIVE")"
                as() { setpriv --reuid=99 --clear-groups "$@"; }
                refused() { if as "$@"; then exit 1; fi 2> /dev/null; }
                refused ls .cloudfs
                refused ls .cloudfs/favorites
                refused ls .cloudfs/search/secret
                refused readlink .cloudfs/favorites/secret
                [ "$(stat -c %a .cloudfs .cloudfs/favorites | sort -u)" = 500 ]
                [ "$(cat .cloudfs/favorites/secret)" = text ]
                chown 99 .
                refused ls .cloudfs
                """
            )
        }
    }

    @Test(.asRoot, arguments: Reads.allCases)
    func `who changes or is given a file does not get its set-user bit`(
        reads: Reads
    ) async throws {
        try await TestDrive.with(
            ["-o", "allow_other"] + reads.arguments,
            prepare: Filling { try $0.write("file", "text") }
        ) { drive in
            try await drive.run(
                """
                chmod 755 . "$(dirname "$DRIVE")"
                cat file > /dev/null
                as() { setpriv --reuid=$1 --regid=$1 --clear-groups "${@:2}"; }
                # The kernel hears of a new mode after the write was answered.
                mode() {
                    for try in {1..50}; do [ "$(stat -c %a file)" = $1 ] && return; sleep 0.1; done
                    stat file; exit 1
                }
                chmod 6755 file; chown 1234 file; mode 755
                chmod 6766 file; chown 99 file; mode 2766
                chmod 6777 file; echo root >> file; [ "$(stat -c %a file)" = 6777 ]
                as 1234 sh -c 'echo user >> file'; mode 777
                chmod 6777 file; as 1234 truncate -s 3 file; mode 777
                chmod 6777 file; as 1234 sh -c ': > file'; mode 777
                chmod 6777 file; as 1234 fallocate -l 100 file; mode 777
                # Unpackers set the mode of what they have open.
                exec 3> new; echo text >&3; chmod 4711 new; exec 3>&-
                [ "$(stat -c %a new)" = 4711 ]
                """
            )
        }
    }

    @Test func `a folder with the set-group bit gives its group to what is made in it`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                os.mkdir("shared")
                if os.getuid() == 0:
                    os.chown("shared", 0, 4321)
                os.chmod("shared", 0o2775)
                os.mkdir("shared/below")
                open("shared/file", "w").close()
                group = os.stat("shared").st_gid
                assert os.stat("shared/file").st_gid == group
                assert os.stat("shared/below").st_gid == group
                assert os.stat("shared/below").st_mode & stat.S_ISGID
                """
            )
        }
    }

    @Test(.onMounts) func `a folder keeps bits that no cloud has when it is moved there`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.run("mkdir shared; chmod 3775 shared; echo x > shared/file")
            try await drive.drain()
            try await drive.run("mv shared moved")
            try await drive.drain()
            #expect(try drive.cloud.paths() == ["moved", "moved/file"])
            try await drive.run("mkdir moved/below")
            #expect(try await drive.run("stat -c %a moved moved/below") == "3775\n2755")
        }
    }

    @Test func `a file keeps bits that no cloud has when its mode was sent`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("echo x > file")
            try await drive.drain()
            try await drive.run("chmod 4755 file")
            try await drive.drain()
            #expect(try await drive.run("stat -c %a file") == "4755")
        }
    }

    @Test func `chmod and times are exact, and change nothing else`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("file", "text")
                try cloud.setTimes("file", nanoseconds: 1_000_000_000_000_000_777)
            }
        ) { drive in
            try await drive.python(
                """
                before = os.stat("file")
                os.chmod("file", 0o751)
                after = os.stat("file")
                assert stat.S_IMODE(after.st_mode) == 0o751
                assert after.st_mtime_ns == 1000000000000000777
                assert after.st_ctime_ns >= before.st_ctime_ns
                os.utime("file", ns=(1, 2000000000000000001))
                assert os.stat("file").st_mtime_ns == 2000000000000000001
                os.utime("file", ns=(5, -1000000001))
                assert os.stat("file").st_mtime_ns == -1000000001
                now = time.time()
                os.utime("file")
                assert abs(os.stat("file").st_mtime - now) < 5
                open("file", "a").close()
                stamp = os.stat("file").st_mtime_ns
                with open("file", "a") as file:
                    file.write("more")
                assert os.stat("file").st_mtime_ns >= stamp
                """
            )
        }
    }

    @Test func `a time of access that was set is not undone by what was opened before`()
        async throws
    {
        try await TestDrive.with(
            ["--quiet-time", "1h"],
            prepare: Filling { cloud in try cloud.write("old", "text") }
        ) { drive in
            try await drive.python(
                """
                # Looking at what was used last stores it; that is also done from time to time.
                def store(): os.listdir(".cloudfs/recents")
                past = 5_000_000_001
                def access(name): return os.stat(name).st_atime_ns
                def set(name): os.utime(name, ns=(past, past))

                open("old").read()
                set("old")
                store()
                assert access("old") == past, access("old")
                open("old").read()
                store()
                assert access("old") > past

                # Known to the catalog before it is closed.
                file = os.open("new", os.O_CREAT | os.O_WRONLY)
                os.write(file, b"text")
                set("new")
                os.fsync(file)
                store()
                assert access("new") == past, access("new")
                os.close(file)
                store()
                assert access("new") == past, access("new")
                """
            )
            let again = try await drive.crash()
            #expect(try await again.run("stat -c %X new") == "5")
        }
    }

    /// The kernel asks once after a read that it does not answer from its own pages, and keeps what
    /// it hears.
    @Test(arguments: [[], ["--no-passthrough"]])
    func `a time of access shows as soon as the file was read`(options: [String]) async throws {
        try await TestDrive.with(
            options,
            prepare: Filling { cloud in try cloud.write("old", "text") }
        ) { drive in
            try await drive.python(
                """
                os.utime("old", ns=(5_000_000_001, 5_000_000_001))
                assert os.stat("old").st_atime_ns == 5_000_000_001
                open("old").read()
                assert os.stat("old").st_atime_ns > 5_000_000_001
                """
            )
        }
    }

    @Test func `times of a file that is written in place survive its upload`() async throws {
        try await TestDrive.with { drive in
            try await drive.run("echo text > file; touch -d '2001-02-03 04:05:06.7 UTC' file")
            try await eventually("the cloud has the time") {
                try drive.cloud.exists("file")
                    && drive.cloud.status("file").modified == 981_173_106_700_000_000
            }
            try await drive.drain()
            #expect(try await drive.status("file").modified == 981_173_106_700_000_000)
        }
    }

    @Test func `user attributes are kept, listed, replaced and removed`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                """
                os.setxattr("file", "user.xdg.tags", b"red,blue")
                os.setxattr("file", "user.empty", b"")
                assert os.getxattr("file", "user.xdg.tags") == b"red,blue"
                assert os.getxattr("file", "user.empty") == b""
                names = [name for name in os.listxattr("file") if name.startswith("user.")]
                assert sorted(names) == ["user.empty", "user.xdg.tags"], names
                fails(errno.EEXIST, os.setxattr, "file", "user.empty", b"1", os.XATTR_CREATE)
                fails(errno.ENODATA, os.setxattr, "file", "user.no", b"1", os.XATTR_REPLACE)
                fails(errno.ENODATA, os.getxattr, "file", "user.no")
                fails(errno.ENODATA, os.removexattr, "file", "user.no")
                libc = ctypes.CDLL(None, use_errno=True)
                room = ctypes.create_string_buffer(3)
                assert libc.getxattr(b"file", b"user.xdg.tags", None, 0) == 8
                assert libc.getxattr(b"file", b"user.xdg.tags", room, 3) == -1
                assert ctypes.get_errno() == errno.ERANGE
                os.removexattr("file", "user.empty")
                os.mkdir("folder")
                os.setxattr("folder", "user.a", bytes(range(256)))
                assert os.getxattr("folder", "user.a") == bytes(range(256))
                os.rename("file", "moved")
                assert os.getxattr("moved", "user.xdg.tags") == b"red,blue"
                """
            )
        }
    }

    @Test(.onMounts) func `no two attributes differ by the normal form of their names only`()
        async throws
    {
        let filling = Filling { cloud in
            try cloud.write("file", "text")
            try cloud.write("other", "text")
            for (name, value) in [("user.\u{e9}", "one"), ("user.e\u{301}", "two")] {
                try SystemCall.setAttribute(name, of: "\(cloud.path)/other", to: Array(value.utf8))
            }
        }
        try await TestDrive.with(prepare: filling) { drive in
            try await drive.python(
                """
                first, second = "user.\\u00e9", "user.e\\u0301"
                os.setxattr("file", first, b"one", os.XATTR_CREATE)
                fails(errno.ENODATA, os.setxattr, "file", second, b"two", os.XATTR_REPLACE)
                for flags in (0, os.XATTR_CREATE):
                    fails(errno.EINVAL, os.setxattr, "file", second, b"two", flags)
                os.setxattr("file", first, b"anew", os.XATTR_REPLACE)
                assert os.listxattr("file") == [first]
                assert os.getxattr("file", first) == b"anew"
                # Another tool has stored both.
                [name] = os.listxattr("other")
                assert os.getxattr("other", name) == {first: b"one", second: b"two"}[name]
                """
            )
            let file = "\(drive.cloud.path)/file"
            try await eventually("the cloud has the first") {
                try await drive.run("getfattr -d \(file)").contains("=\"anew\"")
            }
            try await drive.python(
                """
                first, second = "user.\\u00e9", "user.e\\u0301"
                os.removexattr("file", first)
                os.setxattr("file", second, b"anew", os.XATTR_CREATE)
                """
            )
            try await drive.drain()
            try await drive.python(
                """
                for file in ("file", "\(file)"):
                    names = [name for name in os.listxattr(file) if name != "user.cloudfs-id"]
                    assert names == ["user.e\\u0301"], names
                """
            )
        }
    }

    @Test func `statfs tells sizes that make sense`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                room = os.statvfs(".")
                assert room.f_bsize > 0 and room.f_blocks > 0
                assert 0 < room.f_bavail <= room.f_bfree <= room.f_blocks
                # As much is used as of the cloud's disk, where other programs write meanwhile.
                def used(path):
                    there = os.statvfs(path)
                    return (there.f_blocks - there.f_bfree) * there.f_frsize
                assert abs(used(".") - used(os.environ["CLOUD"])) < 4 << 30
                """
            )
            try await drive.run("df -h . > /dev/null")
        }
    }

    // MARK: - Locks

    /// Starts a process that locks `file` as `lock` says, holds it, and ends with its input.
    static let holder = """
        def holding(lock):
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                try:
                    file = os.open("file", os.O_RDWR)
                    lock(file)
                    os.write(writer, b"1")
                    signal.pause()
                finally:
                    os._exit(0)
            assert os.read(reader, 1) == b"1"
            return pid
        def end(pid):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)

        """

    @Test func `flock keeps others out until its holder ends`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                Self.holder + """
                    pid = holding(lambda file: fcntl.flock(file, fcntl.LOCK_EX))
                    file = os.open("file", os.O_RDWR)
                    fails(errno.EAGAIN, fcntl.flock, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    fails(errno.EAGAIN, fcntl.flock, file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    end(pid)
                    fcntl.flock(file, fcntl.LOCK_EX)
                    fcntl.flock(file, fcntl.LOCK_UN)
                    pid = holding(lambda file: fcntl.flock(file, fcntl.LOCK_SH))
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    end(pid)
                    """
            )
        }
    }

    @Test func `fcntl locks have ranges and tell who holds them`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                Self.holder + """
                    pid = holding(lambda file: fcntl.lockf(file, fcntl.LOCK_EX, 100, 50))
                    file = os.open("file", os.O_RDWR)
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 50, 0)
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 0, 150)
                    try:
                        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 149)
                    except OSError as error:
                        assert error.errno in (errno.EAGAIN, errno.EACCES)
                    else:
                        raise AssertionError("locked twice")
                    asked = struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 120, 10, 0)
                    found = struct.unpack("hhqqi4x", fcntl.fcntl(file, fcntl.F_GETLK, asked))
                    assert found == (fcntl.F_WRLCK, 0, 50, 100, pid), found
                    end(pid)
                    fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 149)
                    """
            )
        }
    }

    /// The kernel tells the drive nothing of the end of such a lock but that of its open file.
    @Test func `a lock of an open file ends with it, closed or killed`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                Self.holder + """
                    def lock(file):
                        # F_OFD_SETLK
                        fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
                        os.write(file, b"text")
                    os.close(os.open("file", os.O_CREAT | os.O_WRONLY, 0o666))
                    file = os.open("file", os.O_RDWR)
                    mine = os.open("file", os.O_RDWR)
                    lock(mine)
                    again = os.dup(mine)
                    os.close(mine)
                    fails(errno.EAGAIN, fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.close(again)
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    fcntl.lockf(file, fcntl.LOCK_UN)
                    pid = holding(lock)
                    fails(errno.EAGAIN, fcntl.lockf, file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    end(pid)
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    """
            )
            try await drive.drain()
        }
    }

    @Test func `closing one open file leaves the locks of another`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                Self.holder + """
                    def lock(file):
                        fcntl.fcntl(file, 37, struct.pack("hhqqi4x", fcntl.F_RDLCK, 0, 0, 9, 0))
                    first, second = (os.open("file", os.O_RDWR) for _ in range(2))
                    lock(first)
                    lock(second)
                    os.close(first)
                    # A close drops what its process locked, through whatever it has open.
                    pid = holding(lambda file: (fcntl.lockf(file, fcntl.LOCK_EX, 10, 20),
                                                os.close(os.open("file", os.O_RDONLY)),
                                                fcntl.lockf(file, fcntl.LOCK_EX, 10, 40)))
                    other = os.open("file", os.O_RDWR)
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 20)
                    fails(errno.EAGAIN, fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 40)
                    fails(errno.EAGAIN, fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB, 9, 0)
                    end(pid)
                    os.close(second)
                    fcntl.lockf(other, fcntl.LOCK_EX, 100, 0)
                    """
            )
        }
    }

    @Test func `a wait for a lock is ended by a signal`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                Self.holder + """
                    class Interrupted(Exception):
                        pass
                    def interrupt(*_):
                        raise Interrupted
                    signal.signal(signal.SIGALRM, interrupt)
                    pid = holding(lambda file: (fcntl.flock(file, fcntl.LOCK_EX),
                                                fcntl.lockf(file, fcntl.LOCK_EX)))
                    file = os.open("file", os.O_RDWR)
                    for lock in (fcntl.flock, fcntl.lockf):
                        signal.setitimer(signal.ITIMER_REAL, 0.2)
                        begin = time.monotonic()
                        try:
                            lock(file, fcntl.LOCK_EX)
                        except Interrupted:
                            pass
                        else:
                            raise AssertionError("locked twice")
                        assert time.monotonic() - begin < 2
                    end(pid)
                    fcntl.flock(file, fcntl.LOCK_EX)
                    fcntl.lockf(file, fcntl.LOCK_EX)
                    """
            )
        }
    }

    @Test func `waiting lockers get the lock one after the other`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("count", "0") }) { drive in
            try await drive.run(
                """
                for worker in $(seq 8); do
                    (for turn in $(seq 5); do
                        flock count sh -c 'echo $(($(cat count) + 1)) > count'
                    done) &
                done
                wait
                [ "$(cat count)" = 40 ]
                """
            )
        }
    }
}
