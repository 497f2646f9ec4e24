import CLinux
import Glibc
import Synchronization

/// One file of the content store: an open descriptor of the bytes of one generation of an item.
///
/// Every call may block on the local disk; never call it in a task.
///
/// `Sendable`: the descriptor is constant until `deinit`, and the kernel orders what is done with
/// it.
final class ContentFile: Sendable {
    let descriptor: Int32
    /// Whether it was opened for writing too, as its disk allowed that.
    let isWritable: Bool

    /// Takes over an open descriptor.
    init(descriptor: Int32, isWritable: Bool = true) {
        self.descriptor = descriptor
        self.isWritable = isWritable
    }

    deinit {
        close(descriptor)
    }

    /// What `fstat` says of the file.
    struct Facts: Equatable, Sendable {
        /// Bytes.
        var size: Int64
        /// Bytes on the disk.
        var allocated: Int64
        var modified: Timestamp
        var changed: Timestamp

        /// Whether something was written so short a time ago that what is written now may get the
        /// same times: those of the disk may be coarse.
        func isFresh(at now: Timestamp) -> Bool {
            let age = now.since(modified)
            return max(age, .zero - age) <= .milliseconds(50)
        }

        /// Whether nothing was written since `other`, or before it.
        func agrees(with other: Facts) -> Bool {
            size == other.size && modified == other.modified && changed == other.changed
        }
    }

    func facts() throws(CloudFSError) -> Facts {
        var status = stat()
        guard fstat(descriptor, &status) == 0 else { throw Self.failure("fstat") }
        return Facts(
            size: Int64(status.st_size),
            allocated: Int64(status.st_blocks) * 512,
            modified: Timestamp(
                seconds: Int64(status.st_mtim.tv_sec),
                nanoseconds: Int64(status.st_mtim.tv_nsec)
            ),
            changed: Timestamp(
                seconds: Int64(status.st_ctim.tv_sec),
                nanoseconds: Int64(status.st_ctim.tv_nsec)
            )
        )
    }

    /// Reads up to `count` bytes; fewer only at the end of the file.
    func read(at offset: Int64, count: Int) throws(CloudFSError) -> [UInt8] {
        var failed: CloudFSError?
        let bytes = [UInt8](unsafeUninitializedCapacity: count) { buffer, filled in
            while filled < count, let base = buffer.baseAddress {
                let result = pread(
                    descriptor,
                    base + filled,
                    count - filled,
                    off_t(offset) + off_t(filled)
                )
                if result < 0, errno == EINTR { continue }
                if result < 0 { failed = Self.failure("read") }
                if result <= 0 { break }
                filled += result
            }
        }
        if let failed { throw failed }
        return bytes
    }

    /// Writes all of `bytes` at `offset`.
    func write(_ bytes: ArraySlice<UInt8>, at offset: Int64) throws(CloudFSError) {
        guard bytes.withUnsafeBytes({ writeAll($0, at: offset) }) else {
            throw Self.failure("write")
        }
    }

    /// Writes all of `bytes` at `offset`.
    func write(_ bytes: Slice<UnsafeRawBufferPointer>, at offset: Int64) throws(CloudFSError) {
        guard writeAll(UnsafeRawBufferPointer(rebasing: bytes), at: offset) else {
            throw Self.failure("write")
        }
    }

    /// - Returns: Whether all was written; else `errno` tells why not.
    private func writeAll(_ bytes: UnsafeRawBufferPointer, at offset: Int64) -> Bool {
        var written = 0
        while written < bytes.count {
            let result = pwrite(
                descriptor,
                bytes.baseAddress.map { $0 + written },
                bytes.count - written,
                off_t(offset) + off_t(written)
            )
            if result < 0, errno == EINTR { continue }
            guard result > 0 else { return false }
            written += result
        }
        return true
    }

    /// Puts the descriptor's own position at the beginning, for readers that follow it.
    func rewind() throws(CloudFSError) {
        guard lseek(descriptor, 0, SEEK_SET) == 0 else { throw Self.failure("lseek") }
    }

    func truncate(to size: Int64) throws(CloudFSError) {
        guard ftruncate(descriptor, off_t(size)) == 0 else { throw Self.failure("truncate") }
    }

    /// `fallocate(2)` with its mode bits.
    func allocate(mode: Int32, offset: Int64, count: Int64) throws(CloudFSError) {
        guard clinux_fallocate(descriptor, mode, offset, count) == 0 else {
            throw Self.failure("allocate")
        }
    }

    /// The next data or hole at or after `offset`; `nil` beyond the last.
    func seek(from offset: Int64, hole: Bool) throws(CloudFSError) -> Int64? {
        let result = lseek(descriptor, off_t(offset), hole ? clinux_seek_hole : clinux_seek_data)
        if result < 0, errno == ENXIO { return nil }
        guard result >= 0 else { throw Self.failure("seek") }
        return Int64(result)
    }

    /// Copies within the local disk and returns how many bytes; 0 at the end of `source`.
    func copy(
        from source: ContentFile,
        at sourceOffset: Int64,
        to offset: Int64,
        count: Int
    ) throws(CloudFSError) -> Int {
        let result = clinux_copy_file_range(
            source.descriptor,
            sourceOffset,
            descriptor,
            offset,
            count
        )
        guard result >= 0 else { throw Self.failure("copy") }
        return result
    }

