import CloudFSTestSupport
import Foundation
import GRDB
import GRDBSQLite
import Testing

@testable import CloudFS

/// What transactions add to the log, and what becomes of it.
@Suite struct CatalogLogTests {
    @Test func `what a transaction adds to the log is written at once`() throws {
        let fixture = try CatalogFixture()
        // The log begins with the first.
        let id = try fixture.addFile("first")
        let (calls, bytes) = (try Self.writeCalls, try fixture.logSize())
        let count = 100
        for number in 1...count {
            try fixture.catalog.write { writer in
                try writer.setSize(Int64(number), of: id)
                try writer.setAttribute("user.own", to: Array("\(number)".utf8), of: id)
            }
        }
        #expect(try Self.writeCalls - calls == count)
        // Each of at least two pages.
        let size = try fixture.logSize()
        #expect(size - bytes >= count * 2 * (4_096 + 24), "\(bytes) to \(size) bytes")
    }

    @Test(arguments: 1...8)
    func `what was committed is in the log, whatever was undone or too large for the memory`(
        seed: UInt64
    ) throws {
        let folder = try TemporaryDirectory()
        // Has SQLite know the system of ours.
        _ = try CatalogFixture()
        var story = LogStory(seed: seed)
        let database = try LogDatabase(folder.path("database"), through: "cloudfs")
        try database.execute(
            """
            PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = 10;
            PRAGMA wal_autocheckpoint = 150;
            CREATE TABLE piece (id INTEGER PRIMARY KEY, bytes BLOB); CREATE INDEX piece_bytes ON
            piece(bytes);
            """
        )
        for step in 0..<60 {
            let context: Comment = "seed \(seed), step \(step)"
            let before = try database.text(LogStory.digest)
            let half = try story.change(database) { try Self.left(of: database, "half\(step)") }
            #expect(half == before, context)
            let after = try database.text(LogStory.digest)
            #expect(try Self.left(of: database, "copy\(step)") == after, context)
        }
        #expect(story.spilled > 0 && story.undone > 0, "seed \(seed): nothing was proved")
    }

    /// What a crash leaves of a database, read without anything of ours.
    private static func left(of database: LogDatabase, _ name: String) throws -> String {
        let copy = "\(database.path).\(name)"
        for suffix in ["", "-wal"] {
            let path = database.path + suffix
            try FileManager.default.copyItem(atPath: path, toPath: copy + suffix)
        }
        let found = try LogDatabase(copy, through: "unix")
        #expect(try found.text("PRAGMA integrity_check") == "ok")
        return try found.text(LogStory.digest)
    }

    @Test func `a long log is moved into the catalog, and begins anew`() async throws {
        let fixture = try CatalogFixture()
        let catalog = fixture.catalog
        let first = try fixture.logNumber()
        while try fixture.logSize() < CatalogLog.enough * 4_120 { try fixture.write(megabytes: 1) }
        // It is told of, and goes on growing until somebody moves it.
        await catalog.isLogLong.wait(atMost: .seconds(10))
        #expect(try fixture.logNumber() == first)
        try catalog.moveLog()
        // Once is enough.
        try catalog.moveLog()
        try fixture.write(megabytes: 1)
        #expect(try fixture.logNumber() == first + 1)
        // A short one is left alone.
        try catalog.moveLog()
        try fixture.write(megabytes: 1)
        #expect(try fixture.logNumber() == first + 1)
    }

    @Test func `a log that nobody moves is moved by who commits`() throws {
        let fixture = try CatalogFixture()
        let first = try fixture.logNumber()
        for _ in 0..<20 { try fixture.write(megabytes: 1) }
        #expect(try fixture.logNumber() == first + 1)
        #expect(try fixture.logSize() < (CatalogLog.tooMuch + 512) * 4_120)
    }

    @Test func `a log is moved while others read and write`() async throws {
        let fixture = try CatalogFixture()
        let catalog = fixture.catalog
        let id = try fixture.addFile("counted")
        let pool = BlockingPool(name: "others", width: 2)
        let rounds = 1_000
        async let writing: Void = pool.run {
            for number in 1...rounds { try catalog.write { try $0.setSize(Int64(number), of: id) } }
        }
        async let reading: Void = pool.run {
            var last: Int64 = 0
            while last < rounds {
                let size = try catalog.read { try $0.existing(id).item.size }
                #expect(size >= last)
                last = size
            }
        }
        for _ in 0..<5 {
            try fixture.write(megabytes: 20)
            try catalog.moveLog()
        }
        try await writing
        try await reading
        try catalog.close()
        let found = try LogDatabase(fixture.directory.path("catalog.sqlite"), through: "unix")
        #expect(try found.text("PRAGMA integrity_check") == "ok")
        #expect(try found.text("SELECT max(size) FROM item") == "\(rounds)")
    }

