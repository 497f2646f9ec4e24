import Glibc
import Testing

@testable import CloudFS

@Suite struct FuseArgumentsTests {
    @Test func `flags of renameat2 become modes, and combinations are refused`() throws {
        #expect(try FuseArguments.renameMode(0) == .replacing)
        #expect(try FuseArguments.renameMode(1) == .noReplace)
        #expect(try FuseArguments.renameMode(2) == .exchange)
        for flags: UInt32 in [3, 4, 8] {
            let error = #expect(throws: CloudFSError.self) {
                try FuseArguments.renameMode(flags)
            }
            #expect(error?.code == .invalidArgument)
        }
    }

    @Test func `device nodes are refused, other nodes become items`() throws {
        #expect(try FuseArguments.kind(S_IFREG | 0o644) == .file)
        #expect(try FuseArguments.kind(S_IFIFO | 0o644) == .fifo)
        #expect(try FuseArguments.kind(S_IFSOCK | 0o644) == .socket)
        for type in [S_IFCHR, S_IFBLK] {
            let error = #expect(throws: CloudFSError.self) { try FuseArguments.kind(type) }
            #expect(error?.code == .notPermitted)
        }
    }

    @Test func `a lock to the end of the file ends nowhere`() throws {
        var record = flock()
        record.l_type = Int16(F_WRLCK)
        record.l_start = 10
        record.l_len = 0
        record.l_pid = 77
        let lock = try FuseArguments.lock(record)
        #expect(lock == FileLock(kind: .exclusive, range: 10..<FileLock.end, processID: 77))
        #expect(FuseReplies.lock(lock).l_len == 0)
    }

    /// An empty one would be dropped by nothing.
    @Test(arguments: [0, 1])
    func `a lock at the last offset is not empty`(length: Int) throws {
        var record = flock()
        record.l_type = Int16(F_WRLCK)
        record.l_start = Int.max
        record.l_len = length
        let lock = try FuseArguments.lock(record)
        #expect(!lock.range.isEmpty && lock.conflicts(with: lock))
        record.l_start = 0
        record.l_len = 0
        #expect(lock.conflicts(with: try FuseArguments.lock(record)))
    }

    @Test func `a lock survives the way there and back`() throws {
        let lock = FileLock(kind: .shared, range: 5..<15, processID: 42)
        #expect(try FuseArguments.lock(FuseReplies.lock(lock)) == lock)
        #expect(FuseReplies.lock(nil).l_type == Int16(F_UNLCK))
    }

    @Test(arguments: [(-1, 5), (5, -1), (Int.max, Int.max)])
    func `a lock with a senseless range is refused`(start: Int, length: Int) {
        var record = flock()
        record.l_type = Int16(F_RDLCK)
        record.l_start = start
        record.l_len = length
        let error = #expect(throws: CloudFSError.self) { try FuseArguments.lock(record) }
        #expect(error?.code == .invalidArgument)
    }

    @Test func `flock is understood with and without waiting`() throws {
        #expect(try FuseArguments.flockKind(LOCK_SH) == .shared)
        #expect(try FuseArguments.flockKind(LOCK_EX | LOCK_NB) == .exclusive)
        #expect(try FuseArguments.flockKind(LOCK_UN) == .unlock)
        let error = #expect(throws: CloudFSError.self) { try FuseArguments.flockKind(LOCK_NB) }
        #expect(error?.code == .invalidArgument)
    }

    @Test func `only selected attributes are changed`() {
        var status = stat()
        status.st_mode = S_IFREG | 0o4755
        status.st_uid = 7
        status.st_size = 1234
        status.st_mtim = timespec(tv_sec: 10, tv_nsec: 20)
        // FUSE_SET_ATTR_MODE, _SIZE, _MTIME, _ATIME with _ATIME_NOW.
        let changes = FuseArguments.changes(status, 1 | 8 | 32 | 16 | 128)
        #expect(changes.permissions == 0o4755)
        #expect(changes.userID == nil)
        #expect(changes.groupID == nil)
        #expect(changes.size == 1234)
        guard case .to(let time) = changes.modified, case .now = changes.accessed else {
            Issue.record("wrong times: \(changes)")
            return
        }
        #expect(time == Timestamp(seconds: 10, nanoseconds: 20))
    }

    @Test func `names are checked bytes`() throws {
        #expect(try FuseArguments.name("a b").bytes == Array("a b".utf8))
        let long = String(repeating: "x", count: 256)
        let error = #expect(throws: CloudFSError.self) { try FuseArguments.name(long) }
        #expect(error?.code == .nameTooLong)
    }
}

@Suite struct FuseRepliesTests {
    @Test func `stat shows an item's attributes exactly`() {
        let status = FuseReplies.status(.sample(id: 12, size: 5000))
        #expect(status.st_ino == 12)
        #expect(status.st_mode == S_IFREG | 0o644)
        #expect(status.st_size == 5000)
        #expect(status.st_blocks == 10)
        #expect(status.st_uid == 1000)
        #expect(status.st_gid == 100)
        #expect(status.st_atim.tv_sec == 1)
        #expect(status.st_atim.tv_nsec == 5)
        #expect(status.st_mtim.tv_sec == -1)
        #expect(status.st_mtim.tv_nsec == 7)
        #expect(status.st_ctim.tv_nsec == 999_999_999)
    }

