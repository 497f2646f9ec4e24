import GRDB

/// A content file that nothing names any more.
struct ContentName: Hashable, Sendable {
    var item: ItemID
    var generation: Int64
}

/// A file with content here.
struct LocalFile: Sendable {
    var record: ItemRecord
    var lastUsed: Int64
    /// The folder that it is in; if it was removed here, that in the cloud.
    var folder: ItemID?
}

/// What is on this machine's disk, in bytes and items.
struct ResidencyTotals: Sendable, Equatable {
    var localBytes: Int64 = 0
    var items: Int = 0
    var resident: Int = 0
    var partial: Int = 0
    var dirty: Int = 0
    var conflicts: Int = 0
}

extension CatalogReader {
    /// Whether any item is, or is about to be, of that content in the cloud.
    ///
    /// Looks at all items.
    func isKnown(content: String) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                """
                SELECT EXISTS (SELECT 1 FROM base WHERE content_version = ?1)
                    OR EXISTS (SELECT 1 FROM newer WHERE content_version = ?1)
                """
            ),
            arguments: [content]
        ) ?? true
    }

    /// The present ranges of a partial file: what was flushed, and what programs wrote since.
    func ranges(of id: ItemID) throws -> [Range<Int64>] {
        try DatabaseRow.all(
            compiled(
                "SELECT lower, upper FROM range WHERE item = ? ORDER BY lower"
            ),
            arguments: [id.rawValue]
        ) { $0[0]..<$0[1] }
    }

    /// Whether bytes of a partial file that programs wrote may not be on the disk.
    func hasUnflushedRanges(of id: ItemID) throws -> Bool {
        try DatabaseRow.value(
            compiled(
                "SELECT EXISTS (SELECT 1 FROM range WHERE item = ? AND written IS NOT NULL)"
            ),
            arguments: [id.rawValue]
        ) ?? false
    }

    /// The files with such bytes, and since when the first of them are; those first of which it is
    /// longest.
    func filesWithUnflushedRanges() throws -> [(item: ItemID, since: Timestamp)] {
        try DatabaseRow.all(
            compiled(
                """
                SELECT item, min(written) FROM range WHERE written IS NOT NULL
                GROUP BY item ORDER BY 2
                """
            )
        ) { (ItemID($0[0]), Timestamp(nanoseconds: $0[1])) }
    }

    /// Files with content here, least recently used first.
    func localFiles(
        limit: Int,
        after position: (lastUsed: Int64, item: ItemID)
    ) throws -> [LocalFile] {
        let statement = try compiled(
            """
            SELECT \(ItemRecord.columns), item.last_used, coalesce(
                (SELECT parent FROM name WHERE name.item = item.id),
                (SELECT parent FROM base WHERE base.item = item.id)) FROM item
            WHERE generation <> 0 AND (last_used, id) > (?, ?)
            ORDER BY last_used, id LIMIT ?
            """
        )
        return try DatabaseRow.all(
            statement,
            arguments: [position.lastUsed, position.item.rawValue, limit]
        ) { row in
            LocalFile(
                record: try ItemRecord(row: row),
                lastUsed: row[ItemRecord.columnCount],
                folder: (row[ItemRecord.columnCount + 1] as Int64?).map { ItemID($0) }
            )
        }
    }

    /// Files whose content was asked for and is not all here.
    ///
    /// - Parameters:
    ///   - waiting: Those that are left out.
    ///   - bound: Of how many bytes each misses less; `nil` for no matter how many.
    func wantedFiles(
        limit: Int,
        without waiting: Set<ItemID> = [],
        missingLessThan bound: Int64? = nil
    ) throws -> [ItemID] {
        let rows = try Int64.fetchCursor(
            compiled(
                """
                SELECT id FROM item WHERE is_wanted = 1 AND kind = 1
                    AND max(0, size - local_bytes) < coalesce(?, max(0, size - local_bytes) + 1)
                """
            ),
            arguments: [bound]
        )
        var files: [ItemID] = []
        while files.count < limit, let id = try rows.next().map({ ItemID($0) }) {
            if !waiting.contains(id) { files.append(id) }
        }
        return files
    }

    /// Those of them that miss so many bytes or more.
    func wantedFiles(missing byteCount: Int64) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                SELECT id FROM item WHERE is_wanted = 1 AND kind = 1
                    AND max(0, size - local_bytes) >= ?
                """
            ),
            arguments: [byteCount]
        ).map { ItemID($0) }
    }

    func residencyTotals() throws -> ResidencyTotals {
        var totals = ResidencyTotals()
        try DatabaseRow.forEach(
            compiled(
                """
                SELECT coalesce(sum(local_bytes), 0), total(residency = 2),
                    total(residency = 1), total(cleanliness = 1 AND package IS NULL)
                FROM item WHERE generation <> 0
                """
            )
        ) { row in
            totals.localBytes = row[0]
            totals.resident = Int(row[1] as Double)
            totals.partial = Int(row[2] as Double)
            totals.dirty = Int(row[3] as Double)
            return true
        }
        totals.items = try itemCount()
        totals.conflicts = try conflictCount()
        return totals
    }

    func itemCount() throws -> Int {
        try DatabaseRow.value(compiled("SELECT count(*) FROM name")) ?? 0
    }

    func localBytes() throws -> Int64 {
        try Int64.fetchOne(
            compiled(
                "SELECT coalesce(sum(local_bytes), 0) FROM item WHERE generation <> 0"
            )
        ) ?? 0
    }

    /// Content files that wait to be unlinked.
    func discarded() throws -> [ContentName] {
        try DatabaseRow.all(
            compiled("SELECT item, generation FROM discard")
        ) { ContentName(item: ItemID($0[0]), generation: $0[1]) }
    }

    /// Files and packages with content here, at or below an item; what is in packages goes with
    /// them.
    func localFiles(below id: ItemID) throws -> [ItemID] {
        try descendants(of: id).filter { below in
            guard let record = try item(below), record.item.package == nil else { return false }
            return record.item.content.generation != 0
                || record.item.isPackage && record.isListed
        }
    }

    /// Every item whose content must be looked at after a crash: dirty or partial.
    func unsettledFiles() throws -> [ItemRecord] {
        try DatabaseRow.all(
            compiled(
                """
                SELECT \(ItemRecord.columns) FROM item
                WHERE generation <> 0 AND (cleanliness <> 0 OR residency <> 2)
                """
            )
        ) { try ItemRecord(row: $0) }
    }

    /// Items that have no name: unlinked while open, or deleted here and not yet in the cloud.
    func namelessItems() throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                SELECT id FROM item WHERE id <> 1
                AND NOT EXISTS (SELECT 1 FROM name WHERE name.item = item.id)
                """
            )
        ).map { ItemID($0) }
    }

    func allContentNames() throws -> Set<ContentName> {
        Set(
            try DatabaseRow.all(
                compiled(
                    """
                    SELECT id, generation FROM item WHERE generation <> 0
                    UNION ALL SELECT holder, generation FROM previous WHERE generation <> 0
                    """
                )
            ) { ContentName(item: ItemID($0[0]), generation: $0[1]) }
        )
    }
}

