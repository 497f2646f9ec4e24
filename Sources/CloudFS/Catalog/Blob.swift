import Foundation
import GRDB
import GRDBSQLite

/// Bytes as a value of the catalog.
struct Blob: DatabaseValueConvertible {
    let bytes: [UInt8]

    var databaseValue: DatabaseValue { Data(bytes).databaseValue }

    func bind(to statement: SQLiteStatement, at index: CInt) -> CInt {
        // Bytes that are none would be NULL.
        guard !bytes.isEmpty else { return sqlite3_bind_zeroblob(statement, index, 0) }
        return bytes.withUnsafeBytes {
            sqlite3_bind_blob64(
                statement,
                index,
                $0.baseAddress,
                sqlite3_uint64($0.count),
                Self.isCopied
            )
        }
    }

    /// Has SQLite copy what is bound: `SQLITE_TRANSIENT`, which is no C that Swift sees.
    private static let isCopied = unsafeBitCast(-1, to: sqlite3_destructor_type.self)

    static func fromDatabaseValue(_ value: DatabaseValue) -> Blob? {
        Data.fromDatabaseValue(value).map { Blob(bytes: Array($0)) }
    }
}

extension Array where Element == UInt8 {
    var asBlob: Blob { Blob(bytes: self) }
}
