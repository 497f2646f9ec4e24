import Logging
import Synchronization

extension RemoteApplier {
    /// Where an item is on this machine.
    struct Place: Sendable {
        var parent: ItemID
        var name: ItemName
    }

    /// Adds an item of the cloud that is new here, as a placeholder.
    ///
    /// - Parameter place: Where it is shown, if not where it is in the cloud.
    func adopt(
        _ remote: RemoteItem,
        in folder: ItemID,
        shownAt place: Place? = nil,
        container: ContainerID,
        isPinned: Bool,
        _ writer: CatalogWriter
    ) throws -> ItemID {
        // Two objects with one document id are a copy: the second is a document of its own.
        let isKnown = try writer.reader.holder(of: remote.documentID) != nil
        var new = NewItem(container: container, kind: remote.kind, metadata: remote.metadata)
        new.documentID = isKnown ? nil : remote.documentID
        new.size = remote.kind == .file ? remote.size : Int64(remote.linkTarget?.count ?? 0)
        new.linkTarget = remote.linkTarget
        new.attributes = remote.attributes
        new.isPackage = remote.kind == .file && packages.isPackageName(remote.name)
        let id = try writer.insertItem(new, at: files.clocks.now())
        let place = place ?? Place(parent: folder, name: remote.name)
        try writer.addName(place.name.bytes, in: place.parent, to: id)
        try writer.setBase(BaseRecord(of: id, in: folder, remote))
        // Or the other half of a move.
        if isKnown { try noteHeir(id, remote, writer) }
        if isPinned, remote.kind == .file { try writer.setWanted(true, of: id) }
        return id
    }

    /// Brings one file up to a version whose bytes differ from those of its base.
    ///
    /// - Parameter isOnTheMove: Whether its name here still is the one that it has left in the
    ///   cloud. Then two versions are not told apart yet: that needs the new name.
    /// - Returns: Whether the listing still tells something sure of it.
    @discardableResult
    func applyContent(
        of id: ItemID,
        _ remote: RemoteItem,
        of listing: Listing,
        isOnTheMove: Bool = false
    ) async throws(CloudFSError) -> Bool {
        let decided = try await using(id) { () async throws(CloudFSError) in
            let sameAt = try await self.countOfSameBytes(id, as: remote, in: listing.folder)
            return try await self.pool.engine {
                try self.decideContent(
                    of: id,
                    remote,
                    of: listing,
                    sameAt: sameAt,
                    isOnTheMove: isOnTheMove
                )
            }
        }
        guard let (changes, actions, file) = decided else { return false }
        hydrator.perform(actions, on: file)
        hub.publish(changes)
        if !changes.isEmpty { try await FaultPoint.applyContent.passInTask() }
        files.wanted.raise()
        return true
    }

    /// Brings files that have moved in the cloud, and changed there too, up to their new versions
    /// before they get their new names: under those, the cloud never had the old bytes.
    func applyContent(
        ofMoved moves: [RemoteID: ItemID],
        among items: [RemoteItem],
        of listing: Listing
    ) async throws(CloudFSError) {
        for item in items where item.kind == .file {
            guard let id = moves[item.id], !mutations.blurs(id, since: listing.mark) else {
                continue
            }
            let isChanged = try await pool.engine {
                try self.catalog.read { reader in
                    guard let base = try reader.base(of: id), base.remoteID == item.id,
                        base.version.content != item.version.content
                    else { return false }
                    return try reader.existing(id).item.kind == .file
                }
            }
            guard isChanged else { continue }
            try await applyContent(of: id, item, of: listing, isOnTheMove: true)
        }
    }

    /// Keeps a file in use meanwhile: its changes are counted as long as somebody uses it.
    func using<Value: Sendable>(
        _ id: ItemID,
        _ body: () async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        let file = try await pool.engine { try self.files.acquire(id) }
        defer {
            // Also if this was cancelled.
            Task { try await pool.engine { self.releaseQuietly(file) } }
        }
        return try await body()
    }

