import GRDB

/// One item with something to send, and how sending it went so far.
struct OutboxRecord: Sendable, Equatable {
    var item: ItemID
    /// When it may be tried; the quiet time after a change, or the delay after a failure.
    var notBefore: Timestamp
    var attempts: Int
    /// Whether it stays on this machine, as long as its name is not synced or it is excluded.
    var isHeld: Bool
    var errorCode: String?
    var errorMessage: String?

    init(row: DatabaseRow) {
        item = ItemID(row[0])
        notBefore = Timestamp(nanoseconds: row[1])
        attempts = row[2]
        isHeld = row[3]
        errorCode = row[4]
        errorMessage = row[5]
    }

    /// Why it failed last.
    var error: CloudFSError? {
        errorCode.map { code in
            CloudFSError(
                CloudFSError.Code(rawValue: code) ?? .internalFailure,
                errorMessage ?? "it could not be sent",
                item: item
            )
        }
    }

    static let columns = "item, not_before, attempts, is_held, error_code, error_message"
}

/// How much waits to be sent.
struct OutboxTotals: Sendable, Equatable {
    var items = 0
    /// How many of them failed when they were last tried, by why.
    var failures: [CloudFSError.Code: Int] = [:]
    var bytes: Int64 = 0
    /// When the first of them is tried.
    var next: Timestamp?

    func failureCount(where isMeant: (CloudFSError.Code) -> Bool) -> Int {
        failures.reduce(0) { $0 + (isMeant($1.key) ? $1.value : 0) }
    }
}

extension CatalogReader {
    /// Whether something directly in a folder is to be sent as new.
    func hasNew(in folder: ItemID) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                """
                SELECT EXISTS (
                    SELECT 1 FROM name JOIN outbox ON outbox.item = name.item
                    WHERE name.parent = ? AND NOT EXISTS (
                        SELECT 1 FROM base WHERE base.item = name.item))
                """
            ),
            arguments: [folder.rawValue]
        ) ?? false
    }

    /// Rows that may be tried, the longest waiting first.
    func outbox(readyAt now: Timestamp, limit: Int) throws -> [OutboxRecord] {
        try DatabaseRow.all(
            compiled(
                """
                SELECT \(OutboxRecord.columns) FROM outbox
                WHERE is_held = 0 AND not_before <= ? ORDER BY not_before, item LIMIT ?
                """
            ),
            arguments: [now.nanoseconds, limit]
        ) { OutboxRecord(row: $0) }
    }

    /// All rows that are not held back, in the order they will be tried.
    func outbox(offset: Int, limit: Int) throws -> [OutboxRecord] {
        try DatabaseRow.all(
            compiled(
                """
                SELECT \(OutboxRecord.columns) FROM outbox WHERE is_held = 0
                ORDER BY not_before, item LIMIT ? OFFSET ?
                """
            ),
            arguments: [limit, offset]
        ) { OutboxRecord(row: $0) }
    }

    func outboxEntry(of id: ItemID) throws -> OutboxRecord? {
        try DatabaseRow.first(
            compiled(
                "SELECT \(OutboxRecord.columns) FROM outbox WHERE item = ?"
            ),
            arguments: [id.rawValue]
        ) { OutboxRecord(row: $0) }
    }

    /// When the next row may be tried; `nil` when nothing waits.
    func nextOutboxTime() throws -> Timestamp? {
        let moment: Int64? = try DatabaseRow.value(
            compiled(
                "SELECT min(not_before) FROM outbox WHERE is_held = 0"
            )
        )
        return moment.map { Timestamp(nanoseconds: $0) }
    }

    func outboxTotals() throws -> OutboxTotals {
        let statement = try compiled(
            """
            SELECT error_code, count(*),
                CAST(total(CASE item.cleanliness WHEN 0 THEN 0 ELSE item.size END) AS INTEGER),
                min(not_before)
            FROM outbox JOIN item ON item.id = outbox.item WHERE is_held = 0
            GROUP BY error_code
            """
        )
        var totals = OutboxTotals()
        try DatabaseRow.forEach(statement) { row in
            let count: Int = row[1]
            totals.items += count
            totals.bytes = totals.bytes.addingOrMost(row[2])
            let first = Timestamp(nanoseconds: row[3])
            totals.next = totals.next.map { min($0, first) } ?? first
            if let name = row[0] as String? {
                let code = CloudFSError.Code(rawValue: name) ?? .internalFailure
                totals.failures[code, default: 0] += count
            }
            return true
        }
        return totals
    }

    /// Whether anything waits because something else has its name in the cloud, or that of its
    /// folder.
    func hasRefused() throws -> Bool {
        try DatabaseRow.value(
            compiled(
                "SELECT EXISTS (SELECT 1 FROM outbox WHERE error_code = 'exists')"
            )
        ) ?? false
    }

    /// Whether anything at or below an item is held back: few things are, and little is above them.
    func isHeldBack(below id: ItemID) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                """
                WITH RECURSIVE above(id) AS (
                    SELECT item FROM outbox WHERE is_held = 1 UNION
                    SELECT name.parent FROM above JOIN name ON name.item = above.id)
                SELECT EXISTS (SELECT 1 FROM above WHERE id = ?)
                """
            ),
            arguments: [id.rawValue]
        ) ?? false
    }
}

extension CatalogWriter {
    /// Times that differ by no more, in nanoseconds, count as one; 20 ms.
    ///
    /// A file that is made, filled and closed is put off several times in a row, and each would be
    /// a page of the log or two.
    static let sameTime: Int64 = 20_000_000

