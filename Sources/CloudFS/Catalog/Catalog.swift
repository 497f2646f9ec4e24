import Dispatch
import GRDB
import Synchronization

/// The local database of a drive: every item, its three states, and what is still to be sent.
///
/// All access is a closure in one transaction. A transaction that was committed survives the
/// death of this process; it survives a power failure once `makeDurable` returned.
final class Catalog: Sendable {
    private let connections: CatalogConnections
    private let flush: CatalogFlush
    /// Raised after a commit that leaves content to be flushed or unlinked beside everything else.
    let leftovers = Signal()
    /// Raised after a commit that queued something to be sent, or changed when it is.
    let queued = Signal()
    /// Raised after a commit by which files are to be brought here.
    let wanted = Signal()
    /// Raised after a commit that brought much to a pinned place, which is to be asked for.
    let pinned = Signal()
    /// Names that transactions of the engine took from their items.
    let untoldNames = Untold<NamePlace>()
    private let reserve: CatalogReserve
    /// Where threads of pools wait before they wait for the connection that writes.
    private let pools = DispatchQueue(label: "cloudfs.catalog.pools")
    /// How many transactions that take long run, or wait for their turn.
    private let longWrites = Atomic(0)
    /// The same for those that do not.
    private let shortWrites = Atomic(0)
    /// Since when one runs, in nanoseconds; 0 when none does.
    private let writingSince = Atomic<UInt64>(0)
    /// For how long a transaction may run to be waited for, in nanoseconds: one that has to move
    /// the log into the database waits for the disk.
    private static let patience: UInt64 = 1_000_000
    /// How many items a step changes: some milliseconds.
    private static let itemsOfStep = 500

    /// Opens or creates the catalog at `path` and brings its schema up to date.
    ///
    /// - Throws: `corrupt` for a file that is no catalog or of a newer CloudFS; `diskFull`.
    init(path: String) throws(CloudFSError) {
        flush = CatalogFlush(ofLog: path + "-wal")
        connections = try Self.converting("the catalog cannot be opened") {
            var configuration = Configuration()
            configuration.label = "cloudfs.catalog"
            configuration.busyMode = .timeout(10)
            configuration.prepareDatabase { database in
                try database.execute(
                    sql: """
                        PRAGMA synchronous = NORMAL;
                        PRAGMA foreign_keys = ON;
                        PRAGMA temp_store = MEMORY;
                        PRAGMA cache_size = -4096;
                        PRAGMA journal_size_limit = 16777216;
                        PRAGMA wal_autocheckpoint = 0;
                        """
                )
            }
            let connections = try CatalogConnections(path: path, configuration)
            let writer = connections.writer
            try writer.writeWithoutTransaction { database in
                guard try !CatalogSchema.migrator.hasBeenSuperseded(database) else {
                    throw CloudFSError(.corrupt, "the catalog is of a newer version of CloudFS")
                }
                try CatalogFailure.requireWritable(database)
            }
            try CatalogSchema.migrator.migrate(writer)
            return connections
        }
        reserve = CatalogReserve(path: path)
        reserve.refill()
    }

    /// Takes the blocks of the disk again that only the catalog can use, as far as there are any.
    func refillReserve() {
        reserve.refill()
    }

    /// Runs `body` on one consistent state of the catalog.
    func read<Value>(
        _ body: (CatalogReader) throws -> Value
    ) throws(CloudFSError) -> Value {
        try Self.converting("the catalog cannot be read") {
            try connections.read { database, statements in
                try Self.noting(database) {
                    try body(CatalogReader(database: database, statements: statements))
                }
            }
        }
    }

