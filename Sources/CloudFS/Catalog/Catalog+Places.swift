import GRDB

extension CatalogReader {
    /// What a file has replaced here, by a move that was not sent, if the cloud has the same
    /// version in both places.
    ///
    /// Where nothing but its place tells what a file is, both may be one, which another device
    /// moved, and of which only the new place is known here yet.
    ///
    /// - Returns: Where it is to be deleted.
    func replacedLookalike(of id: ItemID) throws -> BaseRecord? {
        guard let record = try item(id), record.item.kind == .file, !record.hasChangedContent,
            let own = try base(of: id), let name = try name(of: id),
            let other = try base(named: name.name, in: name.parent), other.item != id,
            own.version.content == other.version.content, own.size == other.size,
            try self.name(of: other.item) == nil, let replaced = try item(other.item),
            replaced.item.kind == .file, replaced.item.isPackage == record.item.isPackage,
            !own.isDisplaced, !other.isDisplaced, try newer(of: other.item) == nil,
            try sent(of: id) == nil, try sent(of: other.item) == nil,
            try [id, other.item].allSatisfy({ try effectivePolicy(of: $0) != .excluded })
        else { return nil }
        return other
    }

    /// The file that was saved in the place of a removed one, if the cloud has that elsewhere and
    /// new content of it is to be sent: until then the removed one is what there was before it.
    func successor(of removed: BaseRecord) throws -> ItemID? {
        guard let heir = try removed.parent.flatMap({ try child(removed.name, of: $0) }),
            heir.item.kind == .file, !heir.item.isPackage, heir.hasChangedContent,
            try base(of: heir.id) != nil,
            heir.item.content.residency == .resident || !heir.isBaseLost,
            try effectivePolicy(of: heir.id) != .excluded
        else { return nil }
        return heir.id
    }
}

extension CatalogReader {
    /// A free name for what had `name` until the cloud had something else there.
    func displacedName(for name: ItemName, of id: ItemID, in folder: ItemID) throws -> ItemName {
        var number = 0
        while true {
            let candidate = try DisplacedName.name(for: name, of: id, number: number)
            if try isFree(candidate, in: folder) { return candidate }
            number += 1
        }
    }

    /// Whether nothing has the name, neither here nor in the cloud.
    func isFree(_ name: ItemName, in folder: ItemID) throws -> Bool {
        try child(name.bytes, of: folder) == nil && base(named: name.bytes, in: folder) == nil
    }
}

/// Gives content the time of its item: after a crash it tells the time of what is not clean.
typealias SettleTime = (ItemRecord) throws -> Void

/// Who has a place in the cloud: what loses its name or its place here hands it on to what has it.
extension CatalogWriter {
    /// Decides what becomes of an item that has no name any more.
    ///
    /// - Returns: Who has its identity and base now.
    func didLoseName(_ id: ItemID, notBefore: Timestamp) throws -> ItemID? {
        let base = try reader.base(of: id)
        let heir = try base.flatMap { try passBase($0, of: id) }
        if base != nil, heir == nil {
            try enqueue(id, notBefore: notBefore)
        } else {
            try endSending(of: id, notBefore: notBefore)
        }
        return heir
    }

    /// Nothing is left to send for an item, unless the outcome of a request is not known yet.
    private func endSending(of id: ItemID, notBefore: Timestamp) throws {
        if try reader.sent(of: id) == nil {
            try dequeue(id)
        } else {
            try enqueue(id, notBefore: notBefore)
        }
    }

    /// Hands identity and base of an unlinked file to the new file in its place.
    ///
    /// Editors save by writing a new file and renaming it over, by exchanging and deleting, or by
    /// renaming the old one away, writing anew and deleting: all end here as one new version.
    /// - Returns: The new file, if there is one.
    private func passBase(_ base: BaseRecord, of id: ItemID) throws -> ItemID? {
        guard let parent = base.parent, let heir = try reader.child(base.name, of: parent),
            try passBase(base, to: heir)
        else { return nil }
        return heir.id
    }

