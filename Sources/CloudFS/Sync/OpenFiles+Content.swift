import Synchronization

/// Where the bytes of a file in use are on this machine.
extension OpenFiles {
    /// The open content file, to be written.
    ///
    /// - Throws: `readOnly` where the disk is.
    func writableContent(
        of state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> ContentFile {
        let content = try content(of: &state, id)
        guard !content.isWritable else { return content }
        // The disk may be writable again.
        let again = try store.open(id, generation: state.generation)
        guard again.isWritable else {
            throw CloudFSError(.readOnly, "the local disk has become read-only", item: id)
        }
        state.content = again
        return again
    }

    /// The open content file, made or opened if need be; one to be read where its disk is
    /// read-only.
    func content(
        of state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> ContentFile {
        if let content = state.content { return content }
        if state.generation != 0 {
            let content = try store.open(id, generation: state.generation)
            state.content = content
            return content
        }
        guard state.base != nil || state.size == 0 else {
            throw CloudFSError(.remoteChanged, "this version is gone from the cloud", item: id)
        }
        let (generation, content) = try makeContent(for: id, size: state.size)
        let residency = state.base == nil ? Residency.resident : .partial
        do {
            try FaultPoint.contentMade.pass()
            try catalog.write { writer in
                try writer.setContent(of: id, generation: generation, residency: residency)
            }
        } catch {
            try store.remove(id, generation: generation)
            throw error
        }
        state.generation = generation
        state.content = content
        state.residency = residency
        if residency == .resident { state.becomeResident() }
        return content
    }

    /// Makes a content file with a generation that no file of the item ever had.
    func makeContent(
        for id: ItemID,
        size: Int64
    ) throws(CloudFSError) -> (generation: Int64, content: ContentFile) {
        let generation = nextGeneration()
        return (generation, try store.create(id, generation: generation, size: size))
    }

    /// The nanosecond of the day, or one more than the last: unique across restarts too.
    func nextGeneration() -> Int64 {
        let now = clocks.now().nanoseconds
        return lastGeneration.withLock { last in
            last = max(last + 1, now)
            return last
        }
    }

    /// Gives content the time of its item, which becomes a document of its own and is written by
    /// nobody; within the transaction that marks it.
    func settleTime(of record: ItemRecord) throws(CloudFSError) {
        let generation = record.item.content.generation
        guard generation != 0, !record.item.isPackage else { return }
        try store.open(record.id, generation: generation)
            .settle(modified: record.item.metadata.modified)
    }
}
