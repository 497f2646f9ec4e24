import Logging

/// What listings leave out: kind, modes, times and attributes of single items.
extension RemoteApplier {
    func wantsDetails(ofSketches count: Int, _ depth: Depth) -> Bool {
        guard count > 0 else { return true }
        guard count <= Self.fewDetails else { return false }
        guard depth == .names else { return true }
        return detailsLeft.withLock { left in
            guard count <= left else { return false }
            left -= count
            return true
        }
    }

    /// Looks at the items of a folder that are known from listings only.
    ///
    /// Many are looked at only if a few of them turn out to be more than a listing says: what
    /// plain tools have written is known from it completely.
    ///
    /// - Returns: Whether the folder is to be listed again, because something in it is of another
    ///   kind than it seemed.
    func lookAtSketches(of folder: ItemID) async throws(CloudFSError) -> Bool {
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        guard
            case .begun(let listing) = try await pool.engine({
                try self.begin(folder, .few, mark)
            })
        else {
            return false
        }
        var hasOthers = false
        var last: [UInt8] = []
        while !Task.isCancelled {
            let start = last
            let sketches = try await pool.engine {
                try self.catalog.read {
                    try $0.sketches(in: folder, after: start, limit: Self.detailsPage)
                }
            }
            guard let end = sketches.last else { break }
            if sketches.count > Self.fewDetails { await precedence.giveWay(with: .closeLook) }
            guard try await look(at: sketches, of: listing, &hasOthers) else { break }
            last = end.name.bytes
        }
        return hasOthers
    }

    /// Looks at a folder that was listed, if something else is written on it than is known.
    ///
    /// - Returns: The folder to be listed again, when it is no folder any more.
    func lookAtFolder(of listing: Listing) async throws(CloudFSError) -> ItemID? {
        guard let sketch = listing.sketch else { return nil }
        let known = try await pool.engine {
            try self.catalog.read { try $0.base(of: listing.folder)?.version }
        }
        // One that is known from a listing only is looked at when somebody looks at it.
        guard let known, !known.isSketch, !sketch.isUnchanged(since: known) else { return nil }
        let remote: RemoteItem
        do throws(CloudFSError) {
            remote = try await provider.item(at: listing.path)
        } catch  where !error.isOfConnection && error.code != .cancelled {
            // What is in the folder is known all the same; the next listing looks again.
            logger.notice(
                "what is written on a folder cannot be looked at",
                metadata: ["folder.id": "\(listing.folder)", "error": "\(error)"]
            )
            return nil
        }
        // What this machine wrote meanwhile is newer.
        guard !mutations.blurs(listing.folder, since: listing.mark) else { return nil }
        return try await learn(remote, of: listing.folder)
    }

    private static let detailsPage = 100
    private static let sampleCount = 4

    /// - Returns: Whether it is worth while to go on.
    private func look(
        at sketches: [RemoteItem],
        of listing: Listing,
        _ hasOthers: inout Bool
    ) async throws(CloudFSError) -> Bool {
        var chosen = sketches
        if sketches.count > Self.fewDetails {
            let step = sketches.count / Self.sampleCount
            let sample = stride(from: 0, to: sketches.count, by: step).map { sketches[$0] }
            let details = try await provider.details(of: sample, in: listing.path)
            let known = Dictionary(sample.map { ($0.name, $0) }) { first, _ in first }
            let isPlain = details.allSatisfy { item in
                known[item.name].map { !item.tellsMore(than: $0) } ?? false
            }
            if isPlain { chosen = [] }
            if try await take(details, of: listing).hasOthers { hasOthers = true }
            let seen = Set(sample.map(\.name))
            chosen.removeAll { seen.contains($0.name) }
        }
        guard !chosen.isEmpty else { return sketches.count <= Self.fewDetails }
        let details = try await provider.details(of: chosen, in: listing.path)
        if try await take(details, of: listing).hasOthers { hasOthers = true }
        return true
    }

    /// What came of taking items over one by one.
    private struct Taking {
        /// Whether some are of another kind than they seemed: only a complete listing can put one
        /// item in the place of another.
        var hasOthers = false
        /// Whether some were left out, because what was seen of them may be half of a change.
        var isBlurred = false
    }

