import GRDB
import Glibc
import Synchronization

/// Which content a thumbnail shows.
struct ThumbnailToken: Hashable, Sendable {
    let rawValue: String

    init(rawValue: String) {
        self.rawValue = rawValue
    }

    /// What the cloud has.
    init(_ version: ItemVersion) {
        rawValue = "v:" + version.content
    }

    /// The content's token in the cloud; `nil` for what only this machine has.
    var version: String? { rawValue.hasPrefix("v:") ? String(rawValue.dropFirst(2)) : nil }

    /// What only this machine has: one state of one content file.
    init?(_ item: Item) {
        guard item.content.generation != 0 else { return nil }
        let modified = item.metadata.modified.nanoseconds
        rawValue = "l:\(item.content.generation):\(item.size):\(modified)"
    }
}

/// What is known of one item's thumbnail, without the pictures.
struct ThumbnailRecord: Sendable, Equatable {
    /// Where it comes from.
    enum Source: Int, Sendable {
        case madeHere = 1
        case cloud = 2
        /// A program set it.
        case given = 3
        /// Nothing could be made of this content.
        case failed = 4
        /// The cloud had none when it was asked.
        case absent = 5
        /// From the first bytes of the content, if there was one in them; the cloud had none.
        case peeked = 6
    }

    var token: ThumbnailToken
    var source: Source
    /// Whether the cloud has it.
    var isSent: Bool
    /// When it was stored, or asked for.
    var noted: Timestamp
    /// How often the cloud had none.
    var attempts = 0
    var sizes: Set<ThumbnailSize>
}

/// The thumbnails of a drive on this machine: a database of their own beside the catalog.
///
/// All of it can be made or fetched again, so a damaged one is thrown away, and the oldest go when
/// they are too many. The file is made when the first thumbnail is.
final class ThumbnailStore: Sendable {
    private let path: String
    /// Bytes of pictures that are kept.
    private let limit: Int64
    private let queue = Mutex<DatabaseQueue?>(nil)
    private let puts = Atomic(0)

    init(path: String, limit: Int64 = 512 << 20) {
        self.path = path
        self.limit = limit
    }

    private static let schema = """
        CREATE TABLE IF NOT EXISTS thumbnail (
            item INTEGER PRIMARY KEY,
            token TEXT NOT NULL,
            source INTEGER NOT NULL,
            is_sent INTEGER NOT NULL,
            noted INTEGER NOT NULL,
            attempts INTEGER NOT NULL,
            bytes INTEGER NOT NULL,
            image128 BLOB, image256 BLOB, image512 BLOB, image1024 BLOB
        );
        CREATE INDEX IF NOT EXISTS thumbnail_age ON thumbnail(noted, bytes, is_sent);
        CREATE INDEX IF NOT EXISTS thumbnail_unsent ON thumbnail(item)
            WHERE is_sent = 0 AND bytes > 0;
        CREATE TABLE IF NOT EXISTS retired (token TEXT PRIMARY KEY) WITHOUT ROWID;
        CREATE TRIGGER IF NOT EXISTS thumbnail_retired AFTER DELETE ON thumbnail
            WHEN old.is_sent = 1 AND old.bytes > 0 AND old.token LIKE 'v:%'
            BEGIN INSERT OR IGNORE INTO retired VALUES (old.token); END;
        """

    private static func column(_ size: ThumbnailSize) -> String { "image\(size.rawValue)" }

    /// Whether there ever was a thumbnail.
    var exists: Bool { queue.withLock { $0 != nil } || access(path, F_OK) == 0 }

    // MARK: - Reading

    func record(of id: ItemID) throws(CloudFSError) -> ThumbnailRecord? {
        try run { try Self.record(of: id, $0) }
    }

