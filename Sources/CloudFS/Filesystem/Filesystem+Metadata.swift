import Synchronization

extension Filesystem {
    func attributes(of id: ItemID, handle: UInt64?) throws(CloudFSError) -> Attributes {
        if id.isVirtual { return try attributes(ofVirtual: id) }
        do throws(CloudFSError) {
            return attributes(of: try catalog.readFew { try Self.linked(id, $0) })
        } catch  where error.code == .notFound {
            guard let record = gone.record(id) else { throw error }
            return attributes(of: (record, hasName: false))
        }
    }

    /// An item, and whether it has a name.
    private typealias Linked = (record: ItemRecord, hasName: Bool)

    private static func linked(_ id: ItemID, _ reader: CatalogReader) throws -> Linked {
        (try reader.existing(id), try id == .root || reader.name(of: id) != nil)
    }

    private func attributes(of item: Linked) -> Attributes {
        var attributes = attributes(of: item.record)
        if !item.hasName { attributes.linkCount = 0 }
        return attributes
    }

    func setAttributes(
        _ changes: AttributeChanges,
        of id: ItemID,
        handle: UInt64?,
        caller: Caller
    ) throws(CloudFSError) -> Attributes {
        if try isAnnouncedChange(by: caller) { return try attributes(of: id, handle: nil) }
        try requireWritable()
        try requireNotVirtual(id)
        // What is open for writing is claimed already.
        let option = changes.size == nil ? AccessIntent.WritingOption.metadataOnly : .updating
        let claim = handle == nil ? try claimNow([.writing(id, option)], for: caller) : nil
        defer { claim?.end() }
        if let size = changes.size {
            try truncate(id, to: size, isOpen: handle != nil, caller: caller)
        }
        var attributes =
            changes.changesMetadata
            ? attributes(of: try setMetadataOfAny(changes, of: id))
            : try attributes(of: id, handle: handle)
        if changes.size == nil, try isOfCloud(id) { attributes.isCacheable = false }
        publish([changes.size == nil ? .attributes(id) : .content(id)], by: caller)
        return attributes
    }

    /// Whether the engine may put another version in the place of a file's bytes.
    ///
    /// The kernel takes the size of this answer also if it was told of another one before the
    /// answer arrived: it must not keep that one.
    private func isOfCloud(_ id: ItemID) throws(CloudFSError) -> Bool {
        if files.live(id)?.state.withLock({ $0.isDirty }) == true { return false }
        return try catalog.readFew { reader in
            guard let record = try reader.item(id), record.item.kind == .file else { return false }
            return try !record.hasChangedContent && reader.base(of: id) != nil
        }
    }

    private func truncate(
        _ id: ItemID,
        to size: Int64,
        isOpen: Bool,
        caller: Caller
    ) throws(CloudFSError) {
        guard size >= 0 else { throw CloudFSError(.invalidArgument, "a negative size", item: id) }
        let file = try files.acquire(id)
        do throws(CloudFSError) {
            guard try noteTreeChange(around: file) || isOpen else {
                throw CloudFSError(.remoteChanged, "its package was replaced", item: id)
            }
            let actions = try files.truncate(file, to: size)
            hydrator.perform(actions, on: file)
            if size == 0 { try FaultPoint.replaceSwitched.pass() }
            try dropSetID(of: file, changedBy: caller)
        } catch {
            try files.release(file)
            throw error
        }
        try files.release(file)
    }

    /// The same of what may be gone from the catalog: nobody but its users sees that.
    private func setMetadataOfAny(
        _ changes: AttributeChanges,
        of id: ItemID
    ) throws(CloudFSError) -> Linked {
        do throws(CloudFSError) {
            return try setMetadata(changes, of: id)
        } catch  where error.code == .notFound {
            let now = clocks.now()
            let record = gone.change(id) { item in
                item.metadata.permissions = changes.permissions ?? item.metadata.permissions
                item.metadata.userID = changes.userID ?? item.metadata.userID
                item.metadata.groupID = changes.groupID ?? item.metadata.groupID
                item.metadata.modified = changes.modified?.moment(now) ?? item.metadata.modified
                item.accessed = changes.accessed?.moment(now) ?? item.accessed
                item.changed = now
            }
            guard let record else { throw error }
            return (record, hasName: false)
        }
    }

