import Logging
import Synchronization

/// Makes true on this machine what a listing of a folder in the cloud says.
///
/// A listing is compared with the base, entry by entry; what differs is decided by `Reconciler`.
/// Names, new items and metadata change a page at a time in one transaction; content one item at a
/// time, under that file's lock.
final class RemoteApplier: Sendable {
    let files: OpenFiles
    let provider: any CloudProvider
    let pool: BlockingPool
    let hub: ChangeHub
    let mutations: RemoteMutations
    let hydrator: Hydrator
    let options: Options
    let logger: Logger
    private let detailsLeft = Mutex(firstDetails)

    struct Options: Sendable {
        /// Names conflict versions made here.
        var deviceName: String
        /// Who items of the cloud belong to; `nil` shows the ids that the cloud has.
        var owner: (userID: UInt32, groupID: UInt32)?
    }

    /// What one complete listing brought.
    struct Outcome: Sendable {
        /// Folders whose own children are not known yet.
        var unlisted: [ItemID] = []
        /// What the catalog has and the listing lacks; it may have moved elsewhere.
        var missing: [ItemID] = []
        /// Whether items are known by their names only.
        var hasSketches = false
        /// Whether something was left out because this machine was changing it.
        var isBlurred = false
    }

    var catalog: Catalog { files.catalog }

    init(
        files: OpenFiles,
        provider: any CloudProvider,
        pool: BlockingPool,
        hub: ChangeHub,
        mutations: RemoteMutations,
        hydrator: Hydrator,
        options: Options,
        logger: Logger
    ) {
        self.files = files
        self.provider = provider
        self.pool = pool
        self.hub = hub
        self.mutations = mutations
        self.hydrator = hydrator
        self.options = options
        self.logger = logger
    }

    /// How much is asked about items of which a listing is only a sketch.
    enum Depth: Sendable {
        /// Details of new items as long as there are few in all: for comparing whole containers.
        case names
        /// Details of new items where they are few in the folder: somebody waits.
        case prompt
        /// Details of all that lack them.
        case full
    }

    /// Lists a folder completely and applies what changed in it; deletions are left to the caller.
    ///
    /// - Throws: `notFound` if the cloud no longer has the folder; what the provider throws.
    func refresh(
        _ folder: ItemID,
        depth: Depth = .full
    ) async throws(CloudFSError) -> Outcome {
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        let (path, isDeletedHere) = try await pool.engine {
            try self.catalog.read { reader in
                (
                    try reader.remotePath(of: folder),
                    try folder != .root && reader.name(of: folder) == nil
                )
            }
        }
        // What is in a folder that was deleted here is found when its deletion is sent.
        guard !isDeletedHere else { return Outcome() }
        guard let path else {
            throw CloudFSError(.notFound, "the cloud does not have the folder", item: folder)
        }
        var outcome = Outcome()
        var seen: Set<ItemID> = []
        var page: PageToken?
        var isLast = false
        while !isLast {
            let listing = try await provider.children(of: path, after: page)
            try await apply(listing.items, in: folder, at: path, depth, mark, &seen, &outcome)
            page = listing.next
            isLast = page == nil
        }
        let found = seen
        let missing = try await pool.engine {
            try self.catalog.write { writer in
                let record = try writer.reader.existing(folder)
                if !record.isListed { try writer.setListed(true, of: folder) }
                if !found.isEmpty { try writer.setHasItems(record.item.container) }
                return try writer.reader.bases(in: folder).map(\.item).filter {
                    !found.contains($0)
                }
            }
        }
        // Where folders are moved in many steps, one that is to be moved may be between two places.
        let movesInSteps = !provider.capabilities.contains(.folderMove)
        let gone = try await pool.engine {
            try self.catalog.read { reader -> [ItemID] in
                guard try self.isStill(folder, at: path, since: mark, reader) else { return [] }
                guard movesInSteps else { return missing }
                if try self.waitsToMove(folder, reader) { return [] }
                return try missing.filter { try !self.waitsToMove($0, reader) }
            }
        }
        outcome.missing = gone.filter { !mutations.blurs($0, since: mark) }
        if outcome.missing.count < missing.count { outcome.isBlurred = true }
        return outcome
    }

