import GRDB

/// Which attributes were changed here and not sent yet, and what they were before: so that a change
/// made elsewhere meanwhile loses nothing, and neither does ours.
extension CatalogWriter {
    /// Notes what an attribute is, before it is changed here.
    func noteEditing(_ name: String, of id: ItemID) throws {
        try execute(
            """
            INSERT OR IGNORE INTO base_attribute (item, name, value)
            VALUES (?1, ?2, (SELECT value FROM attribute WHERE item = ?1 AND name = ?2))
            """,
            [id.rawValue, name]
        )
    }

    /// Notes that the cloud has none of an item's attributes: it is made anew.
    func markAllAttributesEdited(_ id: ItemID) throws {
        try execute(
            """
            INSERT OR REPLACE INTO base_attribute (item, name, value)
            SELECT item, name, NULL FROM attribute WHERE item = ?
            """,
            [id.rawValue]
        )
        try setMetadataChanged(id, .all)
    }

    /// Notes that the cloud has the attributes as they were when a request was made of them.
    func noteSent(_ attributes: [String: [UInt8]], of id: ItemID) throws {
        guard try reader.existing(id).hasChangedMetadata else {
            return try execute("DELETE FROM base_attribute WHERE item = ?", [id.rawValue])
        }
        for name in try reader.editedAttributes(of: id).keys {
            try setEdited(name, of: id, base: attributes[name])
        }
    }

    /// Takes over what the cloud says of attributes, except of those that were changed here.
    ///
    /// A listing may not tell them: what it leaves out is looked at later. Nor does a cloud where
    /// they may not be read.
    ///
    /// Tags that both sides changed are merged; of anything else ours is sent.
    /// - Returns: Whether anything changed here.
    func mergeAttributes(of item: RemoteItem, for id: ItemID) throws -> Bool {
        guard !item.isSketch, item.areAttributesKnown else { return false }
        let remote = item.attributes
        let edited = try reader.editedAttributes(of: id)
        let ours = try reader.attributes(of: id)
        var merged = remote
        for (name, base) in edited {
            let (own, theirs) = (ours[name], remote[name])
            merged[name] = own
            if name == TagList.attribute, theirs != base {
                let tags = TagList.merged(
                    base: TagList(attribute: base ?? []),
                    ours: TagList(attribute: own ?? []),
                    theirs: TagList(attribute: theirs ?? [])
                )
                merged[name] = tags.names.isEmpty ? nil : tags.bytes
            }
            try setEdited(name, of: id, base: theirs)
        }
        guard merged != ours else { return false }
        try replaceAttributes(with: merged, of: id)
        return true
    }

    /// Notes what the cloud has of an attribute that was changed here.
    func setEdited(_ name: String, of id: ItemID, base: [UInt8]?) throws {
        try execute(
            "UPDATE base_attribute SET value = ? WHERE item = ? AND name = ?",
            [base?.asBlob, id.rawValue, name]
        )
    }

    /// Hands on to the next version of a document what a person noted of it, where programs that
    /// save a file anew do not see it.
    func passNotes(from old: ItemID, to heir: ItemID) throws {
        let favorite = RemoteAttribute.favorite
        let value = try reader.attribute(favorite, of: old)
        if let base = try reader.editedAttributes(of: old)[favorite] {
            // Not sent yet, or the news of another change would undo it.
            try noteEditing(favorite, of: heir)
            try setEdited(favorite, of: heir, base: base)
            try setMetadataChanged(heir, [])
            if value == nil { try removeAttribute(favorite, of: heir) }
        }
        if let value {
            try setAttribute(favorite, to: value, of: heir)
            try removeAttribute(favorite, of: old)
        }
        try execute(
            """
            UPDATE item SET opened = max(coalesce(opened, 0), (
                SELECT opened FROM item WHERE id = ?1))
            WHERE id = ?2 AND EXISTS (SELECT 1 FROM item WHERE id = ?1 AND opened IS NOT NULL)
            """,
            [old.rawValue, heir.rawValue]
        )
    }
}

extension CatalogReader {
    /// The attributes that were changed here and not sent yet, with what the cloud has.
    func editedAttributes(of id: ItemID) throws -> [String: [UInt8]?] {
        let edited = try DatabaseRow.all(
            compiled("SELECT name, value FROM base_attribute WHERE item = ?"),
            arguments: [id.rawValue]
        ) { ($0[0] as String, $0.blob(1)) }
        return Dictionary(edited) { first, _ in first }
    }
}