    private func take(
        _ items: [RemoteItem],
        of listing: Listing
    ) async throws(CloudFSError) -> Taking {
        let others = try await pool.engine { try self.forgetOthers(items, in: listing.folder) }
        var taking = Taking(hasOthers: !others.isEmpty)
        var rest = items.filter { !others.contains($0.name) }
        while !rest.isEmpty {
            let coming = rest
            let changed = try await pool.engine { try self.apply(coming, of: listing) }
            rest.removeFirst(changed.count)
            files.forget(changed.nameless)
            hub.publish(changed.changes)
            if changed.hasWanted { files.wanted.raise() }
            if !changed.skipped.isEmpty { taking.isBlurred = true }
            for (id, remote) in changed.contents {
                let isSure = try await applyContent(of: id, remote, of: listing)
                if !isSure { taking.isBlurred = true }
            }
        }
        return taking
    }

    /// What a look at one file has shown.
    enum Sight: Sendable {
        /// It is here as the cloud had it after the look began.
        case clear
        /// The cloud has a newer version, and somebody uses the one that is here.
        case inUse
        /// It was being written meanwhile, here or elsewhere: the next look may tell more.
        case blurred
        /// Something else has its place, or nothing: only a listing can tell what became of it.
        case elsewhere
    }

    /// Looks at one file as the cloud has it now, whatever a listing would cost, and takes over
    /// what is new.
    ///
    /// - Throws: why the cloud is not reached, or does not tell.
    func look(at id: ItemID) async throws(CloudFSError) -> Sight {
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        let base = try await pool.engine { try self.catalog.read { try $0.base(of: id) } }
        guard let base, let folder = base.parent,
            case .begun(var listing) = try await pool.engine({ try self.begin(folder, .few, mark) })
        else { return .elsewhere }
        listing.looked = base
        do throws(CloudFSError) {
            let path = listing.path.appending(try ItemName(base.name))
            let remote = try await provider.item(at: path)
            guard remote.kind == .file, !hasStableIDs || remote.id == base.remoteID else {
                return .elsewhere
            }
            let taking = try await take([remote], of: listing)
            if taking.hasOthers { return .elsewhere }
            if taking.isBlurred { return .blurred }
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return .elsewhere
        } catch  where error.code == .remoteChanged || error.code == .claimed {
            return .blurred
        }
        return try await hasNewer(id) ? .inUse : .clear
    }

    /// Whether the cloud is known to have a version that could not be brought here yet.
    func hasNewer(_ id: ItemID) async throws(CloudFSError) -> Bool {
        try await pool.engine { try self.catalog.read { try $0.newer(of: id) != nil } }
    }

    /// Makes the next listing look closer at items that are of another kind than they seemed.
    private func forgetOthers(
        _ items: [RemoteItem],
        in folder: ItemID
    ) throws(CloudFSError) -> Set<ItemName> {
        let others = try catalog.read { reader in
            try items.compactMap { item -> (ItemName, BaseRecord)? in
                guard let base = try reader.base(named: item.name.bytes, in: folder),
                    try reader.existing(base.item).item.kind != item.kind
                else { return nil }
                return (item.name, base)
            }
        }
        guard !others.isEmpty else { return [] }
        try catalog.write { writer in
            for (_, other) in others {
                guard var base = try writer.reader.base(of: other.item), base == other else {
                    continue
                }
                base.version = base.version.fromSketch.asStale
                try writer.setBase(base)
            }
        }
        return Set(others.map(\.0))
    }

    /// Takes over what the answer to a fetch told about a file that was known from a listing, or
    /// what a look at a folder did, of which no version tells that something was written on it.
    ///
    /// - Returns: The folder to be listed again, when the item is no file at all.
    func learn(_ remote: RemoteItem, of id: ItemID) async throws(CloudFSError) -> ItemID? {
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        let folder = try await pool.engine { () throws -> ItemID? in
            try self.catalog.read { reader in
                guard let base = try reader.base(of: id),
                    base.version.isSketch || remote.kind == .folder,
                    base.version.content == remote.version.content, base.name == remote.name.bytes
                else { return nil }
                return base.parent
            }
        }
        guard let folder,
            case .begun(let listing) = try await pool.engine({ try self.begin(folder, .few, mark) })
        else { return nil }
        return try await take([remote], of: listing).hasOthers ? folder : nil
    }
}

extension RemoteItem {
    /// Whether there is more to an item than its sketch said.
    func tellsMore(than sketch: RemoteItem) -> Bool {
        if kind != sketch.kind || documentID != sketch.documentID || !attributes.isEmpty {
            return true
        }
        let known = sketch.metadata
        if (metadata.userID, metadata.groupID) != (known.userID, known.groupID) { return true }
        // The time of a folder is nobody's; that of a file may be rounded.
        let isOld =
            kind == .folder || metadata.modified.seconds == known.modified.seconds
        return !isOld || metadata.permissions != known.permissions
    }
}
