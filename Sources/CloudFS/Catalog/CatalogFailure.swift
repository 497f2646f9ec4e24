import GRDB
import GRDBSQLite

/// A failure of SQLite, and what the system had said: SQLite itself tells a full disk, but no quota
/// and no lack of descriptors.
struct CatalogFailure: Error {
    private let error: DatabaseError
    /// 0 if it is not known.
    private let systemError: Int32

    /// A failure to make a connection: there is nobody to ask what the system said.
    init(_ error: DatabaseError) {
        self.error = error
        systemError = 0
    }

    init(_ error: DatabaseError, in database: Database) {
        self.error = error
        guard let connection = database.sqliteConnection else {
            systemError = 0
            return
        }
        switch error.extendedResultCode {
        case .SQLITE_IOERR_WRITE, .SQLITE_IOERR_FSYNC, .SQLITE_IOERR_TRUNCATE:
            // A commit that fails tells nothing to `sqlite3_system_errno`, but its file knows.
            systemError = Self.lastErrorOfLog(connection)
        default:
            systemError = sqlite3_system_errno(connection)
        }
    }

    private static func lastErrorOfLog(_ connection: OpaquePointer) -> Int32 {
        var log: UnsafeMutablePointer<sqlite3_file>?
        var number: Int32 = 0
        sqlite3_file_control(connection, nil, SQLITE_FCNTL_JOURNAL_POINTER, &log)
        guard let log, let methods = log.pointee.pMethods else { return 0 }
        _ = methods.pointee.xFileControl(log, SQLITE_FCNTL_LAST_ERRNO, &number)
        return number
    }

    /// Refuses a database that can only be read: SQLite opens it so if it cannot be opened for
    /// writing at that moment, and every change would fail until the next start.
    static func requireWritable(_ database: Database) throws(CloudFSError) {
        guard let connection = database.sqliteConnection,
            sqlite3_db_readonly(connection, nil) == 1
        else { return }
        throw CloudFSError(.readOnly, "the catalog can be read, but not be written")
    }

    func converted(_ what: String) -> CloudFSError {
        let isInUse = error.resultCode == .SQLITE_BUSY
        let reason = isInUse ? "another program has it open" : error.message ?? ""
        return CloudFSError(code, "\(what): \(reason)", cause: error)
    }

    private var code: CloudFSError.Code {
        switch error.resultCode {
        case .SQLITE_FULL: .diskFull
        case .SQLITE_NOTADB, .SQLITE_CORRUPT: .corrupt
        case .SQLITE_READONLY: .readOnly
        case .SQLITE_CANTOPEN: .ofDisk(systemError) ?? .denied
        case .SQLITE_IOERR: .ofDisk(systemError) ?? .internalFailure
        default: .internalFailure
        }
    }
}