extension CatalogWriter {
    /// Notes that the content is about to be changed here, before the first byte is.
    ///
    /// A crash then leaves a dirty item with old bytes, never new bytes that nobody knows of.
    func markDirty(_ id: ItemID, notBefore: Timestamp) throws {
        try execute("UPDATE item SET cleanliness = 1 WHERE id = ?", [id.rawValue])
        try enqueue(id, notBefore: notBefore)
    }

    /// Stores size and times of a changed content; the times of a package are its folder's.
    func recordContent(
        _ id: ItemID,
        size: Int64,
        modified: Timestamp,
        changed: Timestamp,
        localBytes: Int64
    ) throws {
        try execute(
            """
            UPDATE item SET size = ?,
                modified = CASE is_package WHEN 1 THEN modified ELSE ? END,
                changed = CASE is_package WHEN 1 THEN changed ELSE max(changed, ?) END,
                local_bytes = ? WHERE id = ?
            """,
            [
                size, modified.nanoseconds, changed.nanoseconds, localBytes, id.rawValue,
            ]
        )
    }

    /// Names the content file of an item, and how much of the item it holds.
    func setContent(
        of id: ItemID,
        generation: Int64,
        residency: Residency,
        localBytes: Int64 = 0
    ) throws {
        try execute(
            """
            UPDATE item SET generation = ?1, residency = ?2, local_bytes = ?3,
                lost_size = iif(?2 = 1, lost_size, NULL) WHERE id = ?4
            """,
            [generation, residency.rawValue, localBytes, id.rawValue]
        )
        if residency != .partial {
            try execute("DELETE FROM range WHERE item = ?", [id.rawValue])
        }
        if residency == .resident {
            try execute("UPDATE item SET is_wanted = 0 WHERE id = ?", [id.rawValue])
        }
    }