    /// Queues an item to be sent at `notBefore`, or moves its time there; failures are forgotten.
    ///
    /// What is in a package is never sent itself: the package is.
    func enqueue(_ id: ItemID, notBefore: Timestamp) throws {
        if let package = try reader.package(of: id) {
            return try noteTreeChange(of: package, notBefore: notBefore)
        }
        try queue(id, notBefore: notBefore)
    }

    func queue(_ id: ItemID, notBefore: Timestamp) throws {
        outcome.hasQueued = true
        try execute(
            """
            INSERT INTO outbox (item, not_before) VALUES (?, ?)
            ON CONFLICT (item) DO UPDATE SET not_before = excluded.not_before, attempts = 0,
                is_held = 0,
                error_code = NULL, error_message = NULL
            WHERE abs(excluded.not_before - not_before) > ? OR attempts > 0 OR is_held = 1
            """,
            [id.rawValue, notBefore.nanoseconds, Self.sameTime]
        )
    }

    func dequeue(_ id: ItemID) throws {
        try execute("DELETE FROM outbox WHERE item = ?", [id.rawValue])
    }

    /// Decides anew about everything that is held back, as the reason for some of it has gone:
    /// what still is to stay here is held again.
    func lookAgainAtHeld() throws {
        outcome.hasQueued = true
        try execute("UPDATE outbox SET is_held = 0 WHERE is_held = 1", [])
    }

    func setHeld(_ isHeld: Bool, of id: ItemID) throws {
        try execute("UPDATE outbox SET is_held = ? WHERE item = ?", [isHeld, id.rawValue])
    }

    /// Puts a row off without calling it a failure.
    func postpone(_ id: ItemID, until moment: Timestamp) throws {
        outcome.hasQueued = true
        try execute(
            "UPDATE outbox SET not_before = ? WHERE item = ? AND abs(not_before - ?) > ?",
            [moment.nanoseconds, id.rawValue, moment.nanoseconds, Self.sameTime]
        )
    }

    /// Makes an item ready before all others, unless it waits because sending it failed.
    func bringForward(_ id: ItemID) throws {
        outcome.hasQueued = true
        try execute(
            "UPDATE outbox SET not_before = 0 WHERE item = ? AND error_code IS NULL",
            [id.rawValue]
        )
    }

    /// Makes an item ready before all others that was put off because it waited for another one,
    /// unless it was changed since.
    func bringForward(_ id: ItemID, putOffUntil moment: Timestamp) throws {
        outcome.hasQueued = true
        try execute(
            "UPDATE outbox SET not_before = 0 WHERE item = ? AND abs(not_before - ?) <= ?",
            [id.rawValue, moment.nanoseconds, Self.sameTime]
        )
    }

    /// Tries at once again what was refused at or below an item: few are, and few folders are above
    /// each.
    func lookAgainAtRefused(below id: ItemID) throws {
        guard try reader.hasRefused() else { return }
        outcome.hasQueued = true
        try execute(
            """
            UPDATE outbox SET not_before = 0 WHERE error_code = 'exists' AND EXISTS (
                WITH RECURSIVE above(id) AS (
                    SELECT outbox.item UNION
                    SELECT name.parent FROM above JOIN name ON name.item = above.id)
                SELECT 1 FROM above WHERE id = ?)
            """,
            [id.rawValue]
        )
    }

    /// Tries at once again what was refused because an item had its place in the cloud, or was in
    /// its folder there.
    ///
    /// - Parameter base: What the item has left.
    func lookAgainAtRefused(by base: BaseRecord) throws {
        guard let parent = base.parent, try reader.hasRefused() else { return }
        outcome.hasQueued = true
        try execute(
            "UPDATE outbox SET not_before = 0 WHERE error_code = 'exists' AND item = ?",
            [parent.rawValue]
        )
        guard let next = try reader.child(base.name, of: parent), next.id != base.item else {
            return
        }
        try lookAgainAtRefused(below: next.id)
    }

    /// Tries at once again all that was refused.
    func lookAgainAtAllRefused() throws {
        outcome.hasQueued = true
        try execute("UPDATE outbox SET not_before = 0 WHERE error_code = 'exists'", [])
    }

    /// Notes that an attempt failed, and when the next one is due.
    ///
    /// - Parameter latest: The latest that what was tried can have been due. Something later is
    ///   another change, made during the attempt, and is tried in its own time.
    func recordFailure(
        _ id: ItemID,
        error: CloudFSError,
        queuedBy latest: Timestamp,
        retryAt moment: Timestamp
    ) throws {
        try execute(
            """
            UPDATE outbox SET
                not_before = iif(attempts > 0 OR not_before <= ?, ?, not_before),
                attempts = attempts + 1, error_code = ?, error_message = ? WHERE item = ?
            """,
            [
                latest.nanoseconds, moment.nanoseconds, error.code.rawValue, error.message,
                id.rawValue,
            ]
        )
    }

    /// Makes every row ready at once.
    ///
    /// - Parameter alsoFailed: Whether that goes for rows that are to be tried again, too.
    func makeAllReady(at now: Timestamp, alsoFailed: Bool) throws {
        try execute(
            """
            UPDATE outbox SET not_before = ?1
            WHERE not_before > ?1 AND (?2 OR error_code IS NULL)
            """,
            [now.nanoseconds, alsoFailed]
        )
    }
}
