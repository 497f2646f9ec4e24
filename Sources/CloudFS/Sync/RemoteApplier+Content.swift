import Logging
import Synchronization

extension RemoteApplier {
    /// Adds an item of the cloud that is new here, as a placeholder.
    func adopt(
        _ remote: RemoteItem,
        in folder: ItemID,
        container: ContainerID,
        isPinned: Bool,
        _ writer: CatalogWriter
    ) throws -> ItemID {
        // Two objects with one document id are a copy: the second is a document of its own.
        let isKnown = try writer.reader.hasItem(withDocument: remote.documentID)
        var metadata = remote.metadata
        if let owner = options.owner { (metadata.userID, metadata.groupID) = owner }
        var new = NewItem(container: container, kind: remote.kind, metadata: metadata)
        new.documentID = isKnown ? .random() : remote.documentID
        new.size = remote.kind == .file ? remote.size : Int64(remote.linkTarget?.count ?? 0)
        new.linkTarget = remote.linkTarget
        new.attributes = remote.attributes
        if let original = ConflictNaming.original(of: remote.name) {
            new.conflictOf = try writer.reader.child(original.bytes, of: folder)?.item.documentID
        }
        let id = try writer.insertItem(new, at: files.clocks.now())
        try writer.addName(remote.name.bytes, in: folder, to: id)
        try writer.setBase(BaseRecord(of: id, in: folder, remote))
        if isPinned, remote.kind == .file { try writer.setWanted(true, of: id) }
        return id
    }

    /// A free name for the version of `name` that lost.
    func conflictName(
        for name: ItemName,
        in folder: ItemID,
        _ reader: CatalogReader
    ) throws -> ItemName {
        var number = 1
        while true {
            let candidate = try ConflictNaming.name(
                for: name,
                device: options.deviceName,
                at: files.clocks.now(),
                number: number
            )
            let isTaken =
                try reader.child(candidate.bytes, of: folder) != nil
                || reader.base(named: candidate.bytes, in: folder) != nil
            if !isTaken { return candidate }
            number += 1
        }
    }