    private static func record(of id: ItemID, _ database: Database) throws -> ThumbnailRecord? {
        let sizes = ThumbnailSize.allCases
        let filled = sizes.map { "\(column($0)) IS NOT NULL" }.joined(separator: ", ")
        return try DatabaseRow.first(
            database.cachedStatement(
                sql: """
                    SELECT token, source, is_sent, noted, attempts, \(filled)
                    FROM thumbnail WHERE item = ?
                    """
            ),
            arguments: [id.rawValue]
        ) { row in
            ThumbnailRecord.Source(rawValue: row[1]).map { source in
                ThumbnailRecord(
                    token: ThumbnailToken(rawValue: row[0]),
                    source: source,
                    isSent: row[2],
                    noted: Timestamp(nanoseconds: row[3]),
                    attempts: row[4],
                    sizes: Set(sizes.indices.filter { row[5 + $0] }.map { sizes[$0] })
                )
            }
        } ?? nil
    }

    /// The largest picture of at most `size` that shows one of `tokens`.
    func image(
        of id: ItemID,
        showing tokens: [ThumbnailToken],
        atMost size: ThumbnailSize
    ) throws(CloudFSError) -> ThumbnailImage? {
        let columns = ThumbnailSize.allCases.filter { $0 <= size }.reversed().map(Self.column)
        let selection = columns.joined(separator: ", ")
        return try run { database in
            try DatabaseRow.first(
                database.cachedStatement(
                    sql: "SELECT token, \(selection) FROM thumbnail WHERE item = ?"
                ),
                arguments: [id.rawValue]
            ) { row -> ThumbnailImage? in
                guard tokens.contains(ThumbnailToken(rawValue: row[0])) else { return nil }
                for index in 1...columns.count {
                    if let bytes = row.blob(index) { return ThumbnailImage(bytes) }
                }
                return nil
            } ?? nil
        }
    }

    /// All pictures of an item that show `token`.
    func images(
        of id: ItemID,
        showing token: ThumbnailToken
    ) throws(CloudFSError) -> ThumbnailImages {
        let sizes = ThumbnailSize.allCases
        let columns = sizes.map(Self.column).joined(separator: ", ")
        return try run { database in
            try DatabaseRow.first(
                database.cachedStatement(
                    sql: "SELECT \(columns) FROM thumbnail WHERE item = ? AND token = ?"
                ),
                arguments: [id.rawValue, token.rawValue]
            ) { row in
                var images: ThumbnailImages = [:]
                for (index, size) in sizes.enumerated() {
                    images[size] = row.blob(index).flatMap { ThumbnailImage($0) }
                }
                return images
            } ?? [:]
        }
    }

    /// Items whose pictures the cloud may lack.
    func unsent(limit: Int) throws(CloudFSError) -> [ItemID] {
        try run { database in
            try Int64.fetchAll(
                database,
                sql: "SELECT item FROM thumbnail WHERE is_sent = 0 AND bytes > 0 LIMIT ?",
                arguments: [limit]
            ).map { ItemID($0) }
        }
    }

    /// Items that have a row, in their order.
    func items(after id: ItemID, limit: Int) throws(CloudFSError) -> [ItemID] {
        try run { database in
            try Int64.fetchAll(
                database,
                sql: "SELECT item FROM thumbnail WHERE item > ? ORDER BY item LIMIT ?",
                arguments: [id.rawValue, limit]
            ).map { ItemID($0) }
        }
    }

    /// What pictures in the cloud show that no row shows any more; items may have it still.
    func retired(limit: Int) throws(CloudFSError) -> [ThumbnailToken] {
        try run { database in
            try String.fetchAll(
                database,
                sql: "SELECT token FROM retired LIMIT ?",
                arguments: [limit]
            ).map { ThumbnailToken(rawValue: $0) }
        }
    }

    // MARK: - Changing