    /// The count of local changes at which the bytes here were those of `remote`, although the
    /// tokens differ; `nil` if they are not.
    ///
    /// It means something as long as the file is in use, see `using`.
    ///
    /// Asked only when size says that it is possible and the provider can tell without sending
    /// them.
    func countOfSameBytes(
        _ id: ItemID,
        as remote: RemoteItem,
        in folder: ItemID
    ) async throws(CloudFSError) -> UInt64? {
        guard provider.capabilities.contains(.digests) else { return nil }
        let local = try await pool.engine { () throws -> (ContentDigest, UInt64)? in
            let file = try self.files.acquire(id)
            defer { self.releaseQuietly(file) }
            let (content, count) = try file.state.withLock {
                state throws(CloudFSError) -> (ContentFile?, UInt64) in
                try self.files.observe(&state, id)
                guard state.residency == .resident, state.size == remote.size else {
                    return (nil, 0)
                }
                return (try self.files.content(of: &state, id), state.changeCount)
            }
            guard let content else { return nil }
            // What agrees is called clean, and what it replaced can go: so it is on the disk first.
            do throws(CloudFSError) {
                try content.synchronize()
            } catch {
                // Of these bytes nobody can say that they are the cloud's.
                guard try content.isTorn else { throw error }
                return nil
            }
            return (try ContentDigest(of: content), count)
        }
        guard let local else { return nil }
        let path = try await pool.engine { () throws -> RemotePath? in
            try self.catalog.read { try $0.remotePath(of: folder) }
        }
        guard let path,
            let digest = try await provider.digest(
                of: path.appending(remote.name),
                version: remote.version
            )
        else { return nil }
        return digest == local.0 ? local.1 : nil
    }

    /// What was decided about a file's content, to be told and done.
    private typealias Decided = ([ItemChange], [HydrationPlan.Action], OpenFile)

