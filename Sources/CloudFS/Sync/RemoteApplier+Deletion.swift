import Logging
import Synchronization

extension RemoteApplier {
    /// Takes away what a complete listing proved to be gone from the cloud, except edits.
    ///
    /// - Parameter candidates: What was known of a folder that was listed completely without it.
    ///   What was found elsewhere meanwhile, or sent anew, is known otherwise and left alone.
    /// - Returns: Folders to be listed again, because nothing sure is known of them.
    func remove(_ candidates: [BaseRecord]) async throws(CloudFSError) -> Set<ItemID> {
        var unsure: Set<ItemID> = []
        for base in candidates {
            // What a coordinated program uses stays, with all that it is in.
            let claim = try await pool.engine {
                try self.claimToReplace(base.item, withAllIn: true)
            }
            guard let claim else { continue }
            defer { claim.end() }
            try await remove(base, &unsure)
        }
        return unsure
    }

    /// Whether it was the folder that was listed, which then lacks what the listing lacked, and not
    /// another one that somebody has put in its place.
    func isOfFolder(_ listing: Listing) async throws(CloudFSError) -> Bool {
        let (current, policy) = try await pool.engine {
            try self.catalog.read {
                (
                    try $0.remotePath(of: listing.folder),
                    try $0.effectivePolicy(of: listing.folder)
                )
            }
        }
        guard current == listing.path else { return false }
        // What is excluded is not followed, and nothing in it is removed.
        guard hasStableIDs, !listing.path.isRoot, policy != .excluded else { return true }
        return try await isThere(listing.remoteID, at: listing.path)
    }