    private func apply(
        _ items: [RemoteItem],
        in folder: ItemID,
        at path: RemotePath,
        _ depth: Depth,
        _ mark: UInt64,
        _ seen: inout Set<ItemID>,
        _ outcome: inout Outcome
    ) async throws(CloudFSError) {
        let compared = try await pool.engine {
            try self.compare(items, in: folder, needsDetails: depth == .full)
        }
        seen.formUnion(compared.unchanged)
        guard !compared.known.isEmpty || !compared.new.isEmpty else { return }
        var differing = try await provider.details(of: compared.known, in: path)
        if wantsDetails(of: compared.new, depth) {
            differing += try await provider.details(of: compared.new, in: path)
        } else {
            differing += compared.new
            outcome.hasSketches = true
        }
        let found = differing
        var moves: [RemoteID: ItemID] = [:]
        for candidate in compared.candidates {
            if try await hasLeft(candidate) { moves[candidate.remoteID] = candidate.item }
        }
        let movedItems = moves
        let page = try await pool.engine {
            try self.catalog.write { writer -> PageChanges.Outcome in
                guard try self.isStill(folder, at: path, since: mark, writer.reader) else {
                    return PageChanges.Outcome(isBlurred: true)
                }
                var page = PageChanges(
                    applier: self,
                    writer: writer,
                    folder: folder,
                    mark: mark,
                    moves: movedItems
                )
                try page.apply(found)
                return page.result
            }
        }
        hub.publish(page.changes)
        if page.hasWanted { files.wanted.raise() }
        seen.formUnion(page.seen)
        outcome.unlisted += page.unlisted
        outcome.isBlurred = outcome.isBlurred || page.isBlurred
        for (id, remote) in page.contents {
            try await applyContent(of: id, remote, in: folder)
        }
    }

    /// Whether a path still means the folder it meant when its listing began: neither it nor a
    /// folder above was moved by this machine meanwhile.
    private func isStill(
        _ folder: ItemID,
        at path: RemotePath,
        since mark: UInt64,
        _ reader: CatalogReader
    ) throws -> Bool {
        guard try reader.remotePath(of: folder) == path else { return false }
        var current: ItemID? = folder
        while let id = current {
            if mutations.blurs(id, since: mark) { return false }
            current = try reader.base(of: id)?.parent
        }
        return true
    }

    /// Whether an item, or a folder above it, is to be moved in the cloud by this machine: it may
    /// have been, halfway, before a crash.
    private func waitsToMove(_ item: ItemID, _ reader: CatalogReader) throws -> Bool {
        var current: ItemID? = item
        while let id = current, let base = try reader.base(of: id), base.parent != nil {
            let name = try reader.name(of: id)
            guard name?.parent == base.parent, name?.name == base.name else { return true }
            current = base.parent
        }
        return false
    }

    /// What of a page is as the base says, what differs, and what is known from elsewhere.
    private struct Comparison: Sendable {
        var unchanged: [ItemID] = []
        var known: [RemoteItem] = []
        var new: [RemoteItem] = []
        var candidates: [BaseRecord] = []
    }

    private func wantsDetails(of new: [RemoteItem], _ depth: Depth) -> Bool {
        let count = new.count { $0.isSketch }
        switch depth {
        case .full: return true
        case .prompt: return count <= Self.promptDetails
        case .names:
            return detailsLeft.withLock { left in
                guard count <= left else { return false }
                left -= count
                return true
            }
        }
    }

    /// How many items of a page are looked at while somebody waits for their names.
    private static let promptDetails = 200
    /// How many items are looked at one by one when a container is compared for the first time;
    /// the others when their folders are opened.
    private static let firstDetails = 10_000

    private func compare(
        _ items: [RemoteItem],
        in folder: ItemID,
        needsDetails: Bool
    ) throws(CloudFSError) -> Comparison {
        let hasStableIDs = provider.capabilities.contains(.stableIDs)
        return try catalog.read { reader in
            var result = Comparison()
            for item in items {
                let base = try reader.base(named: item.name.bytes, in: folder)
                let isSame = !hasStableIDs || base?.remoteID == item.id
                let isDetailed = !needsDetails || base?.version.isSketch != true
                if let base, isSame, isDetailed, item.isUnchanged(since: base.version) {
                    result.unchanged.append(base.item)
                    continue
                }
                if base == nil { result.new.append(item) } else { result.known.append(item) }
                if hasStableIDs, let other = try reader.base(withRemoteID: item.id),
                    other.item != base?.item
                {
                    result.candidates.append(other)
                }
            }
            return result
        }
    }

    /// Whether an item that was seen at a new place is gone from its old one: moved, not copied.
    private func hasLeft(_ base: BaseRecord) async throws(CloudFSError) -> Bool {
        let path = try await pool.engine {
            try self.catalog.read { try $0.remotePath(of: base.item) }
        }
        guard let path else { return true }
        do throws(CloudFSError) {
            return try await provider.item(at: path).id != base.remoteID
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return true
        }
    }
}