    /// The other order: a new file comes to the place of one that was deleted, or that was kept
    /// as a backup of itself.
    ///
    /// - Parameter settleTime: Called with a backup that is to be sent, before it is marked.
    /// - Returns: Whose identity and base it has now. Without a name, that one is to be erased as
    ///   soon as nobody uses it.
    func inheritBase(
        _ id: ItemID,
        name: [UInt8],
        in parent: ItemID,
        notBefore: Timestamp,
        settleTime: SettleTime
    ) throws -> ItemID? {
        guard let base = try reader.base(named: name, in: parent), base.item != id else {
            return nil
        }
        let heir = try reader.existing(id)
        guard let old = try reader.name(of: base.item) else {
            guard try passBase(base, to: heir) else { return nil }
            try endSending(of: base.item, notBefore: notBefore)
            return base.item
        }
        // The backup is a new document, and needs bytes of its own for that.
        let backup = try reader.existing(base.item)
        guard old.parent == parent, old.name.count > name.count,
            old.name.starts(with: name) || old.name.reversed().starts(with: name.reversed()),
            backup.item.content.residency == .resident, try passBase(base, to: heir)
        else { return nil }
        try markDirty(backup, notBefore: notBefore, settleTime: settleTime)
        return base.item
    }

    /// A document was exchanged for a new item and is put aside, under a name that stays on this
    /// machine: the other one is its next version.
    ///
    /// What is put aside has bytes of its own then, as the cloud's are another's: so only if all of
    /// it is here.
    ///
    /// - Parameter settleTime: As of `inheritBase`.
    /// - Returns: Whether that is so.
    func passDocument(
        of document: ItemRecord,
        to heir: ItemID,
        notBefore: Timestamp,
        settleTime: SettleTime
    ) throws -> Bool {
        // What the cloud never had goes on all the same; there is nothing to hand on.
        guard let base = try reader.base(of: document.id) else { return true }
        let isHere =
            document.item.isPackage
            ? document.isListed : document.item.content.residency == .resident
        guard isHere, let name = try reader.name(of: heir),
            base.parent == name.parent, base.name == name.name,
            try passBase(base, to: try reader.existing(heir))
        else { return false }
        if document.item.isPackage {
            try noteTreeChange(of: document.id, notBefore: notBefore)
        } else {
            try markDirty(document, notBefore: notBefore, settleTime: settleTime)
        }
        return true
    }

    /// Marks what has its bytes for itself from now on, and is written by nobody.
    private func markDirty(
        _ record: ItemRecord,
        notBefore: Timestamp,
        settleTime: SettleTime
    ) throws {
        if record.item.content.cleanliness == .clean { try settleTime(record) }
        try markDirty(record.id, notBefore: notBefore)
    }

    private func passBase(_ base: BaseRecord, to heir: ItemRecord) throws -> Bool {
        guard heir.item.kind == .file, try reader.base(of: heir.id) == nil,
            let old = try reader.item(base.item), old.item.kind == .file
        else { return false }
        try noteLost(of: old.id)
        try execute(
            "UPDATE base SET item = ? WHERE item = ?",
            [heir.id.rawValue, old.id.rawValue]
        )
        try execute("DELETE FROM newer WHERE item = ?", [old.id.rawValue])
        try passPrevious(from: old.id, to: heir.id)
        try setDocument(.random(), of: old.id)
        try setDocument(old.item.documentID, of: heir.id)
        try passHeir(from: old.id, to: heir.id)
        if heir.item.content.policy == .inherited {
            try setPolicy(old.item.content.policy, of: heir.id)
        }
        try passNotes(from: old.id, to: heir.id)
        let isSame =
            try heir.item.metadata.permissions == old.item.metadata.permissions
            && reader.attributes(of: heir.id) == reader.attributes(of: old.id)
        // Else news of the version that it replaces would bring that one's back.
        if !isSame { try setMetadataChanged(heir.id, .all) }
        return true
    }