    /// Stores pictures, in place of all that showed another content.
    ///
    /// - Parameter known: What was stored when the work on them began.
    /// - Throws: `remoteChanged` if something else is stored since: a program's own picture is
    ///   never replaced by one that was on its way.
    func put(
        _ images: ThumbnailImages,
        of id: ItemID,
        _ record: ThumbnailRecord,
        insteadOf known: ThumbnailRecord?
    ) throws(CloudFSError) {
        try run { database in
            try Self.require(known, of: id, database)
            try Self.write(images, of: id, record, database)
        }
        if puts.add(1, ordering: .relaxed).newValue.isMultiple(of: 64) { try trim() }
    }

    /// Stores pictures in place of any that there are.
    func replace(
        with images: ThumbnailImages,
        of id: ItemID,
        _ record: ThumbnailRecord
    ) throws(CloudFSError) {
        try run { database in
            try Self.remove(id, database)
            try Self.write(images, of: id, record, database)
        }
    }

    private static func write(
        _ images: ThumbnailImages,
        of id: ItemID,
        _ record: ThumbnailRecord,
        _ database: Database
    ) throws {
        try database.execute(
            sql: "DELETE FROM thumbnail WHERE item = ? AND (token <> ? OR source <> ?)",
            arguments: [id.rawValue, record.token.rawValue, record.source.rawValue]
        )
        try database.execute(
            sql: """
                INSERT INTO thumbnail (item, token, source, is_sent, noted, attempts, bytes)
                VALUES (?, ?, ?, ?, ?, ?, 0) ON CONFLICT (item) DO UPDATE SET
                    is_sent = excluded.is_sent, noted = excluded.noted,
                    attempts = excluded.attempts
                """,
            arguments: [
                id.rawValue, record.token.rawValue, record.source.rawValue, record.isSent,
                record.noted.nanoseconds, record.attempts,
            ]
        )
        for (size, image) in images {
            try database.execute(
                sql: "UPDATE thumbnail SET \(column(size)) = ? WHERE item = ?",
                arguments: [image.bytes.asBlob, id.rawValue]
            )
        }
        let lengths = ThumbnailSize.allCases
            .map { "coalesce(length(\(column($0))), 0)" }.joined(separator: " + ")
        try database.execute(
            sql: "UPDATE thumbnail SET bytes = \(lengths) WHERE item = ?",
            arguments: [id.rawValue]
        )
    }

    /// Changes what a thumbnail shows, as its content has another name now.
    func retoken(_ id: ItemID, to token: ThumbnailToken) throws(CloudFSError) {
        try run { database in
            try database.execute(
                sql: "UPDATE thumbnail SET token = ?, is_sent = 0 WHERE item = ?",
                arguments: [token.rawValue, id.rawValue]
            )
        }
    }

    func forgetRetired(_ tokens: [ThumbnailToken]) throws(CloudFSError) {
        try run { database in
            for token in tokens {
                try database.execute(
                    sql: "DELETE FROM retired WHERE token = ?",
                    arguments: [token.rawValue]
                )
            }
        }
    }

    /// The cloud has what was stored when `known` was read.
    ///
    /// - Throws: `remoteChanged` if something else is stored since.
    func markSent(_ id: ItemID, _ known: ThumbnailRecord?) throws(CloudFSError) {
        try run { database in
            try Self.require(known, of: id, database)
            try database.execute(
                sql: "UPDATE thumbnail SET is_sent = 1 WHERE item = ?",
                arguments: [id.rawValue]
            )
        }
    }

    /// Forgets a thumbnail.
    func remove(_ id: ItemID) throws(CloudFSError) {
        try run { try Self.remove(id, $0) }
    }

    /// Forgets a thumbnail if it is the one that was stored when `known` was read.
    ///
    /// - Throws: `remoteChanged` if something else is stored since.
    func remove(_ id: ItemID, ifStill known: ThumbnailRecord?) throws(CloudFSError) {
        try run { database in
            try Self.require(known, of: id, database)
            try Self.remove(id, database)
        }
    }

