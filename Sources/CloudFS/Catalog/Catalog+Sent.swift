import GRDB

/// A row of the table `sent`: a request that makes something in the cloud, and whose answer is not
/// stored yet.
///
/// It is noted before the request is sent and forgotten in the transaction that stores the answer.
/// One that is found later was never answered: the cloud is asked what became of it before anything
/// else is sent for the item.
struct SentRecord: Sendable, Equatable {
    var item: ItemID
    /// Where the item is in the cloud if the request was carried out.
    var parent: ItemID
    var name: [UInt8]
    /// Where it was before; `nil` for a new item.
    var baseParent: ItemID?
    var baseName: [UInt8]?
    var kind: Kind
    /// The document's identity, length and time that were sent: together they tell this request's
    /// outcome from anybody else's.
    var document: DocumentID
    var size: Int64
    var modified: Timestamp

    /// What the request does.
    enum Kind: Sendable {
        /// Makes the item, or gives it other bytes.
        case content
        /// Moves it there.
        case move
        /// Writes on it, and sends none of its bytes.
        case metadata
    }

    var isMove: Bool { kind == .move }

    static let columns = """
        sent.item, sent.parent, sent.name, sent.base_parent, sent.base_name, sent.is_move,
        sent.is_metadata, sent.document, sent.size, sent.modified
        """

    init(
        of item: ItemID,
        to parent: ItemID,
        _ name: [UInt8],
        from base: BaseRecord?,
        _ kind: Kind = .content,
        document: DocumentID,
        size: Int64 = 0,
        modified: Timestamp = Timestamp(nanoseconds: 0)
    ) {
        self.item = item
        self.parent = parent
        self.name = name
        baseParent = base?.parent
        baseName = base?.name
        self.kind = kind
        self.document = document
        self.size = size
        self.modified = modified
    }

    /// Whether the item had this place before the request.
    func isFrom(_ base: BaseRecord) -> Bool {
        base.parent == baseParent && base.name == baseName
    }

    init(row: DatabaseRow) throws {
        guard let document = DocumentID(blob: row.bytes(7)) else {
            throw CloudFSError(.corrupt, "a request in the catalog is damaged")
        }
        item = ItemID(row[0])
        parent = ItemID(row[1])
        name = row.bytes(2)
        baseParent = (row[3] as Int64?).map { ItemID($0) }
        baseName = row.blob(4)
        kind = row[5] ? .move : row[6] ? .metadata : .content
        self.document = document
        size = row[8]
        modified = Timestamp(nanoseconds: row[9])
    }
}

extension CatalogReader {
    /// The request for the item whose answer is not known.
    func sent(of id: ItemID) throws -> SentRecord? {
        try sent("item = ?", [id.rawValue])
    }

    /// A request whose answer is not known and that may have made something under a name.
    func sent(to name: [UInt8], in parent: ItemID) throws -> SentRecord? {
        try sent("parent = ? AND name = ?", [parent.rawValue, name.asBlob])
    }

    /// A request whose answer is not known and that may have made something in a folder.
    func sent(into parent: ItemID) throws -> SentRecord? {
        try sent("parent = ?", [parent.rawValue])
    }

    /// Requires that a request is to be sent still: since it was decided a listing may have told
    /// where the item is, or what else is in the place.
    ///
    /// - Throws: `notFound` or `cancelled`.
    func requireStill(_ sent: SentRecord) throws {
        guard try item(sent.item) != nil else {
            throw CloudFSError(.notFound, "it is gone since the decision", item: sent.item)
        }
        let base = try base(of: sent.item)
        guard base?.parent == sent.baseParent, base?.name == sent.baseName else {
            throw CloudFSError(.cancelled, "it is elsewhere since the decision", item: sent.item)
        }
        if sent.isMove, try hasUnheardMove(), try crossesMove(sent) {
            throw CloudFSError(
                .cancelled,
                "a move has begun that crosses this one since the decision",
                item: sent.item
            )
        }
        let others = [
            try self.base(named: sent.name, in: sent.parent)?.item,
            try self.sent(to: sent.name, in: sent.parent)?.item,
        ]
        guard others.allSatisfy({ $0 == nil || $0 == sent.item }) else {
            throw CloudFSError(
                .cancelled,
                "something else is in its place since the decision",
                item: sent.item
            )
        }
    }

