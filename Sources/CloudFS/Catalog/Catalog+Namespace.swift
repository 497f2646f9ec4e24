import GRDB

/// What a new item is made from.
struct NewItem: Sendable {
    var container: ContainerID
    var kind: ItemKind
    var metadata: ItemMetadata
    /// `nil` for a new one.
    var documentID: DocumentID?
    var size: Int64 = 0
    var linkTarget: [UInt8]?
    /// The content file that was made for it; 0 for none.
    var generation: Int64 = 0
    var residency: Residency = .placeholder
    var cleanliness: Cleanliness = .clean
    var attributes: [String: [UInt8]] = [:]
    /// For a folder: whether nothing but what is here can be in it.
    var isListed = false
    var isPackage = false
    /// The package that it is in.
    var package: ItemID?
}

// MARK: - Names

extension CatalogWriter {
    /// Adds an item under a free name.
    func insert(
        _ new: NewItem,
        name: [UInt8],
        in parent: ItemID,
        at now: Timestamp
    ) throws -> ItemRecord {
        let id = try insertItem(new, at: now)
        try addName(name, in: parent, to: id)
        return try reader.existing(id)
    }

    /// Adds an item that has no name yet.
    func insertItem(_ new: NewItem, at now: Timestamp) throws -> ItemID {
        try execute(
            """
            INSERT INTO item (container, document, kind, permissions, user_id, group_id, size,
                modified, changed, accessed, link_target, residency, cleanliness, generation,
                last_used, is_listed, is_package, package)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
            """,
            [
                new.container.rawValue, (new.documentID ?? .random()).blob.asBlob,
                new.kind.rawValue,
                new.metadata.permissions, new.metadata.userID, new.metadata.groupID, new.size,
                new.metadata.modified.nanoseconds, now.nanoseconds,
                new.metadata.modified.nanoseconds, new.linkTarget?.asBlob,
                new.residency.rawValue, new.cleanliness.rawValue, new.generation,
                now.nanoseconds, new.isListed, new.isPackage, new.package?.rawValue,
            ]
        )
        let id = ItemID(database.lastInsertedRowID)
        for (name, value) in new.attributes { try setAttribute(name, to: value, of: id) }
        return id
    }

    func addName(_ name: [UInt8], in parent: ItemID, to id: ItemID) throws {
        try execute(
            "INSERT INTO name (parent, name, item) VALUES (?, ?, ?)",
            [parent.rawValue, name.asBlob, id.rawValue]
        )
    }

    func removeName(of id: ItemID) throws {
        try noteTakenName(of: id)
        try execute("DELETE FROM name WHERE item = ?", [id.rawValue])
    }

    /// Notes that an item loses its name, where that is news.
    private func noteTakenName(of id: ItemID) throws {
        guard notesNames, let old = try reader.name(of: id) else { return }
        outcome.takenNames.append(NamePlace(parent: old.parent, name: old.name))
    }

    /// Gives the item a new name row: rows are numbered in the order in which names came to be.
    func moveName(of id: ItemID, to name: [UInt8], in parent: ItemID) throws {
        let old = try reader.name(of: id)?.parent
        try removeName(of: id)
        try addName(name, in: parent, to: id)
        try wantIfPinned(id, from: old, in: parent)
    }

    /// Gives the item the name row of another one, which has none then.
    ///
    /// The name stays where it is in directory streams, which show it once.
    private func takeName(of victim: ItemID, for id: ItemID) throws {
        let old = try reader.name(of: id)?.parent
        try removeName(of: id)
        try noteTakenName(of: victim)
        try execute(
            "UPDATE name SET item = ? WHERE item = ?",
            [id.rawValue, victim.rawValue]
        )
        guard let parent = try reader.name(of: id)?.parent else { return }
        try wantIfPinned(id, from: old, in: parent)
    }

    /// Sets the times of a folder whose names changed.
    ///
    /// - Parameter request: Which request of the kernel changed them. One is enough to remember:
    ///   the kernel holds the folder's lock until it is answered.
    func touchFolder(_ id: ItemID, at now: Timestamp, by request: RequestStamp? = nil) throws {
        try execute(
            """
            UPDATE item SET modified = ?, changed = ?, request = coalesce(?, request)
            WHERE id = ?
            """,
            [now.nanoseconds, now.nanoseconds, request?.mark, id.rawValue]
        )
    }

    /// Notes that an item changed, other than in its content.
    ///
    /// Also where the clock was set back it is later than before: what is sent is compared with it.
    ///
    /// - Parameter request: Which request of the kernel changed its attributes; the kernel holds
    ///   the item's lock until it is answered.
    func touch(_ id: ItemID, at now: Timestamp, by request: RequestStamp? = nil) throws {
        try execute(
            """
            UPDATE item SET changed = max(changed + (changed > ?1), ?1),
                request = coalesce(?2, request) WHERE id = ?3
            """,
            [now.nanoseconds, request?.mark, id.rawValue]
        )
    }
}

// MARK: - Changes made on this machine

extension CatalogWriter {
    /// Takes the item's name away: `unlink` and `rmdir`, after all checks.
    ///
    /// If another item took the place that the cloud knows this one under, it is the same document
    /// saved anew: it inherits identity and base.
    func unlink(
        _ id: ItemID,
        at now: Timestamp,
        notBefore: Timestamp,
        by request: RequestStamp? = nil
    ) throws {
        guard let name = try reader.name(of: id) else { return }
        try removeName(of: id)
        try touchFolder(name.parent, at: now, by: request)
        try touch(id, at: now)
        try noteTreeChange(around: id, notBefore: notBefore)
        let successor = try reader.base(of: id).flatMap { try reader.successor(of: $0) }
        let heir = try didLoseName(id, notBefore: notBefore)
        guard let saved = heir ?? successor else { return }
        try keepPrevious(try reader.existing(id), for: saved, at: now)
    }

