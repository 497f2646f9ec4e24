import Glibc
import Synchronization

/// The flush of the catalog's log, which makes all that was committed durable.
///
/// The system tells once that it could not write what it had accepted, and counts it as written
/// then. So a log of which a flush failed is written anew from memory, by which all of it is to be
/// written again, before the next flush counts.
/// - Source: https://wiki.postgresql.org/wiki/Fsync_Errors
final class CatalogFlush: Sendable {
    private static let step = 1 << 20

    private let path: String
    private let runs = SharedRun()
    /// Whether the disk may lack some of what the log has.
    private let isTorn = Atomic(false)

    init(ofLog path: String) {
        self.path = path
    }

    /// Flushes the log; who comes while a flush runs shares the next one.
    ///
    /// - Parameter alone: Calls its argument while nobody adds to the log.
    func run(alone: (() throws -> Void) throws -> Void) throws {
        try runs.run { try self.flush(alone: alone) }
    }

    /// One at a time: what one knows to be written another may have seen fail.
    private func flush(alone: (() throws -> Void) throws -> Void) throws {
        let isTorn = isTorn.load(ordering: .relaxed)
        let log = open(path, (isTorn ? O_RDWR : O_RDONLY) | O_CLOEXEC)
        guard log >= 0 else {
            // No log: everything was moved into the database, and flushed there.
            if errno == ENOENT { return }
            throw Self.failure("opened", errno)
        }
        defer { close(log) }
        if isTorn { try alone { try Self.writeAnew(log) } }
        guard fdatasync(log) == 0 else {
            let number = errno
            self.isTorn.store(true, ordering: .relaxed)
            throw Self.failure("flushed", number)
        }
        self.isTorn.store(false, ordering: .relaxed)
    }

    private static func writeAnew(_ log: Int32) throws(CloudFSError) {
        var bytes = [UInt8](repeating: 0, count: step)
        var offset = 0
        while true {
            let count = pread(log, &bytes, bytes.count, offset)
            guard count >= 0 else { throw failure("read", errno) }
            guard count > 0 else { return }
            let written = pwrite(log, bytes, count, offset)
            guard written == count else {
                throw failure("written anew", written < 0 ? errno : ENOSPC)
            }
            offset += count
        }
    }

    private static func failure(_ what: String, _ number: Int32) -> CloudFSError {
        let reason = String(cString: strerror(number))
        return CloudFSError(
            .ofDisk(number) ?? .internalFailure,
            "the catalog's log cannot be \(what): \(reason)"
        )
    }
}