    /// Like `read`, for a few rows: on the connection that writes, unless that would take long.
    ///
    /// What was read or written lately is in that connection's cache, where every commit empties
    /// those of the readers: waiting for a short transaction is cheaper.
    func readFew<Value>(
        _ body: (CatalogReader) throws -> Value
    ) throws(CloudFSError) -> Value {
        guard !isBusy else { return try read(body) }
        return try Self.converting("the catalog cannot be read") {
            // Nothing is written meanwhile, so that this needs no transaction to be consistent.
            try onWriter { database in
                try Self.noting(database) {
                    try body(
                        CatalogReader(database: database, statements: connections.ofWriter)
                    )
                }
            }
        }
    }

    /// Whether the connection that writes will be for a while.
    var isBusy: Bool {
        guard longWrites.load(ordering: .relaxed) == 0 else { return true }
        let since = writingSince.load(ordering: .relaxed)
        return since != 0 && DispatchTime.now().uptimeNanoseconds - since > Self.patience
    }

    /// Whether others wait for their turn: a long transaction that can be two should end.
    ///
    /// - Precondition: Called in a long one.
    var isAwaited: Bool { shortWrites.load(ordering: .relaxed) > 0 }

    /// Runs `body` in one transaction, which is committed when it returns and undone if it throws.
    ///
    /// - Parameters:
    ///   - isLong: Whether it changes more than a few rows.
    ///   - isKernels: Whether the kernel asked for it, and knows what becomes of names.
    func write<Value>(
        isLong: Bool = false,
        isKernels: Bool = false,
        _ body: (CatalogWriter) throws -> Value
    ) throws(CloudFSError) -> Value {
        note(1, isLong: isLong)
        defer { note(-1, isLong: isLong) }
        let begin = DispatchTime.now().uptimeNanoseconds
        // The next one may have begun already.
        defer { _ = writingSince.compareExchange(expected: begin, desired: 0, ordering: .relaxed) }
        return try Self.converting("the catalog cannot be written") {
            try onWriter { database in
                try Self.noting(database) {
                    let writer = CatalogWriter(
                        database: database,
                        statements: connections.ofWriter,
                        notesNames: !isKernels
                    )
                    let value = try CatalogConnections.inTransaction(database, .immediate) {
                        writingSince.store(begin, ordering: .relaxed)
                        return try body(writer)
                    }
                    // Before the next one can find them changed.
                    untoldNames.note(writer.outcome.takenNames)
                    if writer.outcome.hasLeftovers { leftovers.raise() }
                    if writer.outcome.hasQueued { queued.raise() }
                    if writer.outcome.hasWanted { wanted.raise() }
                    if writer.outcome.hasPinned { pinned.raise() }
                    return value
                }
            }
        }
    }

    /// Changes many items, in transactions that are short enough for others to wait for.
    ///
    /// - Parameter body: Called for each, with the catalog as it is by then.
    func writeInSteps(
        _ items: [ItemID],
        _ body: (CatalogWriter, ItemID) throws -> Void
    ) throws(CloudFSError) {
        for begin in stride(from: 0, to: items.count, by: Self.itemsOfStep) {
            let step = items[begin..<min(begin + Self.itemsOfStep, items.count)]
            try write(isLong: true) { writer in
                for id in step { try body(writer, id) }
            }
        }
    }

    /// Runs `body` on the connection that writes, when it is its turn.
    ///
    /// The connection's queue is first come, first served, and the engine has eight threads: all of
    /// them would stand before a program that makes a file. So one of them stands there at a time.
    private func onWriter<Value>(_ body: (Database) throws -> Value) throws -> Value {
        guard PoolThreads.isOnOne else {
            return try connections.writer.writeWithoutTransaction(body)
        }
        return try pools.sync { try connections.writer.writeWithoutTransaction(body) }
    }

    private func note(_ difference: Int, isLong: Bool) {
        if isLong {
            longWrites.add(difference, ordering: .relaxed)
        } else {
            shortWrites.add(difference, ordering: .relaxed)
        }
    }

