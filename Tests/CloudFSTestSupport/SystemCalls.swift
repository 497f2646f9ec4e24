import Glibc

/// A system call that failed: which one, on what, and with which errno.
public struct SystemError: Error, Hashable, CustomStringConvertible {
    public let call: String
    public let code: Int32

    public init(_ call: String, _ code: Int32) {
        self.call = call
        self.code = code
    }

    public var description: String { "\(call): \(String(cString: strerror(code)))" }
}

/// What `lstat` and `fstat` tell, as far as tests compare it.
public struct FileStatus: Sendable, Equatable {
    public enum Kind: Sendable, Equatable {
        case file
        case folder
        case symlink
        case other
    }

    public var kind: Kind
    public var inode: UInt64
    public var size: Int64
    /// Permission bits, with the sticky, set-user and set-group ones.
    public var mode: UInt32
    public var links: UInt64
    public var userID: UInt32
    public var groupID: UInt32
    /// Nanoseconds since 1970.
    public var modified: Int64
    public var changed: Int64
    /// Units of 512 bytes.
    public var blocks: Int64
    public var device: UInt64

    init(_ raw: stat) {
        switch raw.st_mode & S_IFMT {
        case S_IFREG: kind = .file
        case S_IFDIR: kind = .folder
        case S_IFLNK: kind = .symlink
        default: kind = .other
        }
        inode = UInt64(raw.st_ino)
        size = Int64(raw.st_size)
        mode = raw.st_mode & 0o7777
        links = UInt64(raw.st_nlink)
        userID = raw.st_uid
        groupID = raw.st_gid
        modified = Int64(raw.st_mtim.tv_sec) * 1_000_000_000 + Int64(raw.st_mtim.tv_nsec)
        changed = Int64(raw.st_ctim.tv_sec) * 1_000_000_000 + Int64(raw.st_ctim.tv_nsec)
        blocks = Int64(raw.st_blocks)
        device = UInt64(raw.st_dev)
    }
}

/// The system calls that tests make, throwing `SystemError`.
///
/// They block: on a mount they belong on a thread of their own, never in a task.
public enum SystemCall {
    public static func open(
        _ path: String,
        _ flags: Int32,
        mode: UInt32 = 0o644
    ) throws(SystemError) -> Int32 {
        let descriptor = Glibc.open(path, flags | O_CLOEXEC, mode)
        guard descriptor >= 0 else { throw SystemError("open", errno) }
        return descriptor
    }

    public static func close(_ descriptor: Int32) throws(SystemError) {
        try check("close", Glibc.close(descriptor))
    }

    /// Reads until `count` bytes are there or the file ends.
    public static func read(
        _ descriptor: Int32,
        count: Int,
        at offset: Int64
    ) throws(SystemError) -> [UInt8] {
        var bytes = OperationBytes.zeros(count)
        var done = 0
        while done < count {
            let room = count - done
            let from = done
            let got = bytes.withUnsafeMutableBytes { buffer in
                pread(
                    descriptor,
                    buffer.baseAddress?.advanced(by: from),
                    room,
                    off_t(offset) + from
                )
            }
            guard got >= 0 else { throw SystemError("pread", errno) }
            guard got > 0 else { break }
            done += got
        }
        return done == count ? bytes : OperationBytes.part(bytes, 0..<done)
    }

    /// One `pwrite`; the count that it took.
    public static func write(
        _ descriptor: Int32,
        _ bytes: [UInt8],
        at offset: Int64
    ) throws(SystemError) -> Int {
        let count = bytes.withUnsafeBytes {
            pwrite(descriptor, $0.baseAddress, $0.count, off_t(offset))
        }
        guard count >= 0 else { throw SystemError("pwrite", errno) }
        return count
    }

    public static func truncate(_ descriptor: Int32, to size: Int64) throws(SystemError) {
        try check("ftruncate", ftruncate(descriptor, off_t(size)))
    }

    public static func truncate(_ path: String, to size: Int64) throws(SystemError) {
        try check("truncate", Glibc.truncate(path, off_t(size)))
    }

    public static func synchronize(_ descriptor: Int32) throws(SystemError) {
        try check("fsync", fsync(descriptor))
    }

    public static func status(_ path: String) throws(SystemError) -> FileStatus {
        var raw = stat()
        try check("lstat", lstat(path, &raw))
        return FileStatus(raw)
    }

    public static func status(_ descriptor: Int32) throws(SystemError) -> FileStatus {
        var raw = stat()
        try check("fstat", fstat(descriptor, &raw))
        return FileStatus(raw)
    }

    /// The names in a folder, sorted, without `.` and `..`.
    public static func names(in path: String) throws(SystemError) -> [String] {
        guard let folder = opendir(path) else { throw SystemError("opendir", errno) }
        defer { closedir(folder) }
        var names: [String] = []
        while true {
            errno = 0
            guard let entry = readdir(folder) else {
                guard errno == 0 else { throw SystemError("readdir", errno) }
                break
            }
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name != ".", name != ".." { names.append(name) }
        }
        return names.sorted()
    }

    public static func makeFolder(_ path: String, mode: UInt32 = 0o755) throws(SystemError) {
        try check("mkdir", mkdir(path, mode))
    }

    public static func removeFolder(_ path: String) throws(SystemError) {
        try check("rmdir", rmdir(path))
    }

    public static func remove(_ path: String) throws(SystemError) {
        try check("unlink", unlink(path))
    }

    public static func makeSymlink(_ path: String, target: String) throws(SystemError) {
        try check("symlink", symlink(target, path))
    }

    public static func symlinkTarget(_ path: String) throws(SystemError) -> String {
        var buffer = [CChar](repeating: 0, count: 4_096)
        let count = readlink(path, &buffer, buffer.count)
        guard count >= 0 else { throw SystemError("readlink", errno) }
        return String(decoding: buffer[..<count].map(UInt8.init(bitPattern:)), as: UTF8.self)
    }

    public static func setMode(_ path: String, _ mode: UInt32) throws(SystemError) {
        try check("chmod", chmod(path, mode))
    }

    /// Sets access and modification time of what `path` leads to.
    public static func setTimes(_ path: String, nanoseconds: Int64) throws(SystemError) {
        let time = timespec(
            tv_sec: Int(nanoseconds / 1_000_000_000),
            tv_nsec: Int(nanoseconds % 1_000_000_000)
        )
        let times = [time, time]
        try check("utimensat", utimensat(AT_FDCWD, path, times, 0))
    }

    static func check(_ call: String, _ result: Int32) throws(SystemError) {
        guard result >= 0 else { throw SystemError(call, errno) }
    }
}
