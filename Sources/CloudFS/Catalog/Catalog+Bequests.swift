import GRDB

/// What was written on items here and not sent while the cloud had them: attributes, mode and time.
///
/// Where nothing but its place tells what an item is, one that another device moves shows as one
/// that is gone and one that is new, in any order. If the new one is found first, it is noted as
/// the likely *heir* of the other, for a day. If the other is gone first, it leaves a *bequest*,
/// for a week.
///
/// Both are known by the document's identity; only what has none, or of which it is not known yet,
/// by its bytes.
enum Bequests {
    /// How many wait for an heir at most; the oldest go first.
    static let mostWaiting = 100_000
    /// How many of the oldest are looked at whenever one is added: more than that, so that they
    /// get fewer.
    static let mostDropped = 8
    /// How many items with something to send may be found again by their bytes.
    static let mostUnsent = 1_000
    static let lifetime = Duration.seconds(7 * 86_400)
    static let lifetimeOfHeirs = Duration.seconds(86_400)
}

/// Files with something to send that may turn up in another place, by their bytes: for one page of
/// a listing.
struct UnsentFiles: Sendable {
    fileprivate struct File {
        var item: ItemID
        var name: [UInt8]
        /// Whether its identity is not known.
        var isSketch: Bool
    }

    fileprivate var byContent: [String: [File]] = [:]
    /// Whether the same bytes tell what an item was where no identity does.
    fileprivate let byBytes: Bool
    /// Whether there are bequests.
    fileprivate(set) var hasBequests = false

    /// What a file of the cloud that was not known in its place may have been before.
    fileprivate func file(like remote: RemoteItem, before id: ItemID) -> ItemID? {
        guard remote.kind == .file else { return nil }
        let all = byContent[remote.version.content, default: []].filter { file in
            // What was known before it is a duplicate of it.
            file.item < id && (!remote.isIdentified || file.isSketch)
        }
        let namesake = all.last { $0.name == remote.name.bytes }
        // All empty files have the same bytes, and a sketch may be one of many copies.
        let mayBeRenamed = remote.size > 0 && !remote.isSketch
        return (namesake ?? (mayBeRenamed ? all.last : nil))?.item
    }
}

extension CatalogReader {
    /// - Parameter byBytes: Whether the same bytes tell what an item was where no identity does.
    func unsentFiles(byBytes: Bool) throws -> UnsentFiles {
        var files = UnsentFiles(byBytes: byBytes, hasBequests: try hasBequests())
        guard byBytes else { return files }
        // As an argument, the kind would have SQLite compile this each time: there are indexes for
        // some kinds only.
        let statement = try compiled(
            """
            SELECT item.id, base.content_version, base.name, base.metadata_version
            FROM item JOIN base ON base.item = item.id JOIN name ON name.item = item.id
            WHERE item.metadata_changed = 1 AND item.kind = \(ItemKind.file.rawValue)
            ORDER BY item.id DESC LIMIT ?
            """
        )
        try DatabaseRow.forEach(statement, arguments: [Bequests.mostUnsent]) { row in
            let version = ItemVersion(content: row[1], metadata: row[3])
            files.byContent[version.content, default: []].append(
                UnsentFiles.File(
                    item: ItemID(row[0]),
                    name: row.bytes(2),
                    isSketch: version.isSketch
                )
            )
            return true
        }
        return files
    }

    private func hasBequests() throws -> Bool {
        try DatabaseRow.value(
            compiled("SELECT EXISTS (SELECT 1 FROM bequest)")
        ) ?? false
    }

