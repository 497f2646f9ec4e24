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
    let packages: Packages
    let coordinator: Coordinator
    /// Names conflict versions made here.
    let deviceName: String
    let logger: Logger
    let precedence: Precedence
    /// Stores what comparisons found, one page after the other: who stores something for a program
    /// waits for one of them at most.
    private let comparing: BlockingPool
    let whereabouts = Whereabouts()
    /// Files left as they are for as long as a coordinated program has claimed them.
    let postponed = Mutex<Set<ItemID>>([])
    /// Those whose claimant waits for the newest version before it begins, and who brings it.
    let beginners = Mutex<[ItemID: Claimant]>([:])
    let detailsLeft = Mutex(firstDetails)
    /// Whether the catalog knows that the container is not empty.
    let hasItems = Atomic(false)

    /// What one complete listing brought.
    struct Outcome: Sendable {
        /// Folders whose own children are not known yet.
        var unlisted: [ItemID] = []
        /// Folders that are known, and whose children are to be listed again.
        var doubted: [ItemID] = []
        /// What the catalog has and the listing lacks; it may have moved elsewhere.
        var missing: [BaseRecord] = []
        /// Whether items are known by their names only.
        var hasSketches = false
        /// What the cloud has there and was left out, because this machine was changing it.
        var skipped: Set<RemoteID> = []
        /// Whether anything was left out for that reason.
        var isBlurred = false
        /// Whether names stand for something that cannot be told now.
        var hasHidden = false
        /// Whether the folder was on its way in the cloud, so that nothing is known of it yet.
        var isStale = false
        /// Whether another folder was listed, which somebody has put in this one's place.
        var isElsewhere = false
    }

    var catalog: Catalog { files.catalog }

    /// Whether the cloud tells where an item was that is elsewhere now.
    var hasStableIDs: Bool { provider.capabilities.contains(.stableIDs) }

    init(
        files: OpenFiles,
        provider: any CloudProvider,
        pool: BlockingPool,
        hub: ChangeHub,
        mutations: RemoteMutations,
        hydrator: Hydrator,
        packages: Packages,
        coordinator: Coordinator,
        deviceName: String,
        logger: Logger
    ) {
        self.files = files
        precedence = Precedence(clocks: files.clocks)
        self.provider = provider
        self.pool = pool
        comparing = pool.another(name: "cloudfs-compare", width: 1)
        self.hub = hub
        self.mutations = mutations
        self.hydrator = hydrator
        self.packages = packages
        self.coordinator = coordinator
        self.deviceName = deviceName
        self.logger = logger
    }

    /// How much is asked about new items of which a listing is only a sketch.
    enum Depth: Sendable {
        /// Everything about a few: as many as one round of requests answers.
        case few
        /// The same in the first folders, then nothing: whole containers are compared by names.
        case names
    }

    /// How many sketches are looked at in one round of requests.
    static let fewDetails = 32
    /// How many items are looked at while a whole container is compared for the first time.
    private static let firstDetails = 10_000

    /// Lists a folder completely and applies what changed in it; deletions are left to the caller.
    ///
    /// The first listing of a folder that was interrupted goes on from where it was; what was
    /// deleted in the cloud before that point is found by the next one.
    ///
    /// - Throws: `notFound` if the cloud no longer has the folder; what the provider throws.
    func refresh(
        _ folder: ItemID,
        depth: Depth
    ) async throws(CloudFSError) -> Outcome {
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        var listing: Listing
        switch try await pool.engine({ try self.begin(folder, depth, mark) }) {
        case .begun(let begun): listing = begun
        case .isDeleted: return Outcome()
        case .isOnItsWay: return Outcome(isBlurred: true)
        }
        let start = listing.first
        do throws(CloudFSError) {
            try await takePages(&listing)
        } catch {
            if error.code == .notFound || error.code == .notDirectory {
                whereabouts.noteMissed(folder, at: listing.path)
            }
            let isChanged = error.code == .remoteChanged
            guard isChanged || start != nil && error.code == .invalidArgument else { throw error }
            // The provider no longer knows the page.
            try await pool.engine {
                try self.catalog.write { try $0.setListingPage(nil, of: folder) }
            }
            listing.first = nil
            listing.seen = []
            // What was taken over before is not to stay if it went meanwhile.
            if isChanged { listing.isNew = false }
            try await takePages(&listing)
        }
        let complete = listing
        let missing = try await pool.engine { try self.finish(complete) }
        var outcome = complete.outcome
        if let above = try await lookAtFolder(of: complete) { outcome.doubted.append(above) }
        outcome.missing =
            missing?.filter { !mutations.blurs($0.item, at: $0.place, since: mark) } ?? []
        outcome.isStale = missing == nil && complete.isFirst
        outcome.isBlurred =
            !outcome.skipped.isEmpty || outcome.missing.count != missing?.count
        if !outcome.missing.isEmpty, try await !isOfFolder(complete) {
            outcome.missing = []
            outcome.isElsewhere = true
            logger.debug("another folder is there", metadata: ["folder.id": "\(folder)"])
        }
        return outcome
    }

    /// A look at a folder under way.
    struct Listing: Sendable {
        let folder: ItemID
        let path: RemotePath
        /// What the cloud called it.
        var remoteID: RemoteID?
        let depth: Depth
        let mark: UInt64
        /// Whether the folder was never listed completely before.
        let isFirst: Bool
        /// Whether nothing in it was known when the listing began.
        var isNew: Bool
        /// Whether the catalog knows that it is complete.
        var isMarked = false
        /// Where it begins; `nil` for the beginning.
        var first: PageToken?
        /// Hashes of the names that the cloud has.
        ///
        /// An item may get another base while the listing runs, but a name that was listed is
        /// there. Two names with one hash are both taken for listed, this time.
        var seen: Set<Int> = []
        /// Whether there are names of what could not be looked at.
        var hasUnreadable = false
        /// What it tells of the folder itself.
        var sketch: RemoteItem?
        /// Of a look at one file: what was agreed on before it.
        ///
        /// If that is not so any more, a listing that was made beside it may tell of something
        /// newer.
        var looked: BaseRecord?
        var outcome = Outcome()
    }

    enum Beginning: Sendable {
        case begun(Listing)
        /// Deleted here: what is in it is found when its deletion is sent.
        case isDeleted
        /// Made here, and whether the cloud has it is not known yet: if so, somebody else may have
        /// put something into it, of which the feed tells no more.
        case isOnItsWay
    }

    func begin(
        _ folder: ItemID,
        _ depth: Depth,
        _ mark: UInt64
    ) throws(CloudFSError) -> Beginning {
        try catalog.read { reader in
            let path = try reader.remotePath(of: folder)
            let record = try reader.item(folder)
            guard try reader.isKept(folder) else { return .isDeleted }
            guard let path, let record else {
                if try reader.sent(of: folder) != nil { return .isOnItsWay }
                throw CloudFSError(.notFound, "the cloud does not have the folder", item: folder)
            }
            let first = record.isListed ? nil : try reader.listingPage(of: folder)
            return .begun(
                Listing(
                    folder: folder,
                    path: path,
                    remoteID: try reader.base(of: folder)?.remoteID,
                    depth: depth,
                    mark: mark,
                    isFirst: !record.isListed,
                    isNew: try !record.isListed && first == nil && !reader.hasBases(in: folder),
                    first: first
                )
            )
        }
    }

    func apply(
        _ page: ListingPage,
        to listing: inout Listing
    ) async throws(CloudFSError) {
        let folder = listing.folder
        let unknown = page.hidden + page.unreadable
        for name in unknown { listing.seen.insert(name.bytes.hashValue) }
        if !unknown.isEmpty { listing.outcome.hasHidden = true }
        if !page.unreadable.isEmpty { listing.hasUnreadable = true }
        if let sketch = page.folder { listing.sketch = sketch }
        var compared = Comparison()
        if listing.isNew, !hasStableIDs {
            compared.new = page.items
        } else {
            compared = try await pool.engine { try self.compare(page.items, in: folder) }
        }
        for name in compared.unchanged { listing.seen.insert(name.hashValue) }
        guard !compared.changed.isEmpty || !compared.new.isEmpty else { return }
        var differing = try await provider.details(of: compared.changed, in: listing.path)
        let hidden = differing.partition { $0.isSketch }
        // Of what is known of these, nobody can tell what is still so; their names are theirs.
        for item in differing[hidden...] { listing.seen.insert(item.name.bytes.hashValue) }
        if hidden < differing.count { listing.outcome.hasHidden = true }
        differing.removeSubrange(hidden...)
        // What is written on a folder can wait until somebody sees it.
        let split = compared.new.partition { $0.kind == .folder && listing.depth == .names }
        let (asked, left) = (compared.new[..<split], compared.new[split...])
        differing += left
        if wantsDetails(ofSketches: asked.count { $0.isSketch }, listing.depth) {
            differing += try await provider.details(of: Array(asked), in: listing.path)
        } else {
            differing += asked
            listing.outcome.hasSketches = true
        }
        for item in differing { listing.seen.insert(item.name.bytes.hashValue) }
        var moves: [RemoteID: ItemID] = [:]
        for candidate in compared.candidates {
            switch try await hasLeft(candidate) {
            case true?: moves[candidate.remoteID] = candidate.item
            case false?: break
            case nil:
                differing.removeAll { $0.id == candidate.remoteID }
                listing.outcome.skipped.insert(candidate.remoteID)
                listing.outcome.hasHidden = true
            }
        }
        let found = differing
        try await applyContent(ofMoved: moves, among: found, of: listing)
        let (movedItems, current) = (moves, listing)
        // In small transactions, also for what comes beside the items: the last may be of none.
        var rest = found[...]
        repeat {
            let slice = Array(rest.prefix(Self.sliceCount))
            let isLast = slice.count == rest.count
            let isEnd = isLast && page.next == nil
            // Somebody who waits for one folder does not wait for all that are compared beside it.
            let isAwaited = listing.depth == .few || precedence.isAwaited(folder)
            let pool = isAwaited ? pool : comparing
            let changed = try await pool.engine {
                let changed = try self.apply(
                    slice,
                    of: current,
                    movedItems,
                    next: isLast ? page.next : nil,
                    isEnd: isEnd
                )
                self.files.forget(changed.nameless)
                return changed
            }
            rest = rest.dropFirst(changed.count)
            listing.isMarked = changed.isMarked
            hub.publish(changed.changes + (changed.isMarked ? [.listed(folder)] : []))
            if changed.hasWanted { files.wanted.raise() }
            listing.outcome.unlisted += changed.unlisted
            listing.outcome.doubted += changed.doubted
            listing.outcome.skipped.formUnion(changed.skipped)
            try await FaultPoint.applyPage.passInTask()
            for (id, remote) in changed.contents {
                let isSure = try await applyContent(of: id, remote, of: listing)
                if !isSure { listing.outcome.skipped.insert(remote.id) }
            }
        } while !rest.isEmpty
    }

    /// How many items are stored in one transaction.
    private static let sliceCount = 250

    func apply(
        _ items: [RemoteItem],
        of listing: Listing,
        _ moves: [RemoteID: ItemID] = [:],
        next: PageToken? = nil,
        isEnd: Bool = false
    ) throws(CloudFSError) -> PageChanges.Outcome {
        try catalog.write(isLong: true) { writer in
            let (folder, mark) = (listing.folder, listing.mark)
            guard try isStill(folder, at: listing.path, since: mark, writer.reader),
                try isAgreed(listing.looked, writer.reader)
            else {
                return PageChanges.Outcome(skipped: Set(items.map(\.id)), count: items.count)
            }
            // Another listing may have taken one meanwhile for what has its old place.
            let moves = try moves.filter { id, item in
                try writer.reader.base(of: item)?.remoteID == id
            }
            var page = PageChanges(
                applier: self,
                writer: writer,
                folder: folder,
                mark: mark,
                moves: moves
            )
            try page.apply(items)
            guard page.result.count == items.count else { return page.result }
            if let next, listing.isFirst, provider.capabilities.contains(.lastingPages) {
                try writer.setListingPage(next, of: folder)
            }
            // Content may ask the cloud, and fail: then the folder is not listed yet.
            if isEnd, listing.isFirst, page.result.contents.isEmpty {
                try writer.setListed(true, of: folder)
                page.result.isMarked = true
            }
            return page.result
        }
    }

    /// Whether what was agreed on before a look at one file is so still.
    private func isAgreed(_ looked: BaseRecord?, _ reader: CatalogReader) throws -> Bool {
        guard let looked else { return true }
        return try reader.base(of: looked.item) == looked
    }

    /// Whether a path still means the folder it meant when its listing began: neither it nor a
    /// folder above was moved by this machine meanwhile, and nobody deleted it here.
    func isStill(
        _ folder: ItemID,
        at path: RemotePath,
        since mark: UInt64,
        _ reader: CatalogReader
    ) throws -> Bool {
        try reader.isKept(folder) && isUnmoved(folder, at: path, since: mark, reader)
    }

    /// The same, whether or not it was deleted here.
    func isUnmoved(
        _ folder: ItemID,
        at path: RemotePath,
        since mark: UInt64,
        _ reader: CatalogReader
    ) throws -> Bool {
        guard try reader.remotePath(of: folder) == path else { return false }
        var current: ItemID? = folder
        while let id = current {
            if mutations.blursPath(of: id, since: mark) { return false }
            current = try reader.base(of: id)?.parent
        }
        return true
    }

    /// What of a page is as the base says, what differs, and what is known from elsewhere.
    private struct Comparison: Sendable {
        var unchanged: [[UInt8]] = []
        var changed: [RemoteItem] = []
        var new: [RemoteItem] = []
        var candidates: [BaseRecord] = []
    }

    private func compare(
        _ items: [RemoteItem],
        in folder: ItemID
    ) throws(CloudFSError) -> Comparison {
        let hasStableIDs = hasStableIDs
        return try catalog.read { reader in
            var result = Comparison()
            let bases = try reader.bases(named: items.map(\.name.bytes), in: folder)
            for item in items {
                let base = bases[item.name.bytes]
                let isSame = !hasStableIDs || base?.remoteID == item.id
                if let base, isSame, item.isUnchanged(since: base.version) {
                    result.unchanged.append(base.name)
                    continue
                }
                if base == nil { result.new.append(item) } else { result.changed.append(item) }
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
    ///
    /// - Returns: `nil` if what is at the old place cannot be looked at.
    private func hasLeft(_ base: BaseRecord) async throws(CloudFSError) -> Bool? {
        let path = try await pool.engine {
            try self.catalog.read { try $0.remotePath(of: base.item) }
        }
        guard let path else { return true }
        do throws(CloudFSError) {
            return try await !isThere(base.remoteID, at: path)
        } catch  where error.code == .internalFailure {
            return nil
        }
    }
}