    /// Brings one file up to a version whose bytes differ from those of its base.
    ///
    /// - Parameter isOnTheMove: Whether its name here still is the one that it has left in the
    ///   cloud. Then two versions are not told apart yet: that needs the new name.
    func applyContent(
        of id: ItemID,
        _ remote: RemoteItem,
        in folder: ItemID,
        isOnTheMove: Bool = false
    ) async throws(CloudFSError) {
        let sameAt = try await countOfSameBytes(id, as: remote, in: folder)
        let (changes, actions, file) = try await pool.engine {
            try self.decideContent(
                of: id,
                remote,
                in: folder,
                sameAt: sameAt,
                isOnTheMove: isOnTheMove
            )
        }
        hydrator.perform(actions, on: file)
        hub.publish(changes)
        if !changes.isEmpty { try await FaultPoint.applyContent.passInTask() }
        files.discards.raise()
        files.wanted.raise()
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
                    let base = try reader.base(of: id)
                    return try reader.existing(id).item.kind == .file
                        && base.map { $0.version.content != item.version.content } ?? false
                }
            }
            guard isChanged else { continue }
            try await applyContent(of: id, item, in: listing.folder, isOnTheMove: true)
        }
    }

    /// The count of local changes at which the bytes here were those of `remote`, although the
    /// tokens differ; `nil` if they are not.
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

    private func decideContent(
        of id: ItemID,
        _ remote: RemoteItem,
        in folder: ItemID,
        sameAt: UInt64?,
        isOnTheMove: Bool
    ) throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action], OpenFile) {
        let claim = try claimToReplace(id)
        defer { claim?.end() }
        let file = try files.acquire(id)
        defer { releaseQuietly(file) }
        let (changes, actions) = try file.state.withLock {
            state throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action]) in
            // A save by rename may have handed the base on since the file was opened.
            state.base = try catalog.read { try $0.base(of: id) }
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
                return (try takeOverVersion(&state, id, remote, in: folder), [])
            case .replaceContent where isSame, .recordNewer where isSame:
                return (try takeOverVersion(&state, id, remote, in: folder), [])
            case .compareOrKeepBoth where isOnTheMove || claim == nil:
                return ([], [])
            case .compareOrKeepBoth:
                return (try keepBoth(&state, id, remote, in: folder), [])
            case .recordNewer:
                try catalog.write { try $0.setNewer(remote, of: id) }
                state.hasNewer = true
                return ([], [])
            case .replaceContent:
                return try replaceContent(&state, id, remote)
            case .nothing, .adopt, .acceptVersion, .applyMetadata, .remove, .removeAfterClose,
                .keepAsNew, .forget, .restore:
                return ([], [])
            }
        }
        return (changes, actions, file)
    }

    /// The bytes agree: only what is agreed on changes.
    private func takeOverVersion(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem,
        in folder: ItemID
    ) throws(CloudFSError) -> [ItemChange] {
        let base = (state.base ?? BaseRecord(of: id, in: folder, remote)).with(remote)
        let isWritten = state.direct != nil
        try catalog.write { writer in
            try writer.setBase(base)
            try writer.clearNewer(of: id)
            // While a program may write, a crash must find the item dirty.
            if !isWritten { try writer.markClean(id) }
            if try writer.reader.item(withDocument: remote.documentID) == nil {
                try writer.setDocument(remote.documentID, of: id)
            }
            let record = try writer.reader.existing(id)
            if !record.hasChangedMetadata {
                try writer.setMetadata(
                    of: id,
                    permissions: remote.metadata.permissions,
                    modified: remote.metadata.modified,
                    at: files.clocks.now()
                )
                try writer.replaceAttributes(with: remote.attributes, of: id)
            }
        }
        state.base = base
        let seen = state.direct?.seen
        state.direct?.sent = seen
        state.direct?.agreed = base.version.content
        if !isWritten { state.isDirty = false }
        state.hasNewer = false
        state.hasUnsavedChange = false
        state.modified = remote.metadata.modified
        return [.attributes(id)]
    }

    /// Drops the outdated bytes; the item is a placeholder of the new version.
    private func replaceContent(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem
    ) throws(CloudFSError) -> ([ItemChange], [HydrationPlan.Action]) {
        let base = state.base?.with(remote)
        try catalog.write { writer in
            let record = try writer.reader.existing(id)
            try writer.dropContent(of: record)
            try writer.setSize(remote.size, of: id)
            if !record.hasChangedMetadata {
                try writer.setMetadata(
                    of: id,
                    permissions: remote.metadata.permissions,
                    modified: remote.metadata.modified,
                    at: files.clocks.now()
                )
                try writer.replaceAttributes(with: remote.attributes, of: id)
            }
            if let base { try writer.setBase(base) }
            try writer.clearNewer(of: id)
            if try writer.reader.effectivePolicy(of: id) == .pinned {
                try writer.setWanted(true, of: id)
            }
        }
        return ([.content(id)], try files.reload(&state, id))
    }

    /// Both sides have bytes of their own: the remote version gets the name, the local one a new
    /// name and a new document id.
    ///
    /// The local bytes keep their row, and so their open handles.
    private func keepBoth(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        _ remote: RemoteItem,
        in folder: ItemID
    ) throws(CloudFSError) -> [ItemChange] {
        let isPartial = state.plan != nil
        let now = files.clocks.now()
        let changes = try catalog.write { writer -> [ItemChange] in
            let reader = writer.reader
            let record = try reader.existing(id)
            var changes: [ItemChange] = []
            if let name = try reader.name(of: id), name.parent == folder,
                name.name == remote.name.bytes
            {
                let free = try conflictName(for: remote.name, in: folder, reader)
                try writer.moveName(of: id, to: free.bytes, in: folder)
                changes.append(.entryReplaced(parent: folder, name: remote.name))
                changes.append(.entryAppeared(parent: folder, name: free))
            }
            try writer.removeBase(of: id)
            try writer.setDocument(.random(), of: id)
            if isPartial { try writer.setBaseLost(id) }
            try writer.enqueue(id, notBefore: now)
            let winner = try adopt(
                remote,
                in: folder,
                container: record.item.container,
                isPinned: false,
                writer
            )
            try writer.setConflict(
                of: try reader.existing(winner).item.documentID,
                on: id
            )
            return changes + [.attributes(id)]
        }
        state.base = nil
        state.isBaseLost = isPartial
        state.hasNewer = false
        logger.notice(
            "two versions of a file were kept",
            metadata: ["item.id": "\(id)", "item.name": "\(remote.name)"]
        )
        return changes
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