    @Test func `every kind of item has its own file type`() {
        let types = ItemKind.allCases.map { FuseReplies.fileType($0) }
        #expect(Set(types).count == ItemKind.allCases.count)
        #expect(types.allSatisfy { $0 & S_IFMT == $0 && $0 != 0 })
    }

    @Test func `statfs counts in blocks`() {
        let values = FuseReplies.statistics(
            FilesystemStatistics(
                blockSize: 4096,
                totalBytes: 40_960,
                freeBytes: 12_288,
                availableBytes: 8192,
                totalItems: 10,
                freeItems: 4
            )
        )
        #expect(values.f_blocks == 10)
        #expect(values.f_bfree == 3)
        #expect(values.f_bavail == 2)
        #expect(values.f_ffree == 4)
        #expect(values.f_namemax == 255)
    }
}

@Suite struct FuseMountOptionsTests {
    @Test func `drives are mounted with permissions checked and without privileges`() throws {
        let options = try FuseMountOptions(mountpoint: "/m", source: "local:/a", options: ["ro"])
        #expect(
            options.arguments == [
                "cloudfs-mount", "-o", "fsname=local:/a", "-o", "subtype=cloudfs", "-o",
                "default_permissions", "-o", "nosuid", "-o", "nodev", "-o", "ro",
            ]
        )
        #expect(options.isReadOnly)
        #expect(!options.allowsOthers)
    }

    @Test func `what fstab and systemd write for themselves is left out`() throws {
        let options = try FuseMountOptions(
            mountpoint: "/m",
            source: "s",
            options: ["_netdev", "noauto", "nofail", "x-systemd.automount", "user", "noatime"]
        )
        #expect(options.flags == ["noatime"])
    }

    @Test func `a source with commas and backslashes stays one option`() throws {
        let options = try FuseMountOptions(mountpoint: "/m", source: #"local:/a,b\c"#)
        #expect(options.arguments.contains(#"fsname=local:/a\,b\\c"#))
    }

    @Test(arguments: ["bogus", "bogus=1", "max_read=4096", "suid", "dev", "fsname=x"])
    func `options that a drive does not have are refused by name`(option: String) {
        let error = #expect(throws: CloudFSError.self) {
            try FuseMountOptions(mountpoint: "/m", source: "s", options: [option])
        }
        #expect(error?.code == .invalidArgument)
        #expect(error?.message.contains(option) == true)
    }
}

@Suite struct KernelMountTableTests {
    @Test func `mountinfo is understood with optional fields and escapes`() {
        let text = #"""
            36 35 98:0 / / rw,noatime master:1 shared:2 - ext4 /dev/root rw
            50 36 0:40 / /tmp/a\040b\134c rw,nosuid - fuse.cloudfs local:/a\040b rw,user_id=0
            51 36 0:41 /folder /plain rw - tmpfs none rw
            garbage
            """#
        #expect(
            MountTable.parse(text) == [
                MountRecord(device: "98:0", root: "/", mountpoint: "/", type: "ext4"),
                MountRecord(
                    device: "0:40",
                    root: "/",
                    mountpoint: #"/tmp/a b\c"#,
                    type: "fuse.cloudfs"
                ),
                MountRecord(device: "0:41", root: "/folder", mountpoint: "/plain", type: "tmpfs"),
            ]
        )
    }

    @Test(
        arguments: [
            ("0:42", 42), ("8:1", 0x8_0000_0001), ("0:4294967295", 0xffff_ffff), ("0", nil),
            ("0:4294967296", nil), ("a:1", nil), ("", nil),
        ] as [(String, UInt64?)]
    )
    func `a device is one number`(device: String, number: UInt64?) {
        let record = MountRecord(device: device, root: "/", mountpoint: "/", type: "tmpfs")
        #expect(record.number == number)
    }

    @Test func `the root is mounted, a made-up folder is not`() throws {
        #expect(try MountTable.top(at: "/") != nil)
        #expect(try MountTable.top(at: "/no/such/folder") == nil)
    }

    @Test func `a table that is open is read from its beginning each time`() throws {
        let table = try OpenMountTable()
        for _ in 1...2 { #expect(try table.top(at: "/") == MountTable.top(at: "/")) }
        #expect(try table.top(at: "/") != nil)
    }
}

@Suite struct OwnMountTests {
    @Test func `what is mounted at its place is a drive's own only if it is that drive`() throws {
        let root = try #require(try MountTable.top(at: "/"))
        // The same file system, as it would be with a number that was given again.
        let other = try OwnMount(Mountpoint(mounted: "/"), number: root.number)
        #expect(try !other.isOnTop())
        #expect(try !OwnMount(at: Mountpoint(mounted: "/")).isOnTop())
        #expect(try !OwnMount(Mountpoint(mounted: "/no/such/folder"), number: 1).isOnTop())
    }
}

@Suite struct MountpointTests {
    @Test(
        arguments: [
            ("/no/such/folder", .notFound), ("/dev/null", .notDirectory), ("/proc", .exists),
            ("/etc", .notEmpty),
        ] as [(String, CloudFSError.Code)]
    )
    func `a place where nothing can be mounted is refused in words`(
        path: String,
        code: CloudFSError.Code
    ) throws {
        let options = try FuseMountOptions(mountpoint: path, source: "s")
        let error = #expect(throws: CloudFSError.self) {
            try Mountpoint(preparing: options)
        }
        #expect(error?.code == code)
        #expect(error?.message.contains(path) == true)
    }
}