    /// What an item of the cloud may have left in another place.
    ///
    /// - Parameter byBytes: Whether the same bytes tell it where no identity does.
    fileprivate func bequest(
        to remote: RemoteItem,
        as id: ItemID,
        byBytes: Bool,
        since oldest: Timestamp
    ) throws -> Bequest? {
        if remote.isIdentified {
            let found = try bequest(
                "document = ?1",
                [remote.documentID.blob.asBlob, remote.kind.rawValue, oldest.nanoseconds]
            )
            if let found { return found }
        }
        guard byBytes, remote.kind == .file else { return nil }
        return try bequest(
            """
            content_version = ?1 AND item < ?7 AND (is_sketch = 1 OR ?4)
                AND (name = ?5 OR (size > 0 AND ?6))
            """,
            [
                remote.version.content, remote.kind.rawValue, oldest.nanoseconds,
                !remote.isIdentified, remote.name.bytes.asBlob, !remote.isSketch, id.rawValue,
            ],
            "name = ?5 DESC, id"
        )
    }

    fileprivate func bequest(_ id: Int64) throws -> Bequest? {
        try bequest("id = ?1", [id, Int64?.none, Int64.min])
    }

    private func bequest(
        _ condition: String,
        _ arguments: [any StatementBinding],
        _ order: String = "id"
    ) throws -> Bequest? {
        try DatabaseRow.first(
            compiled(
                """
                SELECT id, kind, document, permissions, modified, content_version, size,
                    base_modified FROM bequest
                WHERE \(condition) AND (?2 IS NULL OR kind = ?2) AND since >= ?3
                ORDER BY \(order) LIMIT 1
                """
            ),
            arguments: arguments
        ) { try Bequest(row: $0) }
    }

    /// The document that an item is in the cloud: here another item may be known by its identity.
    func remoteDocument(of record: ItemRecord, at now: Timestamp) throws -> DocumentID {
        let oldest = now + (.zero - Bequests.lifetimeOfHeirs)
        let other = try DatabaseRow.first(
            compiled(
                """
                SELECT document FROM heir
                WHERE item = ? AND since >= ? AND document IS NOT NULL
                """
            ),
            arguments: [record.id.rawValue, oldest.nanoseconds]
        ) { $0.bytes(0) }
        return other.flatMap { DocumentID(blob: $0) } ?? record.item.documentID
    }

    /// Who may be an item that is not where it was, and whether the document's identity says so.
    fileprivate func heir(
        of id: ItemID,
        _ document: DocumentID,
        _ known: BaseRecord,
        since oldest: Timestamp
    ) throws -> (id: ItemID, isDocument: Bool)? {
        try DatabaseRow.first(
            compiled(
                """
                SELECT base.item, is_document FROM (
                    SELECT item, 1 AS is_document FROM heir WHERE document = ?2 AND since >= ?3
                    UNION SELECT id, 1 FROM item WHERE document = ?2 AND id > ?1
                    UNION SELECT item, 0 FROM heir WHERE original = ?1 AND since >= ?3
                ) AS found JOIN base ON base.item = found.item
                WHERE base.item <> ?1 AND (is_document = 1 OR content_version = ?4)
                ORDER BY is_document DESC, base.item DESC LIMIT 1
                """
            ),
            arguments: [
                id.rawValue, document.blob.asBlob, oldest.nanoseconds, known.version.content,
            ]
        ) { ($0[0] as Int64, $0[1] as Bool) }.map { (ItemID($0.0), $0.1) }
    }
}

/// What one item has left, beside attributes.
private struct Bequest {
    var id: Int64
    var kind: ItemKind
    var document: DocumentID
    var permissions: UInt16
    var modified: Timestamp
    var contentVersion: String
    var size: Int64
    var baseModified: Timestamp

    init(row: DatabaseRow) throws {
        guard let kind = ItemKind(rawValue: row[1]), let document = DocumentID(blob: row.bytes(2))
        else { throw CloudFSError(.corrupt, "what an item has left is damaged") }
        id = row[0]
        self.kind = kind
        self.document = document
        permissions = row[3]
        modified = Timestamp(nanoseconds: row[4])
        contentVersion = row[5]
        size = row[6]
        baseModified = Timestamp(nanoseconds: row[7])
    }

