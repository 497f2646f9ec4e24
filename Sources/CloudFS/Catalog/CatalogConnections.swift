import CSQLite
import Dispatch
import GRDB
import GRDBSQLite
import Synchronization

/// One connection that writes the catalog, and some that read it beside that.
///
/// GRDB's own pool keeps its readers behind a concurrent queue of libdispatch, which then looks
/// after its threads once a second for as long as the process lives
/// (docs/decisions/0017-threads-of-tasks.md).
final class CatalogConnections: Sendable {
    private struct Reader: Sendable {
        let queue: DatabaseQueue
        let statements = CompiledStatements()
    }

    private struct State {
        var idle: [Reader] = []
        var mover: DatabaseQueue?
        var isClosed = false
    }

    private static let mostReaders = 8

    let writer: DatabaseQueue
    /// What the connection that writes has compiled.
    let ofWriter = CompiledStatements()
    let log = CatalogLog()
    private let path: String
    /// Of connections that write, and of those that do not.
    private let writing: Configuration
    private let reading: Configuration
    private let state = Mutex(State())
    private let free = DispatchSemaphore(value: CatalogConnections.mostReaders)

    /// What holds for all connections of this process, and must be said before the first of them.
    ///
    /// Memory is not counted: that takes a sixth of the time of storing a listing. What connections
    /// lock is in the memory of this process, which keeps others out of its databases, and what a
    /// transaction adds to the log is written at once: no system calls for each lock and each page.
    /// GRDB opens with the system that is SQLite's default.
    private static let settings: Void = {
        // Where SQLite is in use already it goes on counting, and is slower.
        _ = csqlite_leave_memory_uncounted()
        let code = csqlite_gather_log_writes()
        precondition(code == SQLITE_OK, "SQLite takes no system of ours: \(code)")
    }()

    /// Opens or creates the database at `path`.
    init(path: String, _ configuration: Configuration) throws {
        Self.settings
        var writing = configuration
        writing.journalMode = .wal
        writer = try DatabaseQueue(path: path, configuration: writing)
        var reading = configuration
        reading.readonly = true
        self.path = path
        self.writing = writing
        self.reading = reading
        writer.inDatabase { log.watch($0) }
    }

    /// Runs `body` in a transaction of its own, on one of the connections that read.
    ///
    /// Waits for one if all are in use.
    func read<Value>(_ body: (Database, CompiledStatements) throws -> Value) throws -> Value {
        free.wait()
        defer { free.signal() }
        let reader = try take()
        defer { putBack(reader) }
        return try reader.queue.inDatabase { database in
            try Self.inTransaction(database, .deferred) { try body(database, reader.statements) }
        }
    }

    /// Commits what `body` does, or undoes it if it throws.
    ///
    /// GRDB has SQLite compile what begins and ends a transaction each time, which takes a tenth of
    /// the time of a short one.
    static func inTransaction<Value>(
        _ database: Database,
        _ kind: Database.TransactionKind,
        _ body: () throws -> Value
    ) throws -> Value {
        try database.cachedStatement(sql: "BEGIN \(kind.rawValue)").run([])
        do {
            let value = try body()
            try database.cachedStatement(sql: "COMMIT").run([])
            return value
        } catch {
            // Some failures undo it themselves. GRDB ends this process if one is left.
            if database.isInsideTransaction {
                try? database.cachedStatement(sql: "ROLLBACK").run([])
            }
            throw error
        }
    }

    private func take() throws -> Reader {
        let idle = try state.withLock { state in
            try Self.requireOpen(state)
            return state.idle.popLast()
        }
        return try idle ?? Reader(queue: DatabaseQueue(path: path, configuration: reading))
    }

    private static func requireOpen(_ state: State) throws {
        guard !state.isClosed else {
            throw DatabaseError(resultCode: .SQLITE_MISUSE, message: "it is closed")
        }
    }

    private func putBack(_ reader: Reader) {
        state.withLock { $0.idle.append(reader) }
    }

    /// Moves the log into the database, beside those who read and write; called by one at a time.
    ///
    /// - Returns: Whether more was written since.
    func moveLog() throws -> Bool {
        log.noteAttempt()
        let known = try state.withLock { state in
            try Self.requireOpen(state)
            return state.mover
        }
        let mover = try known ?? DatabaseQueue(path: path, configuration: writing)
        try state.withLock { state in
            try Self.requireOpen(state)
            state.mover = mover
        }
        return try mover.inDatabase { try log.move($0) }
    }

    /// Gives back the memory in which connections that nobody uses keep pages of the database.
    func shrink() throws {
        let count = state.withLock { $0.idle.count }
        // The longest idle first, and each comes to the end; one by one, so that who reads hardly
        // waits.
        for _ in 0..<count {
            free.wait()
            defer { free.signal() }
            let reader = state.withLock { $0.idle.isEmpty ? nil : $0.idle.removeFirst() }
            guard let reader else { break }
            defer { putBack(reader) }
            try Self.shrink(reader.queue)
        }
        try Self.shrink(writer)
    }

    private static func shrink(_ connection: DatabaseQueue) throws {
        try connection.inDatabase { try $0.execute(sql: "PRAGMA shrink_memory") }
    }

    /// Closes all connections, after those have ended who read or write.
    ///
    /// Whoever calls it again finds nothing to do.
    func close() throws {
        let isFirst = state.withLock { state in
            defer { state.isClosed = true }
            return !state.isClosed
        }
        guard isFirst else { return }
        for _ in 0..<Self.mostReaders { free.wait() }
        defer { for _ in 0..<Self.mostReaders { free.signal() } }
        let (readers, mover) = state.withLock { state in
            defer { (state.idle, state.mover) = ([], nil) }
            return (state.idle, state.mover)
        }
        // The last connection moves the log into the database, which only one that writes can.
        for reader in readers { try Self.close(reader.queue, reader.statements) }
        try mover?.close()
        try Self.close(writer, ofWriter)
    }

    private static func close(
        _ connection: DatabaseQueue,
        _ statements: CompiledStatements
    ) throws {
        connection.inDatabase { _ in statements.removeAll() }
        try connection.close()
    }
}
