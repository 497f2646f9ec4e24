import CSQLite
import GRDB
import GRDBSQLite
import Synchronization

/// When the catalog's log is moved into the database.
///
/// That takes two flushes of the disk. SQLite has whoever happens to commit wait for them; here it
/// is done beside those who write, and nobody has to wait unless they write faster.
///
/// A log that was moved is not moved again before somebody has committed: up to version 3.51.2
/// SQLite loses commits if one connection does while another one begins the log anew.
/// - Source: https://www.sqlite.org/wal.html#walresetbug
final class CatalogLog: Sendable {
    private struct State {
        /// How many pages are in the log; perhaps more, while somebody commits.
        var length = 0
        /// How many of them are in the database, of this log or of the one before.
        var moved = 0
        /// From which length on it is to be moved.
        var limit = CatalogLog.enough
        /// Whether the disk failed to store what was moved.
        ///
        /// What it has of that nobody knows: the log stays as it is, and the next process moves all
        /// of it.
        var isKept = false
    }

    /// Raised when the log is long enough to be moved.
    let isLong = Signal()

    /// From which length on it is moved, in pages; 10 MiB.
    static let enough = 2_560
    /// From which length on whoever commits moves it; 16 MiB, for which there is `CatalogReserve`.
    static let tooMuch = 4_096
    /// What is added to a log that could not be moved until that is tried again.
    private static let more = 512

    private let state = Mutex(State())
    /// Held while it is moved, by one at a time.
    private let moving = Mutex(())

    /// Hears of what a connection commits, which must not outlive this.
    func watch(_ writer: Database) {
        sqlite3_wal_hook(
            writer.sqliteConnection,
            { log, connection, _, pages in
                if let log {
                    Unmanaged<CatalogLog>.fromOpaque(log).takeUnretainedValue()
                        .didCommit(connection, length: Int(pages))
                }
                return SQLITE_OK
            },
            Unmanaged.passUnretained(self).toOpaque()
        )
    }

    private func didCommit(_ connection: SQLiteConnection?, length: Int) {
        let isLong = state.withLock { state in
            // It has begun anew.
            if length <= state.length { state.limit = Self.enough }
            if length < state.moved { state.moved = 0 }
            state.length = length
            return length >= state.limit && !state.isKept
        }
        if isLong { self.isLong.raise() }
        guard length >= Self.tooMuch, move(connection) & 0xff == SQLITE_IOERR else { return }
        keep(connection)
        // It is said where the log is moved beside those who write.
        self.isLong.raise()
    }

    /// Whether it is not known what the disk has of what was moved.
    static func isOfDisk(_ error: DatabaseError) -> Bool {
        error.resultCode.primaryResultCode == .SQLITE_IOERR
    }

    /// Whether the log stays as it is for as long as this process lives.
    var isKept: Bool { state.withLock { $0.isKept } }

    /// Has the log stay as it is, as the disk did not store what was moved.
    ///
    /// - Parameter writer: The connection that is closed last.
    func keep(_ writer: Database) { keep(writer.sqliteConnection) }

    private func keep(_ connection: SQLiteConnection?) {
        guard let connection else { return }
        state.withLock { $0.isKept = true }
        _ = csqlite_keep_log(connection)
    }

    /// Puts off when it is to be moved next, if it is not moved now.
    func noteAttempt() {
        state.withLock { $0.limit = $0.length + Self.more }
    }

    /// Moves what others do not read in an older state, if it is much.
    ///
    /// - Parameter connection: Any that may write.
    /// - Returns: Whether more was added meanwhile.
    func move(_ connection: Database) throws -> Bool {
        // Without one it was closed meanwhile.
        guard let handle = connection.sqliteConnection else { return false }
        let before = state.withLock { $0.length }
        let code = move(handle)
        guard code == SQLITE_OK || code & 0xff == SQLITE_BUSY else {
            throw DatabaseError(
                resultCode: ResultCode(rawValue: code),
                message: String(cString: sqlite3_errmsg(handle))
            )
        }
        return state.withLock { $0.length } > before
    }

    private func move(_ connection: SQLiteConnection?) -> CInt {
        moving.withLock { _ in
            let length = state.withLock { state in
                !state.isKept && state.moved < state.length ? state.length : 0
            }
            guard length >= Self.enough else { return SQLITE_OK }
            var moved: CInt = 0
            let code = sqlite3_wal_checkpoint_v2(
                connection,
                "main",
                SQLITE_CHECKPOINT_PASSIVE,
                nil,
                &moved
            )
            guard code == SQLITE_OK else { return code }
            // None are moved of one that somebody has begun anew since.
            state.withLock { $0.moved = moved > 0 ? Int(moved) : length }
            return code
        }
    }
}