    /// Whether an item in the cloud has the same bytes, as far as that tells.
    func isSame(as base: BaseRecord) -> Bool {
        guard kind != .folder else { return false }
        return base.version.content == contentVersion
            || (!base.version.isSketch && base.size == size && base.modified == baseModified)
    }
}

extension CatalogWriter {
    /// Notes that an item of the cloud has the identity of a document that is known in another
    /// place: of two, or of one that moves.
    func noteHeir(_ id: ItemID, of document: DocumentID, at now: Timestamp) throws {
        try execute(
            "INSERT OR REPLACE INTO heir (item, document, since) VALUES (?, ?, ?)",
            [id.rawValue, document.blob.asBlob, now.nanoseconds]
        )
    }

    /// Notes that an item of the cloud has the bytes of one that is known in another place, unless
    /// its identity says more.
    private func noteHeir(_ id: ItemID, ofBytesOf original: ItemID, at now: Timestamp) throws {
        try execute(
            """
            INSERT INTO heir (item, original, since) VALUES (?, ?, ?)
            ON CONFLICT (item) DO UPDATE SET original = excluded.original, since = excluded.since
            WHERE heir.document IS NULL
            """,
            [id.rawValue, original.rawValue, now.nanoseconds]
        )
    }

    /// Notes that an item has another one's place, and is what that was taken for.
    func passHeir(from old: ItemID, to new: ItemID) throws {
        try execute(
            "UPDATE OR REPLACE heir SET item = ? WHERE item = ?",
            [new.rawValue, old.rawValue]
        )
    }

    /// Notes that an item is not what it was taken for.
    func forgetHeir(_ id: ItemID) throws {
        try execute("DELETE FROM heir WHERE item = ?", [id.rawValue])
    }

    /// Hands to an item of the cloud what was written on what it may have been before.
    ///
    /// - Parameter unsent: What there is.
    /// - Returns: Whether anything is shown that was not before.
    func inherit(
        _ remote: RemoteItem,
        as id: ItemID,
        from unsent: UnsentFiles,
        at now: Timestamp
    ) throws -> Bool {
        let oldest = now + (.zero - Bequests.lifetime)
        if unsent.hasBequests,
            let bequest = try reader.bequest(
                to: remote,
                as: id,
                byBytes: unsent.byBytes,
                since: oldest
            )
        {
            let isDocument = remote.isIdentified && bequest.document == remote.documentID
            return try take(bequest, for: id, isDocument: isDocument, at: now)
        }
        if unsent.byBytes, let original = unsent.file(like: remote, before: id) {
            try noteHeir(id, ofBytesOf: original, at: now)
        }
        return false
    }

    /// Hands on an item that the cloud does not have any more: its identity to the item that has it
    /// in another place, and what was written on it to whatever turns out to be it.
    ///
    /// - Parameter known: What was known of it.
    /// - Returns: Who has something of it already.
    func bequeath(
        _ record: ItemRecord,
        _ known: BaseRecord,
        at now: Timestamp
    ) throws -> ItemID? {
        let oldest = now + (.zero - Bequests.lifetimeOfHeirs)
        let document = try reader.remoteDocument(of: record, at: now)
        let found = try reader.heir(of: record.id, document, known, since: oldest)
        var heir: (id: ItemID, isDocument: Bool)?
        if let found, try reader.existing(found.id).item.kind == record.item.kind { heir = found }
        var hasHandedOn = false
        if let heir, heir.isDocument, record.item.documentID == document {
            // A program may have the one that is gone open still.
            try setDocument(.random(), of: record.id)
            try setDocument(document, of: heir.id)
            hasHandedOn = true
        }
        if record.hasChangedMetadata {
            let id = try keep(record, document, known, at: now)
            try dropOldBequests(at: now)
            if let heir, let bequest = try reader.bequest(id) {
                _ = try take(bequest, for: heir.id, isDocument: heir.isDocument, at: now)
                hasHandedOn = true
            }
        }
        return hasHandedOn ? heir?.id : nil
    }

