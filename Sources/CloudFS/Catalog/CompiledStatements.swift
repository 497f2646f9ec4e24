import GRDB

/// The statements that one connection has compiled.
///
/// They are found by how long they are and how they end. GRDB finds them by all of their text,
/// which it hashes each time: a fifteenth of what making a file costs.
///
/// Unchecked, with this proof: it belongs to one connection, and is used in that one's turns only.
final class CompiledStatements: @unchecked Sendable {
    private struct Text: Hashable {
        let sql: String

        func hash(into hasher: inout Hasher) {
            let end = sql.utf8.withContiguousStorageIfAvailable { bytes in
                let bytes = UnsafeRawBufferPointer(bytes)
                let size = MemoryLayout<UInt64>.size
                return bytes.count < size
                    ? 0 : bytes.loadUnaligned(fromByteOffset: bytes.count - size, as: UInt64.self)
            }
            hasher.combine(sql.utf8.count)
            hasher.combine(end)
        }
    }

    private var statements: [Text: Statement] = [:]

    /// The statement for `sql`, compiled when it is asked for the first time.
    ///
    /// It may have the arguments of its last use.
    func statement(_ sql: String, in database: Database) throws -> Statement {
        let text = Text(sql: sql)
        if let statement = statements[text] { return statement }
        let statement = try database.cachedStatement(sql: sql)
        statements[text] = statement
        return statement
    }

    /// Gives them up: a connection with statements cannot be closed.
    func removeAll() {
        statements = [:]
    }
}
