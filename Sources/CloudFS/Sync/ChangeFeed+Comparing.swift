import Collections

/// Comparing folders with the cloud.
extension ChangeFeed {
    /// How many folders are listed at once.
    private static let parallelListings = 16

    /// How many folders may be broken for others to be compared all the same.
    ///
    /// If more are, it is not they. Any number may be closed to us.
    private static let mostBroken = 16

    /// What was not seen of folders that were compared; they are listed again.
    struct Compared {
        /// Why some cannot be listed, though the cloud can be reached.
        var refused: [ItemID: CloudFSError] = [:]
        /// Those in which something was being changed meanwhile.
        var blurred: Set<ItemID> = []
    }

    /// Lists folders, and the new ones found in them; then removes what none of them has.
    ///
    /// - Parameter isFresh: Whether a listing that runs already does not count.
    @discardableResult
    func process(
        _ folders: [ItemID],
        depth: RemoteApplier.Depth,
        isFresh: Bool = true
    ) async throws(CloudFSError) -> Compared {
        let asked = Set(folders)
        var missing: [Missing] = []
        var queue = Deque(folders)
        var sketched: [ItemID] = []
        var compared = Compared()
        var broken = 0
        var failure: CloudFSError?
        await withTaskGroup(of: Listing.self) { group in
            var running = 0
            while true {
                while running < Self.parallelListings, failure == nil, !Task.isCancelled,
                    let folder = queue.popFirst()
                {
                    let depth = asked.contains(folder) ? depth : .names
                    group.addTask { await self.listing(of: folder, depth, isFresh: isFresh) }
                    running += 1
                }
                guard let listing = await group.next() else { return }
                running -= 1
                switch listing.result {
                case .success(let outcome):
                    missing.append(Missing(folder: listing.folder, items: outcome.missing))
                    queue += outcome.unlisted
                    if outcome.isBlurred { compared.blurred.insert(listing.folder) }
                    if outcome.hasSketches, depth == .few { sketched.append(listing.folder) }
                case .failure(let error)
                where error.code == .notFound || error.code == .notDirectory:
                    failed.forget(listing.folder)
                    await hintParent(of: listing.folder)
                case .failure(let error)
                where isOfFolder(error, listing.folder)
                    && (error.code == .denied || broken < Self.mostBroken):
                    if error.code != .denied { broken += 1 }
                    compared.refused[listing.folder] = error
                case .failure(let error):
                    failure = error
                }
            }
        }
        guard !Task.isCancelled else {
            throw CloudFSError(.cancelled, "comparing with the cloud was ended")
        }
        noteRefused(compared.refused)
        if !sketched.isEmpty { noteSketches(in: sketched) }
        missing.removeAll { $0.items.isEmpty }
        if !missing.isEmpty, applier.hasStableIDs {
            // What is missing may have moved into a folder that was not listed, which is repeated,
            if let failure { throw failure }
            // or that is new and being listed elsewhere.
            try await scanUnlisted(isPatient: false)
            missing = holdingBack(withoutSkipped(missing))
        }
        try await remove(missing)
        if let failure { throw failure }
        return compared
    }

    /// Leaves out everything until all is compared: what is missing may have moved into a folder
    /// that is known and was not looked at yet.
    private func holdingBack(_ missing: [Missing]) -> [Missing] {
        missing.filter { !holdsBack($0.folder) }
    }

    /// Lists every folder that was known before once, to find what changed while nobody looked.
    func compareAll(through known: ItemID) async throws(CloudFSError) {
        var last = ItemID(0)
        while !Task.isCancelled {
            let start = last
            let batch = try await pool.engine {
                try self.catalog.read {
                    try $0.listedFolders(after: start, through: known, limit: 64)
                }
            }
            guard let end = batch.last else { break }
            try await process(batch, depth: .names)
            last = end
        }
        try await scanUnlisted()
    }

    /// Whether an error may be one folder's own, so that it says nothing about others.
    private func isOfFolder(_ error: CloudFSError, _ folder: ItemID) -> Bool {
        folder != root && !error.isOfConnection && error.code != .cancelled
    }

    /// Whoever opens such a folder is told; it is tried again.
    private func noteRefused(_ refused: [ItemID: CloudFSError]) {
        guard !refused.isEmpty else { return }
        noteFailed(Array(refused.keys))
        for (folder, error) in refused {
            logger.log(
                level: error.code == .denied ? .debug : .notice,
                "a folder of the cloud cannot be listed",
                metadata: ["folder.id": "\(folder)", "error": "\(error)"]
            )
        }
    }

