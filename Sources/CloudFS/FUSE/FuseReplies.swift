import CFuse
import Glibc

/// What a request is answered with.
///
/// A value, so that an answer can be made before it is known how the request will be sent back,
/// and so that tests can look at it.
enum FuseReply: Sendable {
    case done
    case failure(Int32)
    case entry(Entry)
    case lookup(LookupResult)
    case attributes(Attributes)
    case link([UInt8])
    case opened(OpenedFile)
    case created(Entry, OpenedFile)
    case folder(OpenedFolder)
    case content(ReadSource)
    case bytes([UInt8])
    case count(Int)
    case position(Int64)
    case lock(FileLock?)
    case statistics(FilesystemStatistics)
    /// An attribute's value, or the list of names, for a caller with room for `capacity` bytes.
    case value([UInt8], capacity: Int)
}

extension Answer {
    /// The same answer, made into something else when it is there.
    func map<Result: Sendable>(
        _ transform: @escaping @Sendable (Value) -> Result
    ) -> Answer<Result> {
        switch self {
        case .ready(let value):
            .ready(transform(value))
        case .pending(let work):
            .pending { () async throws(CloudFSError) in transform(try await work()) }
        }
    }
}

/// How values of the filesystem look to the kernel.
enum FuseReplies {
    /// How long the kernel may keep what is cacheable, in seconds.
    ///
    /// Every change is followed by an explicit invalidation, so this is only how long a mistake
    /// in that could live.
    static let cacheSeconds = 86_400.0

    static func timeout(_ isCacheable: Bool) -> Double { isCacheable ? cacheSeconds : 0 }

    static func status(_ attributes: Attributes) -> stat {
        var status = stat()
        status.st_ino = ino_t(bitPattern: Int(attributes.id.rawValue))
        status.st_mode = fileType(attributes.kind) | mode_t(attributes.permissions & 0o7777)
        status.st_nlink = nlink_t(attributes.linkCount)
        status.st_uid = attributes.userID
        status.st_gid = attributes.groupID
        status.st_size = off_t(attributes.size)
        status.st_blksize = 4096
        status.st_blocks = blkcnt_t(attributes.blocks)
        status.st_atim = time(attributes.accessed)
        status.st_mtim = time(attributes.modified)
        status.st_ctim = time(attributes.changed)
        return status
    }

    /// The reply to a lookup.
    static func entry(_ entry: Entry) -> fuse_entry_param {
        var parameters = fuse_entry_param()
        parameters.ino = fuse_ino_t(bitPattern: entry.attributes.id.rawValue)
        parameters.generation = entry.attributes.generation
        parameters.attr = status(entry.attributes)
        parameters.attr_timeout = timeout(entry.attributes.isCacheable)
        parameters.entry_timeout = timeout(entry.isCacheable)
        return parameters
    }

    /// A name that does not exist and that the kernel need not ask for again.
    static func cachedAbsence() -> fuse_entry_param {
        var parameters = fuse_entry_param()
        parameters.entry_timeout = cacheSeconds
        return parameters
    }

    static func open(_ file: OpenedFile) -> fuse_file_info {
        var info = fuse_file_info()
        info.fh = file.handle
        info.keep_cache = file.keepsCache ? 1 : 0
        return info
    }

    /// The kernel keeps every listing that it reads from its beginning to its end.
    static func open(_ folder: OpenedFolder) -> fuse_file_info {
        var info = fuse_file_info()
        info.fh = folder.handle
        info.cache_readdir = 1
        info.keep_cache = folder.keepsCache ? 1 : 0
        return info
    }

    static func statistics(_ statistics: FilesystemStatistics) -> statvfs {
        let blockSize = Int64(max(statistics.blockSize, 1))
        var values = statvfs()
        values.f_bsize = UInt(blockSize)
        values.f_frsize = UInt(blockSize)
        values.f_blocks = UInt(clamping: statistics.totalBytes / blockSize)
        values.f_bfree = UInt(clamping: statistics.freeBytes / blockSize)
        values.f_bavail = UInt(clamping: statistics.availableBytes / blockSize)
        values.f_files = UInt(clamping: statistics.totalItems)
        values.f_ffree = UInt(clamping: statistics.freeItems)
        values.f_favail = values.f_ffree
        values.f_namemax = UInt(ItemName.maximumByteCount)
        return values
    }

    static func lock(_ lock: FileLock?) -> flock {
        var record = flock()
        record.l_whence = Int16(SEEK_SET)
        record.l_type = Int16(F_UNLCK)
        guard let lock, lock.kind != .unlock else { return record }
        record.l_type = Int16(lock.kind == .shared ? F_RDLCK : F_WRLCK)
        record.l_start = off_t(lock.range.lowerBound)
        record.l_len = lock.range.upperBound == FileLock.end ? 0 : off_t(lock.range.count)
        record.l_pid = lock.processID
        return record
    }

    static func fileType(_ kind: ItemKind) -> mode_t {
        switch kind {
        case .file: S_IFREG
        case .folder: S_IFDIR
        case .symlink: S_IFLNK
        case .fifo: S_IFIFO
        case .socket: S_IFSOCK
        }
    }

    private static func time(_ moment: Timestamp) -> timespec {
        timespec(tv_sec: Int(moment.seconds), tv_nsec: Int(moment.nanosecondsOfSecond))
    }
}
