import GRDB

/// What other tables say about one item, read in one go.
struct ItemSurroundings: Sendable {
    /// Its name as bytes; `nil` for the root and for what was unlinked.
    var name: [UInt8]?
    /// Whether it waits to be sent, and whether that is held back; `nil` if it does not wait.
    var isHeld: Bool?
    /// What the last attempt to send it failed with.
    var error: String?
    var baseVersion: ItemVersion?
    var hasNewer: Bool
    /// Whether it is a conflict version, or has some.
    var hasConflicts: Bool
    var isFavorite: Bool
    /// When a person's program opened it last.
    var opened: Timestamp?
}

extension CatalogReader {
    func surroundings(of id: ItemID) throws -> ItemSurroundings {
        let found = try DatabaseRow.first(
            compiled(
                """
                SELECT (SELECT name FROM name WHERE name.item = item.id LIMIT 1),
                    outbox.is_held, outbox.error_message,
                    base.content_version, base.metadata_version,
                    EXISTS (SELECT 1 FROM newer WHERE newer.item = item.id),
                    EXISTS (SELECT 1 FROM name WHERE \(Self.isMarked)),
                    EXISTS (SELECT 1 FROM attribute WHERE attribute.item = item.id
                        AND attribute.name = '\(RemoteAttribute.favorite)'
                        AND attribute.value = x'31'),
                    item.opened
                FROM item LEFT JOIN outbox ON outbox.item = item.id
                    LEFT JOIN base ON base.item = item.id
                WHERE item.id = ?
                """
            ),
            arguments: [id.rawValue]
        ) { row in
            ItemSurroundings(
                name: row.blob(0),
                isHeld: row[1],
                error: row[2],
                baseVersion: (row[3] as String?).map { ItemVersion(content: $0, metadata: row[4]) },
                hasNewer: row[5],
                // Nearly always there is no such name in the whole drive.
                hasConflicts: row[6] ? try isInConflict(id) : false,
                isFavorite: row[7],
                opened: (row[8] as Int64?).map { Timestamp(nanoseconds: $0) }
            )
        }
        guard let found else { throw CloudFSError(.notFound, "the item is gone", item: id) }
        return found
    }
}
