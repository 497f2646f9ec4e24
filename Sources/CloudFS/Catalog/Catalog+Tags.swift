import GRDB

/// Tags, which are an attribute of items, as names under which items are found.
///
/// - Invariant: `item_tag` says what the items' attributes say.
extension CatalogReader {
    /// At most `limit` tags that items have, in the order in which they were first given.
    func tags(after position: Int64, limit: Int) throws -> [(id: Int64, name: String)] {
        try DatabaseRow.all(
            compiled(
                "SELECT id, name FROM tag WHERE id > ? ORDER BY id LIMIT ?"
            ),
            arguments: [position, limit]
        ) { ($0[0], $0[1]) }
    }

    func tags(of id: ItemID) throws -> Set<String> {
        try String.fetchSet(
            compiled(
                "SELECT name FROM tag JOIN item_tag ON item_tag.tag = tag.id WHERE item = ?"
            ),
            arguments: [id.rawValue]
        )
    }

    func tag(_ id: Int64) throws -> String? {
        try DatabaseRow.value(
            compiled("SELECT name FROM tag WHERE id = ?"),
            arguments: [id]
        )
    }

    func tag(named name: String) throws -> Int64? {
        try Int64.fetchOne(
            compiled("SELECT id FROM tag WHERE name = ?"),
            arguments: [name]
        )
    }
}

extension CatalogWriter {
    /// Brings the index of tags up to date with an attribute that was stored or removed.
    func indexTags(of id: ItemID, _ attribute: String, _ value: [UInt8]?) throws {
        guard attribute == TagList.attribute else { return }
        let new = Set(value.map { TagList(attribute: $0).names } ?? [])
        let old = try reader.tags(of: id)
        // A tag that nobody has any more is forgotten, and would come back as another.
        for name in old.subtracting(new) {
            try execute(
                """
                DELETE FROM item_tag
                WHERE item = ? AND tag = (SELECT id FROM tag WHERE name = ?)
                """,
                [id.rawValue, name]
            )
        }
        for name in new.subtracting(old).sorted() {
            try execute("INSERT INTO tag (name) VALUES (?) ON CONFLICT DO NOTHING", [name])
            try execute(
                "INSERT INTO item_tag (tag, item) SELECT id, ? FROM tag WHERE name = ?",
                [id.rawValue, name]
            )
        }
    }

    /// Fills the index of a catalog that had none.
    func indexTags() throws {
        let lists = try DatabaseRow.all(
            database.makeStatement(sql: "SELECT item, value FROM attribute WHERE name = ?"),
            arguments: [TagList.attribute]
        ) { (ItemID($0[0]), $0.bytes(1)) }
        for (id, list) in lists { try indexTags(of: id, TagList.attribute, list) }
    }
}