    /// Makes every transaction committed so far survive a power failure.
    ///
    /// Commits are written to SQLite's log without a flush (`synchronous = NORMAL`); flushing the
    /// log makes all of them durable at once, for a tenth of the price of a FULL commit each.
    /// - Source: https://www.sqlite.org/pragma.html#pragma_synchronous
    func makeDurable() throws(CloudFSError) {
        try Self.converting("the catalog cannot be made durable") {
            try flush.run(alone: whileNobodyWrites)
        }
    }

    private func whileNobodyWrites(_ body: () throws -> Void) throws {
        try connections.writer.inDatabase { _ in try body() }
    }

    /// Raised when there is much in the log; `moveLog` is to be called then.
    var isLogLong: Signal { connections.log.isLong }

    /// Moves the log into the database, so that it begins anew.
    ///
    /// Others write meanwhile; only for the little that they added they have to wait.
    func moveLog() throws(CloudFSError) {
        try Self.converting("the log cannot be moved into the catalog") {
            guard !connections.log.isKept else {
                throw CloudFSError(.internalFailure, "the disk did not store what was moved")
            }
            do {
                try moveLogAndRest()
            } catch let error as DatabaseError where CatalogLog.isOfDisk(error) {
                connections.writer.inDatabase { connections.log.keep($0) }
                throw error
            }
        }
    }

    private func moveLogAndRest() throws {
        guard try connections.moveLog() else { return }
        // SQLite flushes only a database that has everything.
        try flush.run(alone: whileNobodyWrites)
        try reserve.flushDatabase()
        note(1, isLong: true)
        defer { note(-1, isLong: true) }
        _ = try connections.writer.inDatabase { try connections.log.move($0) }
    }

    /// Gives back memory after much was read or written.
    func releaseMemory() throws(CloudFSError) {
        try Self.converting("the catalog cannot give memory back") { try connections.shrink() }
    }

    /// Moves the log into the database and closes it.
    func close() throws(CloudFSError) {
        try Self.converting("the catalog cannot be closed") { try connections.close() }
    }

    // MARK: - Errors

    /// Notes what the system said of a failure in `body`.
    private static func noting<Value>(
        _ database: Database,
        _ body: () throws -> Value
    ) throws -> Value {
        do {
            return try body()
        } catch let error as DatabaseError {
            throw CatalogFailure(error, in: database)
        }
    }

    private static func converting<Value>(
        _ what: String,
        _ body: () throws -> Value
    ) throws(CloudFSError) -> Value {
        do {
            return try body()
        } catch let error as CloudFSError {
            throw error
        } catch let failure as CatalogFailure {
            throw failure.converted(what)
        } catch let error as DatabaseError {
            throw CatalogFailure(error).converted(what)
        } catch {
            throw CloudFSError(.internalFailure, what, cause: error)
        }
    }
}

/// What can be asked of the catalog inside a transaction.
struct CatalogReader {
    let database: Database
    let statements: CompiledStatements

    func compiled(_ sql: String) throws -> Statement {
        try statements.statement(sql, in: database)
    }
}

/// What can be changed in the catalog inside a transaction; it can ask everything too.
struct CatalogWriter {
    /// What is to be known of a transaction once it is committed.
    final class Outcome {
        /// Whether content is to be flushed or unlinked later.
        var hasLeftovers = false
        /// Whether something was queued to be sent, or is to be sent at another time.
        var hasQueued = false
        /// Whether files are to be brought here.
        var hasWanted = false
        /// Whether there is something in a pinned place that was not asked for.
        var hasPinned = false
        /// Which names were taken from their items, if those are noted.
        var takenNames: [NamePlace] = []
    }

    let database: Database
    let statements: CompiledStatements
    /// Whether names that are taken from their items are news to the kernel.
    var notesNames = false
    let outcome = Outcome()

    var reader: CatalogReader { CatalogReader(database: database, statements: statements) }

    func execute(_ sql: String, _ arguments: [any StatementBinding] = []) throws {
        try statements.statement(sql, in: database).run(arguments)
    }
}