    private func setMetadata(
        _ changes: AttributeChanges,
        of id: ItemID
    ) throws(CloudFSError) -> Linked {
        let now = clocks.now()
        if let unchanged = try setTimes(changes, of: id, at: now) { return unchanged }
        let notBefore = notBefore
        let modified = changes.modified?.moment(now)
        if let modified { try setModified(modified, of: id) }
        let accessed = changes.accessed?.moment(now)
        if let accessed { files.live(id)?.state.withLock { $0.accessed = accessed } }
        let linked = try catalog.write { writer in
            let record = try writer.reader.existing(id)
            if accessed != nil { files.noteAccessSet(of: id) }
            try writer.setMetadata(
                of: id,
                permissions: changes.permissions(of: record.item),
                userID: changes.userID,
                groupID: changes.groupID,
                modified: modified,
                accessed: accessed,
                at: now
            )
            let isOnlyAccess =
                changes.permissions == nil && changes.userID == nil && changes.groupID == nil
                && modified == nil
            if record.item.kind.isSynced, id != .root, !isOnlyAccess {
                var fields: UnsentFields = modified == nil ? [] : .modified
                if changes.permissions != nil { fields.insert(.permissions) }
                if changes.userID != nil || changes.groupID != nil { fields.insert(.owner) }
                try writer.markMetadataChanged(id, fields, notBefore: notBefore)
            }
            return try Self.linked(id, writer.reader)
        }
        files.noteSetID(linked.record.item.metadata.hasSetID, of: id)
        return linked
    }

    /// Sets nothing but times of a new file that is being written, as unpackers do between writing
    /// and closing: its content file tells them after a crash, and the catalog hears of them with
    /// the size.
    ///
    /// - Returns: `nil` if mode or owner would change, or it is no such file.
    private func setTimes(
        _ changes: AttributeChanges,
        of id: ItemID,
        at now: Timestamp
    ) throws(CloudFSError) -> Linked? {
        // Another owner may be the same; another mode hardly ever is.
        guard changes.permissions == nil, let file = files.live(id) else { return nil }
        let linked = try catalog.readFew { try Self.linked(id, $0) }
        guard changes.keepsOwnership(of: linked.record.item) else { return nil }
        let isDone = try files.setTimes(
            of: file,
            modified: changes.modified?.moment(now),
            accessed: changes.accessed?.moment(now),
            changed: now
        )
        return isDone ? linked : nil
    }

    /// Takes set-user-id and set-group-id from a file that somebody without privileges changed.
    func dropSetID(of file: OpenFile, changedBy caller: Caller) throws(CloudFSError) {
        guard caller.userID != 0, file.state.withLock({ $0.hasSetID }) else { return }
        let (now, notBefore) = (clocks.now(), notBefore)
        try catalog.write { writer in
            let metadata = try writer.reader.existing(file.id).item.metadata
            try writer.setMetadata(
                of: file.id,
                permissions: metadata.permissionsWithoutSetID,
                at: now
            )
            try writer.markMetadataChanged(file.id, .permissions, notBefore: notBefore)
        }
        files.noteSetID(false, of: file.id)
        hub.publish([.attributes(file.id)])
    }

    /// A file's content carries its time too: after a crash that is the one that counts.
    private func setModified(_ modified: Timestamp, of id: ItemID) throws(CloudFSError) {
        let live = files.live(id)
        if live?.state.withLock({ $0.isPackage }) == true { return }
        if live == nil {
            let record = try catalog.readFew { try $0.existing(id) }
            guard record.item.kind == .file, !record.item.isPackage,
                record.item.content.generation != 0
            else { return }
        }
        let file = try files.acquire(id)
        do throws(CloudFSError) {
            try files.setModified(modified, of: file)
        } catch {
            try files.release(file)
            throw error
        }
        try files.release(file)
    }

    /// Space of the cloud where it has a limit, else of the local disk.
    func statistics() throws(CloudFSError) -> FilesystemStatistics {
        let items = try catalog.read { try $0.itemCount() }
        let disk = try files.store.space()
        let space =
            connection.quota.map {
                DiskSpace(total: $0.total, free: $0.free, available: $0.available)
            } ?? disk
        return FilesystemStatistics(
            blockSize: 4096,
            totalBytes: space.total,
            freeBytes: max(0, space.free),
            availableBytes: max(0, space.available),
            totalItems: Int64(items) + 1_000_000_000,
            freeItems: 1_000_000_000
        )
    }
}

extension AttributeChanges {
    /// The mode that is to be stored: who gets a file does not get its set-user-id with it.
    func permissions(of item: Item) -> UInt16? {
        guard permissions == nil, userID != nil || groupID != nil, item.kind == .file,
            item.metadata.hasSetID
        else { return permissions }
        return item.metadata.permissionsWithoutSetID
    }

    /// Whether mode and owner stay what they are.
    func keepsOwnership(of item: Item) -> Bool {
        let own = item.metadata
        return (permissions(of: item) ?? own.permissions) == own.permissions
            && (userID ?? own.shownUserID) == own.shownUserID
            && (groupID ?? own.shownGroupID) == own.shownGroupID
    }

    var changesMetadata: Bool {
        permissions != nil || userID != nil || groupID != nil || accessed != nil || modified != nil
    }
}

extension AttributeChanges.TimeChange {
    func moment(_ now: Timestamp) -> Timestamp {
        switch self {
        case .now: now
        case .to(let moment): moment
        }
    }
}
