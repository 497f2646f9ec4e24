import CLinux
import GRDB
import Glibc

/// Blocks of the disk that only the catalog can use: with none left, a file could not even be
/// removed.
///
/// They are taken behind the ends of the database and of its log, whose lengths stay. The log has
/// room until SQLite moves it into the database and begins it anew.
final class CatalogReserve: Sendable {
    /// What SQLite's log grows to before that, in bytes: `CatalogLog.tooMuch` and what is written
    /// meanwhile.
    private static let logByteCount: Int64 = 18 << 20
    /// What the database may grow by, in bytes.
    private static let databaseByteCount: Int64 = 4 << 20
    /// `FALLOC_FL_KEEP_SIZE`.
    private static let keepSize: Int32 = 1

    /// Open as long as the catalog is: closing any descriptor of the database ends SQLite's locks.
    private let database: Int32
    private let logPath: String

    init(path: String) {
        database = open(path, O_RDWR | O_CLOEXEC)
        logPath = path + "-wal"
    }

    deinit {
        if database >= 0 { close(database) }
    }

    /// Has the disk store what was moved into the database.
    ///
    /// - Throws: What SQLite would.
    func flushDatabase() throws {
        guard fdatasync(database) != 0 else { return }
        throw DatabaseError(
            resultCode: .SQLITE_IOERR_FSYNC,
            message: String(cString: strerror(errno))
        )
    }

    /// Takes what is missing; where the disk has no room for it, or cannot do it, there is less.
    func refill() {
        let log = open(logPath, O_RDWR | O_CLOEXEC)
        if log >= 0 {
            _ = clinux_fallocate(log, Self.keepSize, 0, Self.logByteCount)
            close(log)
        }
        var status = stat()
        guard fstat(database, &status) == 0 else { return }
        let length = Int64(status.st_size) + Self.databaseByteCount
        _ = clinux_fallocate(database, Self.keepSize, 0, length)
    }
}