    private static func remove(_ id: ItemID, _ database: Database) throws {
        try database.execute(
            sql: "DELETE FROM thumbnail WHERE item = ?",
            arguments: [id.rawValue]
        )
    }

    /// - Throws: `remoteChanged` unless the row of an item is the one that `known` was read from.
    private static func require(
        _ known: ThumbnailRecord?,
        of id: ItemID,
        _ database: Database
    ) throws {
        guard try record(of: id, database) == known else {
            throw CloudFSError(.remoteChanged, "another thumbnail was stored", item: id)
        }
    }

    /// Drops pictures until the others are few enough: those that the cloud has, then what can be
    /// made again, each from the oldest on.
    private func trim() throws(CloudFSError) {
        try run { database in
            let total =
                try Int64.fetchOne(database, sql: "SELECT total(bytes) FROM thumbnail") ?? 0
            guard total > limit else { return }
            try database.execute(
                sql: """
                    DELETE FROM thumbnail WHERE item IN (
                        SELECT item FROM (
                            SELECT item,
                                sum(bytes) OVER (ORDER BY is_sent DESC, noted, item) AS freed
                            FROM thumbnail WHERE is_sent = 1 OR source <> ?)
                        WHERE freed <= ?)
                    """,
                arguments: [ThumbnailRecord.Source.given.rawValue, total - limit * 9 / 10]
            )
        }
    }

    // MARK: - The database

    /// Runs `body` in a transaction; a damaged database is thrown away and made anew, once.
    private func run<Value>(
        _ body: (Database) throws -> Value
    ) throws(CloudFSError) -> Value {
        do {
            let database = try opened()
            do {
                return try database.write(body)
            } catch let error as DatabaseError where Self.isDamage(error) {
                return try replacing(database).write(body)
            }
        } catch let error as CloudFSError {
            throw error
        } catch let error as DatabaseError where error.resultCode == .SQLITE_FULL {
            throw CloudFSError(.diskFull, "there is no room for thumbnails", cause: error)
        } catch {
            throw CloudFSError(.internalFailure, "the thumbnails cannot be used", cause: error)
        }
    }

    private static func isDamage(_ error: DatabaseError) -> Bool {
        [.SQLITE_CORRUPT, .SQLITE_NOTADB].contains(error.resultCode)
    }

    private func opened() throws -> DatabaseQueue {
        try queue.withLock { queue in
            if let queue { return queue }
            let made: DatabaseQueue
            do {
                made = try Self.make(path)
            } catch let error as DatabaseError where Self.isDamage(error) {
                try Self.discard(path)
                made = try Self.make(path)
            }
            queue = made
            return made
        }
    }

    /// Another database in place of one that turned out to be damaged.
    private func replacing(_ damaged: DatabaseQueue) throws -> DatabaseQueue {
        try queue.withLock { queue in
            // Somebody else has done so.
            if let queue, queue !== damaged { return queue }
            try damaged.close()
            try Self.discard(path)
            let made = try Self.make(path)
            queue = made
            return made
        }
    }

    private static func make(_ path: String) throws -> DatabaseQueue {
        var configuration = Configuration()
        configuration.label = "cloudfs.thumbnails"
        configuration.prepareDatabase { database in
            try database.execute(
                sql: """
                    PRAGMA journal_mode = WAL;
                    PRAGMA synchronous = NORMAL;
                    PRAGMA cache_size = -1024;
                    PRAGMA journal_size_limit = 4194304;
                    """
            )
        }
        let made = try DatabaseQueue(path: path, configuration: configuration)
        try made.write { try $0.execute(sql: schema) }
        return made
    }

    private static func discard(_ path: String) throws(CloudFSError) {
        for ending in ["", "-wal", "-shm"] {
            guard unlink(path + ending) == 0 || errno == ENOENT else {
                throw CloudFSError(.internalFailure, "damaged thumbnails cannot be removed")
            }
        }
    }
}