    @Test func `a log that the disk did not store where it was moved stays for the next process`()
        throws
    {
        let folder = try TemporaryDirectory()
        let path = folder.path("database")
        var configuration = Configuration()
        configuration.prepareDatabase { try $0.execute(sql: "PRAGMA wal_autocheckpoint = 0") }
        let connections = try CatalogConnections(path: path, configuration)
        try connections.writer.write { database in
            try database.execute(sql: "CREATE TABLE piece AS SELECT zeroblob(12000000) AS bytes")
        }
        connections.writer.inDatabase { connections.log.keep($0) }
        #expect(try !connections.moveLog())
        try connections.close()
        let sizes = try ["", "-wal"].map { suffix in
            try FileManager.default.attributesOfItem(atPath: path + suffix)[.size] as? Int ?? 0
        }
        #expect(sizes[0] < 1 << 20 && sizes[1] > 12_000_000, "\(sizes)")
        let found = try LogDatabase(path, through: "unix")
        #expect(try found.text("SELECT length(bytes) FROM piece") == "12000000")
    }

    /// How often this thread has called `write` and its like.
    private static var writeCalls: Int {
        get throws {
            let lines = try String(contentsOfFile: "/proc/thread-self/io", encoding: .utf8)
            let line = lines.split(separator: "\n").first { $0.hasPrefix("syscw") }
            return try #require(Int(line?.split(separator: " ").last ?? ""))
        }
    }
}

extension CatalogFixture {
    /// Of the log's file, in bytes.
    fileprivate func logSize() throws -> Int {
        let path = directory.path("catalog.sqlite-wal")
        let size = try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int
        return try #require(size)
    }

    /// How often the log has begun anew.
    /// - Source: https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    fileprivate func logNumber() throws -> Int {
        let path = directory.path("catalog.sqlite-wal")
        let file = try #require(FileHandle(forReadingAtPath: path))
        let header = try #require(try file.read(upToCount: 32))
        return header[12..<16].reduce(0) { $0 << 8 | Int($1) }
    }

    fileprivate func write(megabytes: Int) throws {
        let text = String(repeating: "x", count: megabytes << 20)
        try catalog.write { try $0.setSetting("test", to: text) }
    }
}

/// A database that is used as SQLite itself offers it.
private final class LogDatabase {
    let path: String
    private var connection: OpaquePointer?

    init(_ path: String, through system: String) throws {
        self.path = path
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        try require(sqlite3_open_v2(path, &connection, flags, system))
    }

    deinit {
        sqlite3_close(connection)
    }

    func execute(_ sql: String) throws {
        try require(sqlite3_exec(connection, sql, nil, nil, nil))
    }

    /// The first column of the first row.
    func text(_ sql: String) throws -> String {
        var statement: OpaquePointer?
        try require(sqlite3_prepare_v2(connection, sql, -1, &statement, nil))
        defer { sqlite3_finalize(statement) }
        try #require(sqlite3_step(statement) == SQLITE_ROW)
        return sqlite3_column_text(statement, 0).map { String(cString: $0) } ?? ""
    }

    private func require(_ code: CInt) throws {
        try #require(code == SQLITE_OK, "\(String(cString: sqlite3_errmsg(connection)))")
    }
}

/// Transactions of all sizes, some of which are undone.
///
/// Never in parts: where those were too large for the memory, SQLite 3.40 itself loses in a crash
/// what was committed.
private struct LogStory {
    private var random: SeededRandom
    private(set) var undone = 0
    /// How many had pages in the log before they were committed.
    private(set) var spilled = 0

    static let digest = """
        SELECT count(*) || ' ' || total(length(bytes)) || ' '
            || total(unicode(hex(substr(bytes, -1)))) FROM piece
        """

    init(seed: UInt64) {
        random = SeededRandom(seed: seed)
    }

    /// - Parameter look: Called before it is committed or undone.
    /// - Returns: What it has found.
    mutating func change(
        _ database: LogDatabase,
        look: () throws -> String
    ) throws -> String {
        let count = random.below(4) == 0 ? 80 : 1 + random.below(5)
        let size = try Self.logSize(database)
        try database.execute("BEGIN")
        for _ in 0..<count {
            try database.execute(change())
        }
        if try Self.logSize(database) > size { spilled += 1 }
        let found = try look()
        let isUndone = random.below(4) == 0
        try database.execute(isUndone ? "ROLLBACK" : "COMMIT")
        if isUndone { undone += 1 }
        return found
    }

    private static func logSize(_ database: LogDatabase) throws -> Int {
        let path = database.path + "-wal"
        return try FileManager.default.attributesOfItem(atPath: path)[.size] as? Int ?? 0
    }

    private mutating func change() -> String {
        let (id, size) = (random.below(200), 1 + random.below(6_000))
        return switch random.below(4) {
        case 0: "DELETE FROM piece WHERE id = \(id)"
        case 1: "UPDATE piece SET bytes = randomblob(\(size)) WHERE id = \(id)"
        default: "INSERT OR REPLACE INTO piece VALUES (\(id), randomblob(\(size)))"
        }
    }
}