    /// Leaves a file where the cloud has what it replaced, and its old place to whatever is there.
    ///
    /// - Parameter lookalike: Of `replacedLookalike` or `replacedBase`.
    func settle(_ id: ItemID, inPlaceOf lookalike: BaseRecord) throws {
        try clearNewer(of: id)
        // Not lost: what it lacks of these bytes comes from the other place.
        try execute("DELETE FROM base WHERE item = ?", [id.rawValue])
        try forgetHeir(id)
        guard try passBase(lookalike, to: try reader.existing(id)) else {
            throw CloudFSError(.internalFailure, "a file cannot have another's place", item: id)
        }
    }

    /// Stores what a request of this machine made of an item in the cloud.
    ///
    /// While it ran, a save may have handed the place on to another file, or taken the item's name
    /// away: that file's version is to replace now what the request made. Or the item itself was
    /// the save: it has the place of another by now, and what was made of it is to be deleted.
    ///
    /// Who was known to be in the place for any other reason is not there any more.
    ///
    /// - Parameters:
    ///   - base: What the cloud has now.
    ///   - expected: The item's base when the request began.
    ///   - now: When it ended.
    /// - Returns: Whether the item that was sent is still the one.
    @discardableResult
    func recordBase(
        _ base: BaseRecord,
        replacing expected: BaseRecord?,
        at now: Timestamp
    ) throws -> Bool {
        try forgetSent(of: base.item)
        let current = try reader.base(of: base.item)
        var base = base
        // Another device wrote on it while the request ran: the answer may be of before.
        if current?.version.isStale == true { base.version = base.version.asStale }
        // A listing may have found it in its new place before.
        let hasMovedOn =
            current.map { !$0.isInPlace(of: expected) && !$0.isInPlace(of: base) } ?? false
        let holder = try base.parent.flatMap { try reader.base(named: base.name, in: $0) }
        if let holder, holder.item != base.item {
            // A save hands on the place that the item was known in, and no other.
            if expected?.isInPlace(of: base) == true {
                var handedOn = base
                handedOn.item = holder.item
                if !hasMovedOn { try removeBase(of: base.item) }
                try setBase(handedOn)
                try replacePrevious(of: holder.item, by: base, of: base.item)
                return false
            }
            try displace(holder)
        }
        guard !hasMovedOn else {
            try recordOrphan(base, of: base.item, at: now)
            return false
        }
        // Where listings were interrupted is said in terms of where folders were.
        if let current, !current.isInPlace(of: base) { try forgetListingPages() }
        try setBase(base)
        if let current, !current.isInPlace(of: base) { try lookAgainAtRefused(by: current) }
        guard try reader.name(of: base.item) == nil else { return true }
        guard let heir = try passBase(base, of: base.item) else { return true }
        try replacePrevious(of: heir, by: base, of: base.item)
        return false
    }

    /// Takes a base out of a place that another item has in the cloud: a listing finds out whether
    /// that one is elsewhere.
    private func displace(_ base: BaseRecord) throws {
        guard let parent = base.parent else { return }
        var displaced = base
        displaced.name = try reader.displacedName(
            for: try ItemName(base.name),
            of: base.item,
            in: parent
        ).bytes
        try setBase(displaced)
    }

    /// Something in the cloud that nothing here stands for any more, or that a request without an
    /// answer may have made: it is deleted there next.
    ///
    /// - Parameters:
    ///   - base: What it is, if it is known.
    ///   - id: Which item it was.
    func recordOrphan(_ base: BaseRecord?, of id: ItemID, at now: Timestamp) throws {
        guard try base != nil || reader.sent(of: id) != nil else { return }
        let record = try reader.existing(id)
        let orphan = try insertItem(
            NewItem(
                container: record.item.container,
                kind: record.item.kind,
                metadata: record.item.metadata,
                size: base?.size ?? record.item.size
            ),
            at: now
        )
        if var base {
            base.item = orphan
            try setBase(base)
        }
        try passSent(from: id, to: orphan)
        try enqueue(orphan, notBefore: now)
    }
}