    private func keep(
        _ record: ItemRecord,
        _ document: DocumentID,
        _ known: BaseRecord,
        at now: Timestamp
    ) throws -> Int64 {
        try execute(
            """
            INSERT INTO bequest (item, document, kind, name, content_version, size, permissions,
                modified, base_modified, is_sketch, since) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                record.id.rawValue, document.blob.asBlob, record.item.kind.rawValue,
                known.name.asBlob, known.version.content, known.size,
                record.item.metadata.permissions,
                record.item.metadata.modified.nanoseconds, known.modified.nanoseconds,
                known.version.isSketch, now.nanoseconds,
            ]
        )
        let id = database.lastInsertedRowID
        try execute(
            """
            INSERT INTO bequest_attribute (bequest, name, base, value)
            SELECT ?1, edited.name, edited.value, attribute.value FROM base_attribute AS edited
            LEFT JOIN attribute ON attribute.item = edited.item AND attribute.name = edited.name
            WHERE edited.item = ?2
            """,
            [id, record.id.rawValue]
        )
        return id
    }

    /// A few each time, of the oldest: many are kept, and each of many removals comes by here.
    private func dropOldBequests(at now: Timestamp) throws {
        try execute(
            """
            DELETE FROM bequest WHERE id IN (SELECT id FROM bequest ORDER BY id LIMIT ?)
                AND (since < ? OR id <= (SELECT max(id) FROM bequest) - ?)
            """,
            [
                Bequests.mostDropped, (now + (.zero - Bequests.lifetime)).nanoseconds,
                Bequests.mostWaiting,
            ]
        )
    }

    /// Writes on an item what was written on what it was before, as if that were done now.
    ///
    /// - Returns: Whether anything is shown that was not before.
    private func take(
        _ bequest: Bequest,
        for id: ItemID,
        isDocument: Bool,
        at now: Timestamp
    ) throws -> Bool {
        guard let base = try reader.base(of: id) else { return false }
        let record = try reader.existing(id)
        try takeAttributes(of: bequest, for: id, base)
        // What was written on it since is newer.
        if !record.hasChangedMetadata {
            try setMetadata(
                of: id,
                permissions: bequest.permissions,
                // The time of a file is that of its bytes, and a folder's is its own.
                modified: bequest.isSame(as: base) && !record.hasChangedContent
                    ? bequest.modified : nil,
                at: now
            )
        }
        if isDocument, try reader.holder(of: bequest.document) == nil {
            try setDocument(bequest.document, of: id)
        }
        try touch(id, at: now)
        try markMetadataChanged(id, [.permissions, .modified], notBefore: now)
        try execute("DELETE FROM bequest WHERE id = ?", [bequest.id])
        return true
    }

    /// Of tags, what either has added; of other attributes, those that were not written here since.
    private func takeAttributes(
        of bequest: Bequest,
        for id: ItemID,
        _ known: BaseRecord
    ) throws {
        let left = try DatabaseRow.all(
            reader.compiled(
                "SELECT name, base, value FROM bequest_attribute WHERE bequest = ?"
            ),
            arguments: [bequest.id]
        ) { (name: $0[0] as String, base: $0.blob(1), value: $0.blob(2)) }
        let edited = try reader.editedAttributes(of: id)
        for (name, base, value) in left {
            var value = value
            // A sketch does not tell what there is: that is merged when it is known.
            if name == TagList.attribute, !known.version.isSketch {
                let tags = TagList.merged(
                    base: TagList(attribute: base ?? []),
                    ours: TagList(attribute: value ?? []),
                    theirs: TagList(attribute: try reader.attribute(name, of: id) ?? [])
                )
                value = tags.names.isEmpty ? nil : tags.bytes
            } else if edited[name] != nil {
                continue
            }
            try noteEditing(name, of: id)
            if known.version.isSketch { try setEdited(name, of: id, base: base) }
            if let value {
                try setAttribute(name, to: value, of: id)
            } else {
                try removeAttribute(name, of: id)
            }
        }
    }
}
