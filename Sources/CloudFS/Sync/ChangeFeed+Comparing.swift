import Collections

/// Comparing folders with the cloud.
extension ChangeFeed {
    /// How many folders are listed at once.
    private static let parallelListings = 16

    /// Lists folders, and the new ones found in them; then removes what none of them has.
    ///
    /// - Parameter isFresh: Whether a listing that runs already does not count.
    func process(
        _ folders: [ItemID],
        depth: RemoteApplier.Depth,
        isFresh: Bool = true
    ) async throws(CloudFSError) {
        let look = try await look(at: folders, depth: depth, isFresh: isFresh)
        var missing = look.missing
        if !missing.isEmpty, applier.provider.capabilities.contains(.stableIDs) {
            missing = try await withoutMoved(missing, besides: Set(folders), look.failure == nil)
        }
        try await remove(missing)
        if let failure = look.failure { throw failure }
    }

    /// What listings of some folders showed.
    private struct Look {
        var missing: [Missing] = []
        /// What kept some of them from being listed.
        var failure: CloudFSError?
    }

    private func look(
        at folders: [ItemID],
        depth: RemoteApplier.Depth,
        isFresh: Bool
    ) async throws(CloudFSError) -> Look {
        let asked = Set(folders)
        var look = Look()
        var queue = Deque(folders)
        var sketched: [ItemID] = []
        await withTaskGroup(of: Listing.self) { group in
            var running = 0
            while true {
                while running < Self.parallelListings, look.failure == nil, !Task.isCancelled,
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
                    if !outcome.missing.isEmpty {
                        let missing = Missing(folder: listing.folder, items: outcome.missing)
                        look.missing.append(missing)
                    }
                    queue += outcome.unlisted
                    if outcome.hasSketches, depth == .few { sketched.append(listing.folder) }
                case .failure(let error)
                where error.code == .notFound || error.code == .notDirectory:
                    await hintParent(of: listing.folder)
                case .failure(let error):
                    look.failure = error
                }
            }
        }
        guard !Task.isCancelled else {
            throw CloudFSError(.cancelled, "comparing with the cloud was ended")
        }
        if !sketched.isEmpty { noteSketches(in: sketched) }
        return look
    }

    /// Leaves out what is missing in its folder because it moved to another one.
    ///
    /// - It may be in a folder that is new and being listed elsewhere.
    /// - It may have moved to one that was listed before it did. Whoever moved it caused news of
    ///   both folders by then, so those with news are listed once more, with its own.
    private func withoutMoved(
        _ missing: [Missing],
        besides listed: Set<ItemID>,
        _ canListOthers: Bool
    ) async throws(CloudFSError) -> [Missing] {
        if canListOthers { try await scanUnlisted() }
        let first = withoutSkipped(missing)
        guard !first.isEmpty else { return [] }
        // All of them are to be compared again: what is gone is found then.
        guard let news = try await foldersWithNews(besides: listed) else { return [] }
        guard !news.isEmpty else { return first }
        let folders = news.union(first.map(\.folder))
        let look = try await look(at: Array(folders), depth: .names, isFresh: true)
        if let failure = look.failure { throw failure }
        try await scanUnlisted()
        let wasMissing = Set(first.flatMap { $0.items.map(\.item) })
        return withoutSkipped(look.missing).map { folder in
            Missing(
                folder: folder.folder,
                items: folder.items.filter { wasMissing.contains($0.item) }
            )
        }
    }

    /// Lists folders whose places are known now, and were not when they were to be listed.
    func lookWhereTheyAre() async throws(CloudFSError) {
        guard !applier.whereabouts.isEmpty else { return }
        let found = try await pool.engine {
            try self.catalog.read { try self.applier.whereabouts.takeFound($0, root: self.root) }
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
        return missing.compactMap { listing in
            let items = listing.items.filter { !skipped.contains($0.remoteID) }
            if items.count < listing.items.count { noteBlurred(listing.folder) }
            return items.isEmpty ? nil : Missing(folder: listing.folder, items: items)
        }
    }

    private func remove(_ missing: [Missing]) async throws(CloudFSError) {
        for listing in missing where !listing.items.isEmpty {
            try await remove(listing)
        }
    }

    private func remove(_ listing: Missing) async throws(CloudFSError) {
        var items = listing.items
        let going = try await applier.count(items)
        if try await isMost(going) {
            logger.warning(
                "more than half of the items are gone from the cloud; looking once more",
                metadata: ["items": "\(going)"]
            )
            try await connect()
            items = try await list(listing.folder, depth: .names, isFresh: true).missing
        }
        logger.debug(
            "items are gone from the cloud",
            metadata: ["folder.id": "\(listing.folder)", "items": "\(items.map(\.item))"]
        )
        for folder in try await applier.remove(items) { noteBlurred(folder) }
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
