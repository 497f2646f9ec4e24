import Logging

/// Sending removals.
extension Uploader {
    /// - Returns: Whether to go on with the next step.
    func delete(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let (path, base) = try remotePath(facts)
        try await completeForReaders(id)
        mutations.begin(id, at: facts.places, isInPlace: false)
        defer { mutations.end(id, at: facts.places, isInPlace: false) }
        guard try await !staysForLookalike(base) else { return true }
        try await pool.engine { try self.files.flushReplacing(whatCloudHasOf: id) }
        var isEdited = false
        do throws(CloudFSError) {
            try await provider.delete(path, base: base.version)
        } catch  where error.code == .notFound {
            guard try await isGone(base, from: path) else {
                let soon = clocks.now() + Self.newsTime
                try await pool.engine {
                    try self.catalog.write { try $0.postpone(id, until: soon) }
                }
                return false
            }
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

    /// How often it is looked whether anybody still reads what was removed.
    private static let readerInterval = Duration.milliseconds(250)

    /// Gets the rest of what a program still has open, as long as it has: soon it is nowhere else.
    ///
    /// What cannot be had is no reason to keep what was removed, except while the cloud is out of
    /// reach.
    func completeForReaders(_ id: ItemID) async throws(CloudFSError) {
        guard let file = files.retainIfLive(id) else { return }
        defer { releaseLater(file) }
        guard file.state.withLock({ $0.handles > 0 && $0.plan != nil }) else { return }
        let hydrator = applier.hydrator
        let work = Task { () async -> CloudFSError? in
            do throws(CloudFSError) {
                try await hydrator.complete(file)
                return nil
            } catch {
                return error
            }
        }
        let watch = Task {
            while !Task.isCancelled, file.state.withLock({ $0.handles > 0 }) {
                // Ended early, there is nothing to look at any more.
                try? await Task.sleep(for: Self.readerInterval)
            }
            work.cancel()
        }
        let failure = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        watch.cancel()
        guard let failure else { return }
        if Task.isCancelled || failure.isOfConnection { throw failure }
        logger.notice(
            "the rest of what was removed or replaced while it was open is not fetched",
            metadata: ["item.id": "\(id)", "error": "\(failure)"]
        )
    }

    /// Whether what is not found is gone: with a folder that was moved elsewhere it is there, and
    /// would come back from there if nobody knew that it was removed.
    ///
    /// Where items have no ids of their own, what comes from there is another item anyhow, and a
    /// folder may go with the last item in it.
    ///
    /// - Returns: `false` if that is not known yet.
    /// - Throws: `notFound` if its folder is not where it was, and a listing tells where it is.
    private func isGone(
        _ base: BaseRecord,
        from path: RemotePath
    ) async throws(CloudFSError) -> Bool {
        guard applier.hasStableIDs else { return true }
        var (next, place) = (base.parent, path.parent)
        var lost: ItemID?
        while let folder = next, !place.isRoot {
            let (known, isKept) = try await pool.engine {
                try self.catalog.read { (try $0.base(of: folder), try $0.isKept(folder)) }
            }
            if try await applier.isThere(known?.remoteID, at: place) {
                lostFolders.noteFound(folder)
                break
            }
            guard !isKept else {
                await feed.hintParent(of: folder)
                throw CloudFSError(.notFound, "its folder is not where it was", item: base.item)
            }
            // Removed here as well, so no listing of what is above it looks for it.
            (lost, next, place) = (folder, known?.parent, place.parent)
        }
        return lost.map(isNowhere) ?? true
    }

    /// How long news of a move may be on its way, while the cloud is in reach.
    private static let newsTime = Duration.seconds(2)

    /// Whether a folder that was removed here, and is not where it was, is nowhere: had it been
    /// moved, a listing of where it is would have found it.
    private func isNowhere(_ folder: ItemID) -> Bool {
        let time = lostFolders.noteLost(folder, at: clocks.elapsed())
        return time >= Self.newsTime && feed.hasCaughtUp
    }

    /// Lets the cloud have what was removed here while it was excluded; it is shown again as the
    /// cloud has it.
    func leaveToCloud(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        try await pool.engine { try self.catalog.write { try $0.removeBase(of: id) } }
        if let parent = facts.base?.parent { feed.hint([parent]) }
        return true
    }
}