    /// Stores which ranges of a partial file are here, after they were flushed.
    func setRanges(_ ranges: [Range<Int64>], of id: ItemID, localBytes: Int64) throws {
        try execute("DELETE FROM range WHERE item = ?", [id.rawValue])
        for range in ranges {
            try execute(
                "INSERT INTO range (item, lower, upper) VALUES (?, ?, ?)",
                [id.rawValue, range.lowerBound, range.upperBound]
            )
        }
        try execute(
            "UPDATE item SET residency = 1, local_bytes = ? WHERE id = ? AND generation <> 0",
            [localBytes, id.rawValue]
        )
    }

    /// Stores that ranges of a partial file were changed here, so that nothing is fetched there.
    ///
    /// - Parameter written: When programs wrote their bytes, which are to be flushed; `nil` where
    ///   the disk has them as they are to be, if it has this.
    func addRanges(_ ranges: [Range<Int64>], of id: ItemID, written: Timestamp?) throws {
        // The sweeper flushes them in time, and need not hear of each.
        if written != nil, try !reader.hasUnflushedRanges(of: id) { outcome.hasLeftovers = true }
        for range in ranges {
            try execute(
                """
                INSERT INTO range (item, lower, upper, written) VALUES (?, ?, ?, ?)
                ON CONFLICT (item, lower) DO UPDATE SET upper = max(upper, excluded.upper),
                    written = coalesce(written, excluded.written)
                """,
                [id.rawValue, range.lowerBound, range.upperBound, written?.nanoseconds]
            )
        }
    }

    /// Has everything fetched anew that a power failure may have left as zeros.
    func forgetUnflushedRanges() throws {
        try execute("DELETE FROM range WHERE written IS NOT NULL")
    }

    /// Makes a file with content a placeholder again; the content file is unlinked later.
    func dropContent(of record: ItemRecord) throws {
        try releasePrevious(of: record.id)
        try discard(record)
        try execute(
            """
            UPDATE item SET generation = 0, residency = 0, cleanliness = 0, local_bytes = 0,
                lost_size = NULL WHERE id = ?
            """,
            [record.id.rawValue]
        )
        try execute("DELETE FROM range WHERE item = ?", [record.id.rawValue])
    }

    func didUnlink(_ name: ContentName) throws {
        try execute(
            "DELETE FROM discard WHERE item = ? AND generation = ?",
            [name.item.rawValue, name.generation]
        )
    }

    func setWanted(_ isWanted: Bool, of id: ItemID) throws {
        if isWanted { outcome.hasWanted = true }
        try execute(
            "UPDATE item SET is_wanted = ? WHERE id = ?",
            [isWanted, id.rawValue]
        )
    }

    /// Asks for a file, unless all of it is here.
    func want(_ id: ItemID) throws {
        try execute(
            """
            UPDATE item SET is_wanted = 1
            WHERE id = ? AND kind = 1 AND residency <> 2 AND size > 0
            """,
            [id.rawValue]
        )
        if database.changesCount > 0 { outcome.hasWanted = true }
    }

    /// Queues what was changed at or below an item while it was excluded.
    func enqueueChangedBelow(_ id: ItemID, notBefore: Timestamp) throws {
        for below in try reader.descendants(of: id) {
            guard let record = try reader.item(below), below != .root else { continue }
            guard record.item.package == nil else { continue }
            let isNew = try reader.base(of: below) == nil && record.item.kind.isSynced
            if isNew || record.hasChangedContent || record.hasChangedMetadata {
                try enqueue(below, notBefore: notBefore)
            }
        }
        try lookAgainAtHeld()
        try lookAgainAtAllRefused()
    }

    func setLastUsed(_ moment: Timestamp, accessed: Timestamp?, of id: ItemID) throws {
        try execute(
            """
            UPDATE item SET last_used = ?, accessed = max(accessed, coalesce(?, accessed))
            WHERE id = ?
            """,
            [moment.nanoseconds, accessed?.nanoseconds, id.rawValue]
        )
    }

    /// Notes that a document was opened on another device.
    ///
    /// - Returns: Whether that was later than what is known.
    func takeOver(_ use: RecentUse) throws -> Bool {
        try execute(
            "UPDATE item SET opened = ?1 WHERE document = ?2 AND coalesce(opened, 0) < ?1",
            [use.opened.nanoseconds, use.document.blob.asBlob]
        )
        return database.changesCount > 0
    }

    /// Notes when a person's program opened an item last.
    func setOpened(_ moment: Timestamp, of id: ItemID) throws {
        try execute(
            "UPDATE item SET opened = ? WHERE id = ?",
            [moment.nanoseconds, id.rawValue]
        )
    }
}