    /// Copies the first `size` bytes of another file, or what there is of them.
    func copyAll(of file: ContentFile, size: Int64) throws(CloudFSError) {
        var offset: Int64 = 0
        while offset < size {
            let count = try copy(from: file, at: offset, to: offset, count: Int(size - offset))
            guard count > 0 else { break }
            offset += Int64(count)
        }
    }

    // MARK: - Flushing

    /// Makes content and size survive a power failure.
    ///
    /// - Throws: What the disk says; `corrupt` if it lost bytes that were written before.
    func synchronize() throws(CloudFSError) { try flush(by: fdatasync) }

    /// The same, and its times: of what is not clean they are told by the content file alone.
    func synchronizeWithTimes() throws(CloudFSError) { try flush(by: fsync) }

    /// The system tells of bytes that it could not write once, and counts them as written then.
    private func flush(by call: (Int32) -> Int32) throws(CloudFSError) {
        var result: Int32
        repeat { result = call(descriptor) } while result != 0 && errno == EINTR
        guard result == 0 else {
            let isLoss = !Self.refusals.contains(errno)
            let failure = Self.failure("flush")
            // A disk that does not take the mark takes nothing else that would have this sent.
            if isLoss { try? note(Self.torn) }
            throw failure
        }
        guard try isTorn else { return }
        throw CloudFSError(
            .corrupt,
            "the disk lost some of what was written; save the file anew, as with cp and mv"
        )
    }

    /// What is said of the call itself, not of the bytes.
    private static let refusals = [EBADF, EINVAL, ENOSYS, EOPNOTSUPP, EPERM, EROFS, ESPIPE]

    /// Looks, without a flush, whether the system could write what it began to write.
    func requireWritten() throws(CloudFSError) { try flush(by: clinux_expect_written) }

    /// Whether the disk lost bytes of it, as a flush has said or the system says now: they read as
    /// zeros once memory has let go of them.
    var hasLosses: Bool {
        get throws(CloudFSError) {
            do throws(CloudFSError) {
                try requireWritten()
                return false
            } catch {
                return try isTorn
            }
        }
    }

    // MARK: - Marks

    // Bits of the file's mode that mean nothing else here: the file remembers them by itself.

    /// Programs may have mapped it.
    private static let shown: mode_t = S_ISVTX
    /// The disk lost bytes of it.
    private static let torn: mode_t = S_IXUSR

    private var mode: mode_t {
        get throws(CloudFSError) {
            var status = stat()
            guard fstat(descriptor, &status) == 0 else { throw Self.failure("fstat") }
            return status.st_mode & 0o7777
        }
    }

    /// Two descriptors of a file must not undo each other's marks.
    private static let marking = Mutex(())

    private func note(_ mark: mode_t) throws(CloudFSError) {
        try Self.marking.withLock { _ throws(CloudFSError) in
            guard fchmod(descriptor, try mode | mark) == 0 else { throw Self.failure("mark") }
        }
    }

    /// Notes that the kernel lets programs at it: they may have mapped it, for longer than anybody
    /// knows who keeps count.
    func noteShown() throws(CloudFSError) { try note(Self.shown) }

    /// Whether programs may have mapped it.
    var wasShown: Bool { get throws(CloudFSError) { try mode & Self.shown != 0 } }

    /// Whether a flush of it failed: which bytes came to the disk, nobody knows.
    var isTorn: Bool { get throws(CloudFSError) { try mode & Self.torn != 0 } }

    /// Notes that nothing is left of what was lost.
    func noteEmptied() throws(CloudFSError) {
        try Self.marking.withLock { _ throws(CloudFSError) in
            let mode = try mode
            guard mode & Self.torn != 0 else { return }
            guard fchmod(descriptor, mode & ~Self.torn) == 0 else { throw Self.failure("mark") }
        }
    }

    /// Sets its time if it has another one.
    func settle(modified moment: Timestamp) throws(CloudFSError) {
        if try facts().modified != moment { try setModified(moment) }
    }

    func setModified(_ moment: Timestamp) throws(CloudFSError) {
        let times = [
            timespec(tv_sec: 0, tv_nsec: clinux_utime_omit),
            timespec(tv_sec: Int(moment.seconds), tv_nsec: Int(moment.nanosecondsOfSecond)),
        ]
        guard futimens(descriptor, times) == 0 else { throw Self.failure("set the time of") }
    }

    /// The error of the call that just failed; reads `errno` first.
    static func failure(_ what: String) -> CloudFSError {
        let number = errno
        let code: CloudFSError.Code =
            switch number {
            case ENOENT: .notFound
            case EEXIST: .exists
            case EOPNOTSUPP, ENOSYS, EXDEV: .unsupported
            case EINVAL: .invalidArgument
            case ENXIO: .noData
            default: .corrupt
            }
        return CloudFSError(
            .ofDisk(number) ?? code,
            "cannot \(what) local content: \(String(cString: strerror(number)))"
        )
    }
}