    private func crossesMove(_ sent: SentRecord) throws -> Bool {
        for folder in [sent.parent, sent.baseParent].compactMap({ $0 }) {
            if try movingFolder(from: folder) != nil { return true }
        }
        return try unheardMove(across: sent.item) != nil
    }

    /// Whether something is being moved in the cloud, or was without an answer.
    func hasUnheardMove() throws -> Bool {
        try DatabaseRow.value(
            compiled("SELECT EXISTS (SELECT 1 FROM sent WHERE is_move)")
        ) ?? false
    }

    /// The nearest folder in the cloud, of `folder` and those above it, that may be elsewhere by
    /// now: what is not found where it was is not gone.
    func movingFolder(from folder: ItemID) throws -> ItemID? {
        var current: ItemID? = folder
        while let id = current, id != .root {
            if try sent(of: id)?.isMove == true { return id }
            current = try base(of: id)?.parent
        }
        return nil
    }

    /// A move that is under way, or was without an answer, from or to somewhere in a folder of the
    /// cloud.
    ///
    /// It goes on from path to path: were the folder to move first, half of it would stay behind.
    func unheardMove(across folder: ItemID) throws -> SentRecord? {
        try allSent().first { sent in
            guard sent.isMove, sent.item != folder else { return false }
            return try [sent.parent, sent.baseParent].compactMap { $0 }.contains { place in
                try remoteLineage(of: place)?.contains { $0.item == folder } ?? false
            }
        }
    }

    func allSent() throws -> [SentRecord] {
        try DatabaseRow.all(
            compiled("SELECT \(SentRecord.columns) FROM sent ORDER BY item")
        ) { try SentRecord(row: $0) }
    }

    /// Items whose last request was not answered and may be asked about.
    func unheard(readyAt now: Timestamp) throws -> [ItemID] {
        try Int64.fetchAll(
            compiled(
                """
                SELECT sent.item FROM sent JOIN outbox ON outbox.item = sent.item
                WHERE not_before <= ? ORDER BY not_before
                """
            ),
            arguments: [now.nanoseconds]
        ).map { ItemID($0) }
    }

    /// When the next of them may be asked about, but for some items; `nil` for never.
    func nextUnheard(apartFrom others: Set<ItemID>) throws -> Timestamp? {
        try DatabaseRow.all(
            compiled(
                """
                SELECT sent.item, not_before FROM sent JOIN outbox ON outbox.item = sent.item
                ORDER BY not_before LIMIT ?
                """
            ),
            arguments: [others.count + 1]
        ) { row in
            (item: ItemID(row[0]), notBefore: Timestamp(nanoseconds: row[1]))
        }
        .first { !others.contains($0.item) }?.notBefore
    }

    private func sent(
        _ condition: String,
        _ arguments: [any StatementBinding]
    ) throws -> SentRecord? {
        try DatabaseRow.first(
            compiled(
                "SELECT \(SentRecord.columns) FROM sent WHERE \(condition) LIMIT 1"
            ),
            arguments: arguments
        ) { try SentRecord(row: $0) }
    }
}

extension CatalogWriter {
    /// Notes a request that is about to be sent.
    func note(_ sent: SentRecord) throws {
        try execute(
            """
            INSERT OR REPLACE INTO sent (item, parent, name, base_parent, base_name, is_move,
                is_metadata, document, size, modified) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                sent.item.rawValue, sent.parent.rawValue, sent.name.asBlob,
                sent.baseParent?.rawValue, sent.baseName?.asBlob, sent.isMove,
                sent.kind == .metadata, sent.document.blob.asBlob, sent.size,
                sent.modified.nanoseconds,
            ]
        )
    }

    /// Has the request for an item be another one's, which has its place.
    func passSent(from old: ItemID, to heir: ItemID) throws {
        try execute(
            "UPDATE sent SET item = ? WHERE item = ?",
            [heir.rawValue, old.rawValue]
        )
    }

    /// Forgets the request for the item: its outcome is known.
    func forgetSent(of id: ItemID) throws {
        try execute("DELETE FROM sent WHERE item = ?", [id.rawValue])
    }
}
