/// Requests that an earlier worker may have done, and could not answer before it was killed.
///
/// What a request changes in the catalog carries its mark, in the same transaction. Handles are
/// known by the request that opened them. All else comes to the same when it is done again, as the
/// kernel holds the item's lock meanwhile.
extension Filesystem {
    /// Whether the names of a folder, or the attributes of an item, changed as `request` asks.
    func isDone(_ request: RequestStamp?, to id: ItemID) throws(CloudFSError) -> Bool {
        guard let request, request.isRepeated else { return false }
        return try catalog.read { try $0.lastRequest(of: id) } == request.mark
    }

    /// What `request` has made already.
    func made(
        _ name: ItemName,
        in parent: ItemID,
        by request: RequestStamp?
    ) throws(CloudFSError) -> Entry? {
        guard try isDone(request, to: parent) else { return nil }
        return try catalog.read { try $0.child(name.bytes, of: parent) }.map(entry)
    }

    /// The open file that `request` has brought already.
    func opened(by request: RequestStamp?) -> OpenedFile? {
        guard let request, request.isRepeated, let handle = handles.file(openedBy: request.mark)
        else { return nil }
        return OpenedFile(
            item: handle.file.id,
            handle: handle.number,
            keepsCache: false,
            backing: handle.file.state.withLock { $0.backing }
        )
    }

    /// Takes up the handles of an earlier worker, before any program is answered.
    func adoptHandles() throws(CloudFSError) {
        handles.dropHalfClosed()
        for kept in handles.kept {
            let id = ItemID(kept.record.item)
            guard kept.record.kind == HandleRecord.file else {
                handles.adopt(folder: id, kept)
                continue
            }
            do throws(CloudFSError) {
                try adopt(kept, of: id)
            } catch  where error.code == .notFound {
                handles.drop(kept)
                logger.error("an open file is gone", metadata: ["item.id": "\(id)"])
            }
        }
    }

    private func adopt(_ kept: HandleTable.Kept, of id: ItemID) throws(CloudFSError) {
        let flags = kept.record.flags
        let isWritable = OpenFlags.isWritable(flags)
        let file = try files.acquire(id)
        // Nobody else can have claimed anything yet.
        let claim = try intent(toOpen: id, flags: flags).map { intent throws(CloudFSError) in
            try coordinator.tryClaim([intent], by: .plain(kept.record.ownerProcess))
        }
        file.state.withLock { state in
            state.handles += 1
            if isWritable { state.writers += 1 }
            state.isBackingDecided = true
            state.backing = kept.record.backing == 0 ? nil : kept.record.backing
        }
        if kept.record.backing != 0 { try hydrator.noteExposed(file) }
        handles.adopt(file, claim: claim, kept)
        if isWritable, kept.record.backing != 0 { try files.adoptDirectWriters(of: file) }
    }
}