    /// Moves a name onto a free name or over an item that may be replaced, after all checks.
    ///
    /// - Parameter settleTime: As of `inheritBase`.
    /// - Returns: Whose identity and base it has now, if it is the next version of a document.
    func rename(
        _ id: ItemID,
        to name: [UInt8],
        in parent: ItemID,
        replacing victim: ItemID?,
        at now: Timestamp,
        notBefore: Timestamp,
        by request: RequestStamp? = nil,
        settleTime: SettleTime
    ) throws -> ItemID? {
        let old = try reader.name(of: id)
        if let victim {
            try keepPrevious(try reader.existing(victim), for: id, at: now)
            try takeName(of: victim, for: id)
            try touch(victim, at: now)
        } else {
            try moveName(of: id, to: name, in: parent)
        }
        try touch(id, at: now)
        if let old { try touchFolder(old.parent, at: now, by: request) }
        if old?.parent != parent { try touchFolder(parent, at: now, by: request) }
        try noteTreeChange(around: id, notBefore: notBefore)
        if let victim { _ = try didLoseName(victim, notBefore: notBefore) }
        let ancestor = try inheritBase(
            id,
            name: name,
            in: parent,
            notBefore: notBefore,
            settleTime: settleTime
        )
        try enqueue(id, notBefore: notBefore)
        return ancestor
    }

    /// Swaps the names of two items.
    func exchange(
        _ first: ItemID,
        _ second: ItemID,
        at now: Timestamp,
        notBefore: Timestamp,
        by request: RequestStamp? = nil
    ) throws {
        guard let firstName = try reader.name(of: first),
            let secondName = try reader.name(of: second)
        else { throw CloudFSError(.notFound, "an item to be exchanged has no name") }
        try noteTakenName(of: first)
        try noteTakenName(of: second)
        try execute(
            "UPDATE name SET item = CASE item WHEN ?1 THEN ?2 ELSE ?1 END WHERE item IN (?1, ?2)",
            [first.rawValue, second.rawValue]
        )
        try wantIfPinned(first, from: firstName.parent, in: secondName.parent)
        try wantIfPinned(second, from: secondName.parent, in: firstName.parent)
        for id in [first, second] {
            try touch(id, at: now)
            try enqueue(id, notBefore: notBefore)
        }
        for folder in Set([firstName.parent, secondName.parent]) {
            try touchFolder(folder, at: now, by: request)
        }
    }

    func setDocument(_ document: DocumentID, of id: ItemID) throws {
        try execute(
            "UPDATE item SET document = ? WHERE id = ?",
            [document.blob.asBlob, id.rawValue]
        )
    }

    func setPolicy(_ policy: ContentPolicy, of id: ItemID) throws {
        try execute(
            "UPDATE item SET policy = ? WHERE id = ?",
            [policy.rawValue, id.rawValue]
        )
    }

    /// Removes an item that has neither name nor base, with all that belongs to it.
    ///
    /// Its content file is unlinked later, when this is durable.
    func erase(_ id: ItemID) throws {
        guard let record = try reader.item(id) else { return }
        try releasePrevious(of: id)
        try discard(record)
        if record.item.isPackage {
            for member in try reader.members(of: id) { try removeName(of: member) }
        }
        try execute("DELETE FROM base WHERE item = ?", [id.rawValue])
        try execute("DELETE FROM item WHERE id = ?", [id.rawValue])
    }

    /// Erases an item that has neither name nor base, and that the cloud cannot have got unheard.
    ///
    /// - Returns: Whether it was one.
    func eraseIfForgotten(_ id: ItemID) throws -> Bool {
        guard id != .root, try reader.name(of: id) == nil, try reader.base(of: id) == nil,
            try reader.sent(of: id) == nil
        else { return false }
        try erase(id)
        return true
    }

    /// Changes mode, owner or times; what is `nil` stays.
    func setMetadata(
        of id: ItemID,
        permissions: UInt16? = nil,
        userID: UInt32? = nil,
        groupID: UInt32? = nil,
        modified: Timestamp? = nil,
        accessed: Timestamp? = nil,
        at now: Timestamp
    ) throws {
        try execute(
            """
            UPDATE item SET permissions = coalesce(?, permissions), user_id = coalesce(?, user_id),
                group_id = coalesce(?, group_id), modified = coalesce(?, modified),
                accessed = coalesce(?, accessed), changed = max(changed + (changed > ?), ?)
            WHERE id = ?
            """,
            [
                permissions, userID, groupID, modified?.nanoseconds, accessed?.nanoseconds,
                now.nanoseconds, now.nanoseconds, id.rawValue,
            ]
        )
    }

    /// Notes that mode, times or attributes are newer than the base, and queues them.
    ///
    /// - Parameter fields: What was set beside attributes.
    func markMetadataChanged(
        _ id: ItemID,
        _ fields: UnsentFields,
        notBefore: Timestamp
    ) throws {
        try setMetadataChanged(id, fields)
        try enqueue(id, notBefore: notBefore)
    }

    /// The same of an item that is being sent: its row keeps its time and its failures.
    func setMetadataChanged(_ id: ItemID, _ fields: UnsentFields) throws {
        try execute(
            """
            UPDATE item SET metadata_changed = 1, unsent_fields = unsent_fields | ? WHERE id = ?
            """,
            [fields.rawValue, id.rawValue]
        )
    }
}
