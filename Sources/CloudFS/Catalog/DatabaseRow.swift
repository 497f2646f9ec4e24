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

    /// The first column of the first row; `nil` if there is none, or NULL in it.
    static func value<Value: StatementColumnConvertible>(
        _ statement: Statement,
        arguments: [any StatementBinding] = []
    ) throws -> Value? {
        try first(statement, arguments: arguments) { row in
            sqlite3_column_type(row.statement, 0) == SQLITE_NULL ? nil : row[0]
        } ?? nil
    }

    /// What `read` makes of the first row.
    static func first<Value>(
        _ statement: Statement,
        arguments: [any StatementBinding] = [],
        _ read: (DatabaseRow) throws -> Value
    ) throws -> Value? {
        var value: Value?
        try forEach(statement, arguments: arguments) {
            value = try read($0)
            return false
        }
        return value
    }

    /// What `read` makes of each row.
    static func all<Value>(
        _ statement: Statement,
        arguments: [any StatementBinding] = [],
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
        arguments: [any StatementBinding] = [],
        _ visit: (DatabaseRow) throws -> Bool
    ) throws {
        try statement.run(arguments) { try visit(DatabaseRow($0)) }
    }
}

extension Statement {
    /// Carries the statement out, with arguments that are bound where SQLite has them.
    ///
    /// GRDB looks at all arguments three times before it binds them, which takes longer than SQLite
    /// needs for a row.
    ///
    /// - Parameter visit: Is shown each row, as long as it returns `true`.
    func run(
        _ arguments: [any StatementBinding],
        _ visit: (SQLiteStatement) throws -> Bool = { _ in true }
    ) throws {
        let statement = sqliteStatement
        guard Int(sqlite3_bind_parameter_count(statement)) == arguments.count else {
            throw DatabaseError(
                resultCode: .SQLITE_MISUSE,
                message: "\(arguments.count) arguments are too few or too many",
                sql: sql
            )
        }
        sqlite3_reset(statement)
        // Ends what SQLite has locked for it; that the last step failed is thrown already.
        defer { sqlite3_reset(statement) }
        for (index, argument) in zip(CInt(1)..., arguments) {
            try require(argument.bind(to: statement, at: index), toBe: SQLITE_OK)
        }
        while true {
            let code = sqlite3_step(statement)
            if code == SQLITE_DONE { return }
            try require(code, toBe: SQLITE_ROW)
            guard try visit(statement) else { return }
        }
    }

    private func require(_ code: CInt, toBe expected: CInt) throws {
        guard code != expected else { return }
        throw DatabaseError(
            resultCode: ResultCode(rawValue: code),
            message: String(cString: sqlite3_errmsg(sqlite3_db_handle(sqliteStatement))),
            sql: sql
        )
    }
}
