import Synchronization

extension Filesystem {
    func attributes(of id: ItemID, handle: UInt64?) throws(CloudFSError) -> Attributes {
        attributes(of: try catalog.read { try Self.linked(id, $0) })
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
        try requireWritable()
        if let size = changes.size { try truncate(id, to: size) }
        guard changes.changesMetadata else { return try attributes(of: id, handle: handle) }
        return attributes(of: try setMetadata(changes, of: id))
    }

    private func truncate(_ id: ItemID, to size: Int64) throws(CloudFSError) {
        guard size >= 0 else { throw CloudFSError(.invalidArgument, "a negative size", item: id) }
        let file = try files.acquire(id)
        do throws(CloudFSError) {
            let actions = try files.truncate(file, to: size)
            hydrator.perform(actions, on: file)
        } catch {
            try files.release(file)
            throw error
        }
        try files.release(file)
        uploader.noteChange()
    }

    private func setMetadata(
        _ changes: AttributeChanges,
        of id: ItemID
    ) throws(CloudFSError) -> Linked {
        let now = clocks.now()
        let notBefore = notBefore
        let modified = changes.modified?.moment(now)
        if let modified { try setModified(modified, of: id) }
        defer { uploader.noteChange() }
        return try catalog.write { writer in
            let record = try writer.reader.existing(id)
            try writer.setMetadata(
                of: id,
                permissions: changes.permissions,
                userID: changes.userID,
                groupID: changes.groupID,
                modified: modified,
                accessed: changes.accessed?.moment(now),
                at: now
            )
            let isOnlyAccess =
                changes.permissions == nil && changes.userID == nil && changes.groupID == nil
                && modified == nil
            if record.item.kind.isSynced, id != .root, !isOnlyAccess {
                try writer.markMetadataChanged(id, notBefore: notBefore)
            }
            return try Self.linked(id, writer.reader)
        }
    }

    /// A file's content carries its time too: after a crash that is the one that counts.
    private func setModified(_ modified: Timestamp, of id: ItemID) throws(CloudFSError) {
        if files.live(id) == nil {
            let record = try catalog.read { try $0.existing(id) }
            guard record.item.kind == .file, record.item.content.generation != 0 else { return }
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
        let space = connection.quota.map { ($0.total, $0.available) } ?? disk
        return FilesystemStatistics(
            blockSize: 4096,
            totalBytes: space.0,
            availableBytes: max(0, space.1),
            totalItems: Int64(items) + 1_000_000_000,
            freeItems: 1_000_000_000
        )
    }
}

extension AttributeChanges {
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
