import CFuse
import Glibc

/// How the kernel's arguments look to the filesystem.
///
/// Everything is copied: libfuse's pointers are good only until the callback returns.
enum FuseArguments {
    static func item(_ number: fuse_ino_t) -> ItemID { ItemID(Int64(bitPattern: number)) }

    /// The handle the kernel speaks of; it always has one where this is asked.
    static func handle(_ info: UnsafeMutablePointer<fuse_file_info>?) -> UInt64 {
        guard let info else { preconditionFailure("libfuse gave no file info") }
        return info.pointee.fh
    }

    /// Whether a write is to go to the end of the file.
    ///
    /// The descriptor says so for each, as a program can change it. What was stored into a mapping
    /// has its place, however the file was opened. So have the pieces of a long write past the
    /// kernel's pages: it sends all of them at once, from the end that it knows.
    static func writesAtEnd(_ info: UnsafeMutablePointer<fuse_file_info>?) -> Bool {
        guard let info = info?.pointee else { return false }
        return OpenFlags.appends(info.flags) && !OpenFlags.isDirect(info.flags)
            && info.writepage == 0
    }

    static func bytes(_ text: UnsafePointer<CChar>?) -> [UInt8] {
        guard let text else { return [] }
        let bytes = UnsafeRawBufferPointer(start: text, count: strlen(text))
        return Array(bytes)
    }

    /// - Throws: `invalidName`, `nameTooLong`.
    static func name(_ text: UnsafePointer<CChar>?) throws(CloudFSError) -> ItemName {
        try ItemName(bytes(text))
    }

    /// - Throws: `unsupported` for a name that is no UTF-8.
    static func attributeName(_ text: UnsafePointer<CChar>?) throws(CloudFSError) -> String {
        guard let text, let name = String(validatingCString: text) else {
            throw CloudFSError(.unsupported, "names of attributes must be UTF-8")
        }
        return name
    }

    static func permissions(_ mode: mode_t) -> UInt16 { UInt16(truncatingIfNeeded: mode & 0o7777) }

    /// - Throws: `notPermitted` for device nodes and whatever else an item cannot be.
    static func kind(_ mode: mode_t) throws(CloudFSError) -> ItemKind {
        switch mode & S_IFMT {
        case 0, S_IFREG: return .file
        case S_IFIFO: return .fifo
        case S_IFSOCK: return .socket
        default: throw CloudFSError(.notPermitted, "a drive holds no device nodes")
        }
    }

    /// - Throws: `invalidArgument` for flags that are unknown or exclude each other.
    static func renameMode(_ flags: UInt32) throws(CloudFSError) -> RenameMode {
        switch flags {
        case 0: return .replacing
        case CFUSE_RENAME_NOREPLACE: return .noReplace
        case CFUSE_RENAME_EXCHANGE: return .exchange
        default: throw CloudFSError(.invalidArgument, "unknown flags of rename: \(flags)")
        }
    }

    /// - Throws: `invalidArgument` for anything but SEEK_DATA and SEEK_HOLE.
    static func seekTarget(_ whence: Int32) throws(CloudFSError) -> SeekTarget {
        switch whence {
        case CFUSE_SEEK_DATA: return .data
        case CFUSE_SEEK_HOLE: return .hole
        default: throw CloudFSError(.invalidArgument, "unknown whence of lseek: \(whence)")
        }
    }

    static func changes(_ status: stat, _ selection: Int32) -> AttributeChanges {
        func has(_ flag: Int32) -> Bool { selection & flag != 0 }
        var changes = AttributeChanges()
        if has(FUSE_SET_ATTR_MODE) { changes.permissions = permissions(status.st_mode) }
        if has(FUSE_SET_ATTR_UID) { changes.userID = status.st_uid }
        if has(FUSE_SET_ATTR_GID) { changes.groupID = status.st_gid }
        if has(FUSE_SET_ATTR_SIZE) { changes.size = Int64(status.st_size) }
        if has(FUSE_SET_ATTR_ATIME) { changes.accessed = .to(moment(status.st_atim)) }
        if has(FUSE_SET_ATTR_MTIME) { changes.modified = .to(moment(status.st_mtim)) }
        if has(FUSE_SET_ATTR_ATIME_NOW) { changes.accessed = .now }
        if has(FUSE_SET_ATTR_MTIME_NOW) { changes.modified = .now }
        return changes
    }

    /// A lock of `fcntl`; the kernel has made its range absolute.
    ///
    /// - Throws: `invalidArgument` for a type or range that makes no sense.
    static func lock(_ record: flock) throws(CloudFSError) -> FileLock {
        let (start, length) = (Int64(record.l_start), Int64(record.l_len))
        guard start >= 0, length >= 0, length == 0 || length - 1 <= Int64.max - start else {
            throw CloudFSError(.invalidArgument, "a lock's range is invalid")
        }
        let first = UInt64(start)
        return FileLock(
            kind: try lockKind(Int32(record.l_type)),
            range: first..<(length == 0 ? FileLock.end : first + UInt64(length)),
            processID: record.l_pid
        )
    }

    /// What `flock` asks for, without LOCK_NB.
    ///
    /// - Throws: `invalidArgument`.
    static func flockKind(_ operation: Int32) throws(CloudFSError) -> FileLock.Kind {
        switch operation & ~LOCK_NB {
        case LOCK_SH: return .shared
        case LOCK_EX: return .exclusive
        case LOCK_UN: return .unlock
        default: throw CloudFSError(.invalidArgument, "unknown operation of flock: \(operation)")
        }
    }

    private static func lockKind(_ type: Int32) throws(CloudFSError) -> FileLock.Kind {
        switch type {
        case F_RDLCK: return .shared
        case F_WRLCK: return .exclusive
        case F_UNLCK: return .unlock
        default: throw CloudFSError(.invalidArgument, "unknown type of lock: \(type)")
        }
    }

    private static func moment(_ time: timespec) -> Timestamp {
        Timestamp(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
    }
}

extension Caller {
    /// Who makes the request `raw`.
    init(of raw: fuse_req_t?) {
        guard let raw, let context = fuse_req_ctx(raw)?.pointee else {
            preconditionFailure("libfuse gave no caller")
        }
        self.init(
            userID: context.uid,
            groupID: context.gid,
            processID: context.pid,
            umask: FuseArguments.permissions(context.umask),
            request: SessionContext.of(fuse_req_userdata(raw)).kernel.request
        )
    }
}