    /// - Returns: `nil` if this machine has sent the item, or given its place to another, since the
    ///   listing began: what was listed then may be older than what is known.
    private func decideContent(
        of id: ItemID,
        _ remote: RemoteItem,
        of listing: Listing,
        sameAt: UInt64?,
        isOnTheMove: Bool
    ) throws(CloudFSError) -> Decided? {
        let claim = try claimToReplace(id)
        defer { claim?.end() }
        let file = try files.acquire(id)
        defer { releaseQuietly(file) }
        let decided = try file.state.withLock {
            state throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action])? in
            // A save by rename may have handed the base on since the file was opened.
            let (base, isStill) = try catalog.read { reader in
                let base = try reader.base(of: id)
                let isStill =
                    isOnTheMove && hasStableIDs
                    ? base?.remoteID == remote.id
                    : try reader.isWhatIs(at: remote.name, in: listing.folder, id)
                return (base, isStill)
            }
            state.base = base
            let isOld = listing.looked.map { $0.version.content != base?.version.content } ?? false
            guard isStill, !isOld, !isBlurred(id, remote, listing) else { return nil }
            try files.observe(&state, id)
            let isSame = sameAt == state.changeCount
            let local = Reconciler.Local(
                isDirty: state.isDirty && !state.hasNothingToSend(beside: state.base),
                isInUse: state.isInUse || claim == nil,
                isDeleted: state.isUnlinked
            )
            let decision = Reconciler.decide(
                base: state.base?.version,
                local: local,
                remote: remote.version
            )
            switch decision {
            case .compareOrKeepBoth
            where isSame && state.writesInFlight == 0 && !isOnTheMove:
                return try takeOverVersion(&state, id, remote, listing)
            case .replaceContent where isSame, .recordNewer where isSame:
                return try takeOverVersion(&state, id, remote, listing)
            case .compareOrKeepBoth where isOnTheMove || claim == nil:
                return ([], [])
            case .compareOrKeepBoth where OwnerFileName.matches(remote.name.bytes):
                return try giveWay(&state, id, remote, listing)
            case .compareOrKeepBoth:
                return try keepBoth(&state, id, remote, listing)
            case .recordNewer:
                let isStored: Void? = try store(id, remote, listing) {
                    try $0.setNewer(remote, of: id)
                }
                guard isStored != nil else { return nil }
                state.hasNewer = true
                return ([], [])
            case .replaceContent:
                return try replaceContent(&state, id, remote, listing)
            case .nothing, .adopt, .acceptVersion, .applyMetadata, .remove, .removeAfterClose,
                .removeUnlessWritten, .keepAsNew, .forget, .restore:
                return ([], [])
            }
        }
        return decided.map { ($0.0, $0.1, file) }
    }

    /// Whether the listing says nothing sure of a file, as this machine is sending it.
    private func isBlurred(_ id: ItemID, _ remote: RemoteItem, _ listing: Listing) -> Bool {
        let place = NamePlace(parent: listing.folder, name: remote.name.bytes)
        return mutations.blurs(id, at: place, since: listing.mark)
    }

    /// Stores what was decided about a file's content, unless this machine has begun to send it
    /// since.
    ///
    /// - Returns: `nil` if it has.
    private func store<Value>(
        _ id: ItemID,
        _ remote: RemoteItem,
        _ listing: Listing,
        _ body: (CatalogWriter) throws -> Value?
    ) throws(CloudFSError) -> Value? {
        try catalog.write { isBlurred(id, remote, listing) ? nil : try body($0) }
    }

    /// The bytes agree: only what is agreed on changes.
    private func takeOverVersion(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem,
        _ listing: Listing
    ) throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action])? {
        let base = (state.base ?? BaseRecord(of: id, in: listing.folder, remote)).with(remote)
        let isWritten = state.direct != nil
        let length = state.length
        let hadUnsavedChange = state.hasUnsavedChange
        let isStored: Void? = try store(id, remote, listing) { writer in
            try writer.setBase(base)
            if let length { try writer.setSize(length, of: id) }
            try writer.clearNewer(of: id)
            // While a program may write, a crash must find the item dirty.
            if !isWritten { try writer.markClean(id) }
            try identify(id, as: remote, writer)
            let now = files.clocks.now()
            // What was written has moved the time of change for whoever has looked.
            if hadUnsavedChange { try writer.touch(id, at: now) }
            try writer.takeOverMetadata(of: remote, for: id, isSame: true, at: now)
            _ = try inherit(remote, as: id, writer)
        }
        guard isStored != nil else { return nil }
        state.base = base
        let seen = state.direct?.seen
        state.direct?.sent = seen
        state.direct?.agreed = base.version.content
        if !isWritten { state.isDirty = false }
        state.hasNewer = false
        state.hasUnsavedChange = false
        state.modified = remote.metadata.modified
        return ([.attributes(id)], [])
    }

    /// Drops the outdated bytes; the item is a placeholder of the new version.
    ///
    /// - Returns: `nil` if a save has given its place to another item.
    private func replaceContent(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem,
        _ listing: Listing
    ) throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action])? {
        let base = state.base?.with(remote)
        let dropped = try store(id, remote, listing) { writer -> DroppedTree? in
            let record = try writer.reader.existing(id)
            guard try writer.reader.base(of: id) != nil else { return nil }
            let dropped = try packages.drop(record, newName: remote.name, writer)
            try writer.dropContent(of: record)
            try writer.setSize(remote.size, of: id)
            let now = files.clocks.now()
            try writer.touch(id, at: now)
            try writer.takeOverMetadata(of: remote, for: id, isReplaced: true, at: now)
            if let base { try writer.setBase(base) }
            try writer.forgetHeir(id)
            if remote.isIdentified { try identify(id, as: remote, writer) }
            _ = try inherit(remote, as: id, writer)
            try writer.clearNewer(of: id)
            if try writer.reader.effectivePolicy(of: id) == .pinned {
                try writer.setWanted(true, of: id)
            }
            return dropped
        }
        guard let dropped else { return nil }
        packages.forget(dropped.members)
        if state.size != remote.size { files.caches.untoldSizes.note(CollectionOfOne(id)) }
        return ([.content(id)] + dropped.changes, files.reload(&state, id))
    }

    /// Takes the cloud's version, and none of ours: of two lock files the first one counts.
    private func giveWay(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem,
        _ listing: Listing
    ) throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action])? {
        let base = (state.base ?? BaseRecord(of: id, in: listing.folder, remote)).with(remote)
        let isStored: Void? = try store(id, remote, listing) { writer in
            try writer.setBase(base)
            try writer.clearNewer(of: id)
            try writer.markClean(id)
            try writer.dropContent(of: try writer.reader.existing(id))
            try writer.setSize(remote.size, of: id)
            try identify(id, as: remote, writer)
            let now = files.clocks.now()
            try writer.touch(id, at: now)
            try writer.takeOverMetadata(of: remote, for: id, isReplaced: true, at: now)
            try writer.removeOwnerFile(id)
        }
        guard isStored != nil else { return nil }
        if state.size != remote.size { files.caches.untoldSizes.note(CollectionOfOne(id)) }
        return ([.content(id)], files.reload(&state, id))
    }

    /// Both sides have bytes of their own: the remote version gets the name, the local one a new
    /// name and a new document id.
    ///
    /// The local bytes keep their row, and so their open handles. A new name that the item got here
    /// meanwhile is the remote version's too.
    private func keepBoth(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem,
        _ listing: Listing
    ) throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action])? {
        let now = files.clocks.now()
        let (known, folder) = (state.base, listing.folder)
        let changes = try store(id, remote, listing) { writer -> [ItemChange] in
            let reader = writer.reader
            let record = try reader.existing(id)
            let place =
                try reader.name(of: id)
                .map { Place(parent: $0.parent, name: try ItemName($0.name)) }
                ?? Place(parent: folder, name: remote.name)
            // What a person asked of the document holds for what has its name now.
            let policy = record.item.content.policy
            let isPinned = try reader.effectivePolicy(of: id) == .pinned
            let free = try conflictName(for: place.name, in: place.parent, reader)
            try writer.moveName(of: id, to: free.bytes, in: place.parent)
            try writer.removeBase(of: id)
            try writer.setDocument(.random(), of: id)
            try writer.forgetHeir(id)
            try writer.enqueue(id, notBefore: now)
            let winner = try adopt(
                remote,
                in: folder,
                shownAt: place,
                container: record.item.container,
                isPinned: isPinned,
                writer
            )
            if policy != .inherited { try writer.setPolicy(policy, of: winner) }
            if place.parent != folder || place.name != remote.name {
                try writer.enqueue(winner, notBefore: now)
            }
            _ = try inherit(remote, as: winner, writer)
            return [
                .entryReplaced(parent: place.parent, name: place.name),
                .entryAppeared(parent: place.parent, name: free), .attributes(id),
            ]
        }
        guard let changes else { return nil }
        state.loseBase()
        state.hasNewer = false
        logger.notice(
            "two versions of a file were kept",
            metadata: [
                "item.id": "\(id)", "item.name": "\(remote.name)",
                "version.base": "\(known?.version.content ?? "none")",
                "version.cloud": "\(remote.version.content)",
            ]
        )
        return (changes, [])
    }

    /// Ends a use whose failure changes nothing about what was decided; it is logged.
    func releaseQuietly(_ file: OpenFile) {
        do {
            try files.release(file)
        } catch {
            logger.error(
                "the state of a file could not be stored",
                metadata: ["item.id": "\(file.id)", "error": "\(error)"]
            )
        }
    }
}

extension CatalogReader {
    /// Whether an item is what this machine knows to be at a place of the cloud, or would send
    /// there.
    fileprivate func isWhatIs(at name: ItemName, in folder: ItemID, _ id: ItemID) throws -> Bool {
        if let known = try base(named: name.bytes, in: folder) { return known.item == id }
        return try base(of: id) == nil && child(name.bytes, of: folder)?.id == id
    }
}
