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
    }

    /// Raised when the log is long enough to be moved.
    let isLong = Signal()

    /// From which length on it is moved, in pages; 10 MiB.
    static let enough = 2_560
    /// From which length on whoever commits moves it; 16 MiB, for which `CatalogReserve` keeps room.
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
            state.length = length
            // It has begun anew.
            if length < state.moved { state.moved = 0 }
            if length < Self.enough { state.limit = Self.enough }
            return length >= state.limit
        }
        if isLong { self.isLong.raise() }
        // What fails here is said where it is moved beside those who write.
        if length >= Self.tooMuch { _ = move(connection) }
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
        guard code == SQLITE_OK || code == SQLITE_BUSY else {
            throw DatabaseError(
                resultCode: ResultCode(rawValue: code),
                message: String(cString: sqlite3_errmsg(handle))
            )
        }
        return state.withLock { $0.length } > before
    }

    private func move(_ connection: SQLiteConnection?) -> CInt {
        moving.withLock { _ in
            guard state.withLock({ $0.length >= Self.enough && $0.moved < $0.length }) else {
                return SQLITE_OK
            }
            var moved: CInt = 0
            let code = sqlite3_wal_checkpoint_v2(
                connection,
                nil,
                SQLITE_CHECKPOINT_PASSIVE,
                nil,
                &moved
            )
            if code == SQLITE_OK { state.withLock { $0.moved = Int(moved) } }
            return code
        }
    }
}