    /// Whether the cloud has an item where it was known to be, and not another one.
    func isThere(_ id: RemoteID?, at path: RemotePath) async throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            return try await provider.item(at: path).id == id
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return false
        }
    }

    /// How many items would go, counting what is in folders.
    func count(_ candidates: [BaseRecord]) async throws(CloudFSError) -> Int {
        try await pool.engine {
            try self.catalog.read { reader in
                try candidates.reduce(0) { try $0 + reader.descendants(of: $1.item).count }
            }
        }
    }

    /// An item that may be gone, with what the cloud had in it.
    private struct Candidate: Sendable {
        var kind: ItemKind
        var children: [BaseRecord]
    }

    /// What has become of an item that was missed.
    private enum Removal {
        case settled
        /// A program may write on it: it stays, with all that it is in, until the last close.
        case stays
        /// This machine is changing it, or has just heard of it, or of a folder above, elsewhere.
        case unsure
    }

    /// - Parameter above: The folders that go with it, from the one that was missed on.
    @discardableResult
    private func remove(
        _ known: BaseRecord,
        in above: [BaseRecord] = [],
        _ unsure: inout Set<ItemID>
    ) async throws(CloudFSError) -> Removal {
        let id = known.item
        let found = try await pool.engine { () throws -> Candidate? in
            try self.catalog.read { reader in
                guard try reader.base(of: id) == known else { return nil }
                let kind = try reader.existing(id).item.kind
                let children = kind == .folder ? try reader.bases(in: id) : []
                return Candidate(kind: kind, children: children)
            }
        }
        var removal = Removal.unsure
        if let found, !mutations.isActive(id) {
            if try await isExcluded(id) { return .settled }
            switch try await pool.engine({ try self.settleWithLookalike(known) }) {
            case .hasNone: break
            case .isSettled: return .settled
            case .isUnsure:
                if let parent = known.parent { unsure.insert(parent) }
                return .unsure
            }
            removal = .settled
            // What is on its way out of a folder is still known by it.
            let folders = above + [known]
            for child in found.children {
                switch try await remove(child, in: folders, &unsure) {
                case .settled: break
                case .stays: if removal == .settled { removal = .stays }
                case .unsure: removal = .unsure
                }
            }
            if removal == .settled {
                removal = try await pool.engine {
                    found.kind == .file
                        ? try self.removeFile(known, in: above)
                        : try self.removeFolderOrLink(known, in: above)
                }
            } else if removal == .stays {
                // What exists only here needs its folder there, whatever else keeps that.
                removal = try await pool.engine {
                    guard try self.catalog.read({ try $0.hasNew(in: id) }) else { return .stays }
                    return try self.removeFolderOrLink(known, in: above)
                }
            }
            // What was in it may be gone already, and be found where the folder is now.
            if removal == .unsure, found.kind == .folder { unsure.insert(id) }
        }
        if removal == .unsure, let parent = known.parent { unsure.insert(parent) }
        return removal
    }

    /// - Parameter changes: What was done; `nil` if something else is known by now.
    private func removal(_ changes: [ItemChange]?) -> Removal {
        guard let changes else { return .unsure }
        hub.publish(changes)
        return .settled
    }

    /// What is excluded stays as it is, wherever it was in the cloud.
    private func isExcluded(_ id: ItemID) async throws(CloudFSError) -> Bool {
        try await pool.engine {
            try self.catalog.read { try $0.effectivePolicy(of: id) == .excluded }
        }
    }

    private func removeFile(
        _ known: BaseRecord,
        in above: [BaseRecord]
    ) throws(CloudFSError) -> Removal {
        let id = known.item
        let file = try files.acquire(id)
        defer { releaseQuietly(file) }
        let (changes, stays) = try file.state.withLock {
            state throws(CloudFSError) -> ([ItemChange]?, Bool) in
            try files.observe(&state, id)
            let local = Reconciler.Local(
                isDirty: state.isDirty && !state.hasNothingToSend(beside: known),
                isInUse: state.isInUse,
                isBeingWritten: state.isBeingWritten,
                isDeleted: state.isUnlinked
            )
            switch Reconciler.decide(base: known.version, local: local, remote: nil) {
            case .keepAsNew: return (try keepAsNew(&state, known, in: above), false)
            case .remove, .removeAfterClose, .forget:
                return (try unlink(&state, known, in: above), false)
            case .removeUnlessWritten:
                // Whoever closes it last has its folder looked at again.
                state.missedIn = known.parent
                return ([], true)
            case .nothing, .adopt, .acceptVersion, .applyMetadata, .replaceContent,
                .recordNewer, .compareOrKeepBoth, .restore:
                return ([], false)
            }
        }
        return stays ? .stays : removal(changes)
    }

    /// Deleted there, edited here: what is here is sent as a new item.
    ///
    /// - Returns: `nil` if something else is known of it by now; so do those below.
    private func keepAsNew(
        _ state: inout OpenFile.State,
        _ known: BaseRecord,
        in above: [BaseRecord]
    ) throws(CloudFSError) -> [ItemChange]? {
        let now = files.clocks.now()
        let id = known.item
        let renamed = try catalog.write { writer -> [ItemChange]? in
            guard try writer.reader.isKnown(known, in: above) else { return nil }
            let changes = try bequeath(try writer.reader.existing(id), known, writer)
            try writer.removeBase(of: id)
            try writer.enqueue(id, notBefore: now)
            return try changes + nameAnew(id, writer)
        }
        guard let renamed else { return nil }
        state.loseBase()
        return [.attributes(id)] + renamed
    }

    /// Takes the name away now; the row and the content go with the last use.
    private func unlink(
        _ state: inout OpenFile.State,
        _ known: BaseRecord,
        in above: [BaseRecord]
    ) throws(CloudFSError) -> [ItemChange]? {
        let id = known.item
        let unlinked = try catalog.write { writer -> (DroppedTree, [ItemChange])? in
            let record = try writer.reader.existing(id)
            guard try writer.reader.isKnown(known, in: above), !record.isTreeChanged else {
                return nil
            }
            let dropped = try packages.drop(record, writer)
            return (dropped, try takeAway(record, known, writer))
        }
        guard let (dropped, changes) = unlinked else { return nil }
        packages.forget(dropped.members)
        state.isUnlinked = true
        state.loseBase()
        return changes
    }

    /// Takes an item's name and place away; what was written on it waits for whatever turns out to
    /// be the item.
    private func takeAway(
        _ record: ItemRecord,
        _ known: BaseRecord,
        _ writer: CatalogWriter
    ) throws -> [ItemChange] {
        let name = try writer.reader.name(of: record.id)
        try writer.removeName(of: record.id)
        // Else it was deleted here as well.
        var changes: [ItemChange] = []
        if let name {
            changes = [
                .entryVanished(
                    parent: name.parent,
                    name: try ItemName(name.name),
                    item: record.id,
                    isFolder: record.item.isFolder,
                    isGone: true
                )
            ]
            changes += try bequeath(record, known, writer)
        }
        try writer.removeBase(of: record.id)
        try writer.dequeue(record.id)
        return changes
    }

    /// Hands on what an item was that is gone to whatever turns out to be it.
    private func bequeath(
        _ record: ItemRecord,
        _ known: BaseRecord,
        _ writer: CatalogWriter
    ) throws -> [ItemChange] {
        let heir = try writer.bequeath(record, known, at: files.clocks.now())
        guard heir != nil || record.hasChangedMetadata else { return [] }
        logger.debug(
            "an item that is gone is handed on",
            metadata: ["item.id": "\(record.id)", "heir.id": "\(heir?.rawValue ?? 0)"]
        )
        return heir.map { [.state($0), .attributes($0)] } ?? []
    }

    /// A folder stays, as a new one, if something in it exists only here.
    private func removeFolderOrLink(
        _ known: BaseRecord,
        in above: [BaseRecord]
    ) throws(CloudFSError) -> Removal {
        let (id, now) = (known.item, files.clocks.now())
        let changes = try catalog.write { writer -> [ItemChange]? in
            let reader = writer.reader
            guard try reader.isKnown(known, in: above) else { return nil }
            // What is being sent into it makes it anew, or not: then it is missed again.
            guard try reader.sent(into: id) == nil else { return nil }
            if try reader.hasChildren(id) || reader.hasBases(in: id) {
                let heir = try bequeath(try reader.existing(id), known, writer)
                try writer.removeBase(of: id)
                try writer.enqueue(id, notBefore: now)
                return try heir + nameAnew(id, writer)
            }
            let changes = try takeAway(try reader.existing(id), known, writer)
            try writer.erase(id)
            return changes
        }
        return removal(changes)
    }
}

extension CatalogReader {
    /// Whether an item, and each folder that goes with it, is known where it was, and this machine
    /// has not begun to change it since it was missed.
    fileprivate func isKnown(_ known: BaseRecord, in above: [BaseRecord]) throws -> Bool {
        try sent(of: known.item) == nil
            && (above + [known]).allSatisfy { try base(of: $0.item) == $0 }
    }

    /// Whether a folder was not deleted here.
    ///
    /// What was put into one that was, nobody would see; and its deletion would wait for it.
    func isKept(_ folder: ItemID) throws -> Bool {
        try folder == .root || name(of: folder) != nil
    }
}