    /// Looks by itself at an item that has left a folder which was removed here, and which the
    /// cloud still has there: such a folder is not listed before its removal is sent, and that
    /// waits for the item to have left it in the cloud too.
    func lookAtDeparted(_ id: ItemID) async throws(CloudFSError) {
        guard let gone = try await applier.takeOverDeparted(id), let folder = gone.parent else {
            return
        }
        if applier.hasStableIDs {
            // It may be in a folder that was not looked at yet: it is asked about again.
            guard hasCompared else { return }
            try await scanUnlisted(isPatient: false)
            guard !withoutSkipped([Missing(folder: folder, items: [gone])])[0].items.isEmpty
            else { return }
        }
        if try await isSuspicious([gone]) {
            guard try await applier.takeOverDeparted(id) == gone else { return }
        }
        try await removeNow([Missing(folder: folder, items: [gone])])
    }

    /// Lists folders whose places are known now, and were not when they were to be listed.
    func lookWhereTheyAre() async throws(CloudFSError) {
        let whereabouts = applier.whereabouts
        guard !whereabouts.isEmpty else { return }
        let now = applier.files.clocks.elapsed()
        let found = try await pool.engine {
            try self.catalog.read { try whereabouts.takeFound($0, root: self.root, at: now) }
        }
        if !found.isEmpty { hint(found) }
    }

    private struct Listing: Sendable {
        var folder: ItemID
        var result: Result<RemoteApplier.Outcome, CloudFSError>
    }

    private func listing(
        of folder: ItemID,
        _ depth: RemoteApplier.Depth,
        isFresh: Bool
    ) async -> Listing {
        do throws(CloudFSError) {
            let outcome = try await list(folder, depth: depth, isFresh: isFresh)
            return Listing(folder: folder, result: .success(outcome))
        } catch {
            return Listing(folder: folder, result: .failure(error))
        }
    }

    /// What the complete listing of a folder lacks.
    private struct Missing: Sendable {
        var folder: ItemID
        var items: [BaseRecord]
    }

    /// Leaves out for now what was seen in another folder, whose listing had to skip it.
    private func withoutSkipped(_ missing: [Missing]) -> [Missing] {
        let skipped = self.skipped
        guard !skipped.isEmpty else { return missing }
        let sure = missing.map { listing in
            let items = listing.items.filter { !skipped.contains($0.remoteID) }
            return Missing(folder: listing.folder, items: items)
        }
        for (all, left) in zip(missing, sure) where left.items.count < all.items.count {
            noteBlurred(all.folder)
        }
        return sure
    }

    private func remove(_ missing: [Missing]) async throws(CloudFSError) {
        var sure: [Missing] = []
        for listing in missing where !listing.items.isEmpty {
            var looked = listing
            if try await isSuspicious(listing.items) {
                looked.items = try await list(listing.folder, depth: .names, isFresh: true).missing
            }
            sure.append(looked)
        }
        try await removeNow(sure)
    }

    /// Removes what is missing in the container, if that is still the same one.
    private func removeNow(_ missing: [Missing]) async throws(CloudFSError) {
        let missing = missing.filter { !$0.items.isEmpty }
        guard !missing.isEmpty else { return }
        do throws(CloudFSError) {
            try await applier.provider.requireSameContainer()
        } catch {
            // Whoever asked for this listing is not the only one who is to know.
            connection.didFail(error)
            throw error
        }
        for listing in missing {
            logger.debug(
                "items are gone from the cloud",
                metadata: [
                    "folder.id": "\(listing.folder)", "items": "\(listing.items.map(\.item))",
                ]
            )
            for folder in try await applier.remove(listing.items) { noteBlurred(folder) }
        }
    }

    /// Whether so much would go that it is to be looked at once more; the cloud was reached then.
    private func isSuspicious(_ items: [BaseRecord]) async throws(CloudFSError) -> Bool {
        let going = try await applier.count(items)
        guard try await isMost(going) else { return false }
        logger.warning(
            "more than half of the items are gone from the cloud; looking once more",
            metadata: ["items": "\(going)"]
        )
        try await connect()
        return true
    }

    /// Whether so many items are more than half of all, and not few.
    private func isMost(_ count: Int) async throws(CloudFSError) -> Bool {
        guard count > 100 else { return false }
        let total = try await pool.engine {
            try self.catalog.read { try $0.residencyTotals().items }
        }
        return count > total / 2
    }
}
