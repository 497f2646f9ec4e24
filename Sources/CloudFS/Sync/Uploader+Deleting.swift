import Logging

/// Sending removals.
extension Uploader {
    /// - Returns: Whether to go on with the next step.
    func delete(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let (path, base) = try remotePath(facts)
        mutations.begin(id, at: facts.places)
        defer { mutations.end(id, at: facts.places) }
        guard try await !staysForLookalike(base) else { return true }
        var isEdited = false
        do throws(CloudFSError) {
            try await provider.delete(path, base: base.version)
        } catch  where error.code == .notFound {
            try await requireFolder(of: base, at: path)
            logger.debug("deleted on both sides", metadata: ["item.id": "\(id)"])
        } catch  where error.code == .remoteChanged || error.code == .notEmpty {
            isEdited = true
            logger.notice(
                "the cloud has an edit of what was deleted here; it comes back",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
        try await FaultPoint.deleteSent.passInTask()
        try await pool.engine { try self.catalog.write { try $0.removeBase(of: id) } }
        // The edit wins: what is there comes back as an item of its own.
        if isEdited, let parent = base.parent { feed.hint([parent]) }
        return true
    }

    /// Makes sure that what is not found is gone: with a folder that was moved elsewhere it is
    /// there, and would come back from there if nobody knew that it was removed.
    ///
    /// Where items have no ids of their own, what comes from there is another item anyhow, and a
    /// folder may go with the last item in it.
    ///
    /// - Throws: `notFound` if it is not known yet where its folder is, or whether it is anywhere.
    private func requireFolder(
        of base: BaseRecord,
        at path: RemotePath
    ) async throws(CloudFSError) {
        guard applier.hasStableIDs else { return }
        var (next, place) = (base.parent, path.parent)
        var isWithFolder = false
        while let folder = next, !place.isRoot {
            let (known, isKept) = try await pool.engine {
                try self.catalog.read { (try $0.base(of: folder), try $0.isKept(folder)) }
            }
            if try await isThere(known, at: place) { break }
            guard !isKept else {
                await feed.hintParent(of: folder)
                throw CloudFSError(.notFound, "its folder is not where it was", item: base.item)
            }
            // Removed here as well, so no listing of what is above it looks for it.
            isWithFolder = true
            (next, place) = (known?.parent, place.parent)
        }
        // Had that one been moved, a listing of where it is would have found it.
        guard !isWithFolder || feed.hasCompared else {
            throw CloudFSError(.notFound, "its folder may be elsewhere", item: base.item)
        }
    }

    /// Whether the cloud has a folder where it is known to be, and not another one.
    private func isThere(
        _ folder: BaseRecord?,
        at place: RemotePath
    ) async throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            return try await provider.item(at: place).id == folder?.remoteID
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return false
        }
    }

    /// Lets the cloud have what was removed here while it was excluded; it is shown again as the
    /// cloud has it.
    func leaveToCloud(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        try await pool.engine { try self.catalog.write { try $0.removeBase(of: id) } }
        if let parent = facts.base?.parent { feed.hint([parent]) }
        return true
    }
}
