import GRDB
import GRDBSQLite

/// One row of an answer, read where SQLite has it; it must not leave the closure that gets it.
///
/// GRDB's own rows gather the names of all columns for each answer, in small letters, which takes
/// longer than finding the row. Columns are read by their position here.
struct DatabaseRow {
    private let statement: SQLiteStatement

    fileprivate init(_ statement: SQLiteStatement) {
        self.statement = statement
    }

    /// The value of a column; for one that may be NULL, an optional.
    subscript<Value: StatementColumnConvertible>(index: Int) -> Value {
        guard let value = Value.fromStatement(statement, atUncheckedIndex: CInt(index)) else {
            preconditionFailure("column \(index) of the catalog has no \(Value.self)")
        }
        return value
    }

    /// The bytes of a blob column that is declared NOT NULL.
    func bytes(_ index: Int) -> [UInt8] {
        let count = Int(sqlite3_column_bytes(statement, CInt(index)))
        let start = sqlite3_column_blob(statement, CInt(index))
        return Array(UnsafeRawBufferPointer(start: start, count: start == nil ? 0 : count))
    }

    /// The bytes of a blob column; `nil` for NULL.
    func blob(_ index: Int) -> [UInt8]? {
        sqlite3_column_type(statement, CInt(index)) == SQLITE_NULL ? nil : bytes(index)
    }

    // MARK: - Asking

    /// What `read` makes of the first row.
    static func first<Value>(
        _ statement: Statement,
        arguments: StatementArguments = StatementArguments(),
        _ read: (DatabaseRow) throws -> Value
    ) throws -> Value? {
        let rows = try Rows(statement, arguments)
        return try withExtendedLifetime(rows) { try rows.next().map(read) }
    }

    /// What `read` makes of each row.
    static func all<Value>(
        _ statement: Statement,
        arguments: StatementArguments = StatementArguments(),
        _ read: (DatabaseRow) throws -> Value
    ) throws -> [Value] {
        var values: [Value] = []
        try forEach(statement, arguments: arguments) {
            values.append(try read($0))
            return true
        }
        return values
    }

    /// Shows `visit` one row after the other, as long as it returns `true`.
    static func forEach(
        _ statement: Statement,
        arguments: StatementArguments = StatementArguments(),
        _ visit: (DatabaseRow) throws -> Bool
    ) throws {
        let rows = try Rows(statement, arguments)
        try withExtendedLifetime(rows) {
            while let row = try rows.next(), try visit(row) {}
        }
    }

    private final class Rows: DatabaseCursor {
        typealias Element = DatabaseRow

        let _statement: Statement
        var _isDone = false

        init(_ statement: Statement, _ arguments: StatementArguments) throws {
            _statement = statement
            try statement.setArguments(arguments)
        }

        deinit {
            // Ends what SQLite has locked for it; that the last step failed was thrown already.
            sqlite3_reset(_statement.sqliteStatement)
        }

        func _element(sqliteStatement: SQLiteStatement) -> DatabaseRow {
            DatabaseRow(sqliteStatement)
        }
    }
}
