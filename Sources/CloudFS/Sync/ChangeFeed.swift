import Logging
import Synchronization

/// Keeps the catalog as the cloud is: compares everything once, then what the feed hints at.
///
/// Folders are compared by complete listings. Two lanes run beside each other: hints, and folders
/// that somebody waits for, are never behind the full comparison.
final class ChangeFeed: Sendable {
    let applier: RemoteApplier
    let connection: Connection
    private let container: ContainerID
    /// How long a listing of a folder counts as fresh.
    private let listingAge: Duration
    let root: ItemID
    let logger: Logger
    /// Called when the cloud is reached, for the first time or again.
    private let onConnect: @Sendable () -> Void
    private let state = Mutex(State())
    private let hinted = Signal()
    let scanNeeded = Signal()
    /// Raised after everything was compared.
    let settled = Signal()
    let failed = FailedListings(limit: looksLimit)
    let sketched = FolderQueue(limit: looksLimit)

    private struct State {
        /// Folders to be listed again soon.
        var hints: Set<ItemID> = []
        /// Whether some that were hinted at are being listed.
        var isFollowing = false
        /// Folders whose listing met something that this machine was changing itself.
        var blurred: Set<ItemID> = []
        /// What the last listings of folders left out: it may be missing elsewhere.
        var skipped: [ItemID: Set<RemoteID>] = [:]
        var flights: [ItemID: Task<Result<RemoteApplier.Outcome, CloudFSError>, Never>] = [:]
        /// When folders were last listed, or somebody's opening them led to it.
        var looks: [ItemID: Duration] = [:]
        var comparisons = Comparisons()
        /// Whether it was asked from where on changes are heard of: what is compared before has to
        /// be compared again.
        var hasBegun = false
        /// Up to where changes were heard of, and what of them is not noted yet.
        var anchor: SyncAnchor?
        var heard: [ChangeHint] = []
        /// How many list folders that nobody listed before.
        var firstListings = 0

        var hasCompared: Bool { comparisons.areCurrent }
        var hasCaughtUp: Bool { hasCompared && hints.isEmpty && !isFollowing }
    }

    var catalog: Catalog { applier.catalog }
    var pool: BlockingPool { applier.pool }

    init(
        applier: RemoteApplier,
        connection: Connection,
        container: ContainerRecord,
        listingAge: Duration,
        logger: Logger,
        onConnect: @escaping @Sendable () -> Void
    ) {
        self.onConnect = onConnect
        self.applier = applier
        self.connection = connection
        self.container = container.id
        self.listingAge = listingAge
        self.root = container.root
        self.logger = logger
    }

    /// Whether the whole container was compared since the connection was made.
    var hasCompared: Bool { state.withLock { $0.hasCompared } }

    /// The same, and whether nothing that was heard of since waits to be compared.
    var hasCaughtUp: Bool { state.withLock { $0.hasCaughtUp } }

    /// The same, and whether nothing is being listed or has failed.
    var isCurrent: Bool {
        state.withLock { $0.hasCaughtUp && $0.flights.isEmpty } && failed.isEmpty
    }

    /// Notes that everything must be compared, also if a comparison is under way.
    func needComparison() { state.withLock { $0.comparisons.need() } }

    // MARK: - Running

    /// Runs until the task is cancelled, connecting again whenever the cloud was out of reach.
    func run() async {
        await withTaskCancellationHandler {
            await withTaskGroup(of: Void.self) { group in
                group.addTask { await self.followHints() }
                group.addTask { await self.scanWhenNeeded() }
                group.addTask { await self.lookAtSketches() }
                group.addTask { await self.listFailedAgain() }
                group.addTask { await self.stayConnected() }
                group.addTask { await self.probe() }
            }
        } onCancel: {
            let flights = state.withLock { Array($0.flights.values) }
            for flight in flights { flight.cancel() }
        }
    }

    /// Reaches the container for the first time or again.
    func connect() async throws(CloudFSError) {
        let record = try await pool.engine {
            try self.catalog.read { try $0.containers() }.first { $0.id == self.container }
        }
        guard let record else { throw CloudFSError(.internalFailure, "the container is unknown") }
        let expected = ContainerExpectation(identity: record.identity, hasItems: record.hasItems)
        let (identity, quota) = try await connection.noting { () async throws(CloudFSError) in
            let identity = try await applier.provider.connect(expecting: expected)
            return (identity, try await applier.provider.quota())
        }
        if record.identity != identity {
            try await pool.engine {
                try self.catalog.write { try $0.setContainer(self.container, identity: identity) }
            }
        }
        connection.setQuota(quota)
        noteConnected()
    }

    private func noteConnected() {
        connection.didConnect()
        onConnect()
        failed.noteConnected(at: clocks.elapsed())
    }

    private func stayConnected() async {
        var delay = Duration.seconds(1)
        while !Task.isCancelled {
            do throws(CloudFSError) {
                try await connect()
                logger.info("the cloud is reached")
                delay = .seconds(1)
                try await follow()
            } catch {
                if Task.isCancelled { return }
                connection.didFail(error)
                logger.notice("the cloud cannot be reached", metadata: ["error": "\(error)"])
            }
            await pause(delay)
            delay = min(delay * 2, .seconds(15))
        }
    }

    /// Tries the cloud again after any request found it out of reach: the feed itself may be
    /// waiting quietly and never hear of it.
    private func probe() async {
        while !Task.isCancelled {
            await connection.lost.wait()
            var delay = Duration.milliseconds(200)
            while !Task.isCancelled, !connection.isOnline {
                await pause(delay)
                delay = min(delay * 2, .seconds(15))
                do throws(CloudFSError) {
                    try await connect()
                } catch {
                    logger.debug("still out of reach", metadata: ["error": "\(error)"])
                }
            }
            compareIfNeeded()
        }
    }

    /// Goes on with a comparison that stopped when the cloud went out of reach.
    private func compareIfNeeded() {
        if !hasCompared { scanNeeded.raise() }
    }

    func pause(_ delay: Duration) async {
        // A cancelled pause ends early, and so does the loop around it.
        try? await Task.sleep(for: delay)
    }

    private func follow() async throws(CloudFSError) {
        var anchor = try await begin()
        try await noteHeard()
        while !Task.isCancelled {
            let page = try await applier.provider.changes(after: anchor)
            anchor = page.anchor
            state.withLock { state in
                state.anchor = page.anchor
                state.heard += page.hints
            }
            try await noteHeard()
            if !connection.isOnline {
                noteConnected()
                compareIfNeeded()
            }
        }
    }

    /// Notes what was heard of; what fails is noted next time.
    private func noteHeard() async throws(CloudFSError) {
        try await note(state.withLock { $0.heard })
        state.withLock { $0.heard = [] }
    }

    /// Asks from where on changes are heard of; from there on everything is compared once.
    ///
    /// Where they cannot be heard of, comparing finds them all the same. But not all: of what
    /// another device wrote within the second of what was known before, a listing may tell
    /// nothing. So what was heard of last is where it goes on after a time out of reach.
    private func begin() async throws(CloudFSError) -> SyncAnchor {
        defer {
            state.withLock { $0.hasBegun = true }
            scanNeeded.raise()
        }
        let last = state.withLock { $0.anchor }
        let anchor =
            if let last { last } else { try await applier.provider.changes(after: nil).anchor }
        state.withLock { $0.anchor = anchor }
        needComparison()
        return anchor
    }

    // MARK: - Listing

    /// Lists the folder again soon.
    func hint(_ folders: [ItemID]) {
        state.withLock { $0.hints.formUnion(folders) }
        hinted.raise()
    }

    /// Lists again what could not be seen clearly while this machine was changing it.
    func lookAgain() {
        let folders = state.withLock { state in
            defer { state.blurred = [] }
            return state.blurred
        }
        if !folders.isEmpty { hint(Array(folders)) }
    }

    /// Makes sure that the children of a folder are known.
    ///
    /// - Throws: `offline` or `timedOut` when they cannot be known; never `notFound` for that
    /// reason.
    func ensureListed(_ folder: ItemID) async throws(CloudFSError) {
        applier.precedence.beginWaiting(for: folder)
        defer { applier.precedence.endWaiting(for: folder) }
        var outcome = try await list(folder, depth: .few)
        while outcome.isStale {
            // This machine moves it in the cloud: what is in it is known when it has arrived.
            await pause(Self.movingPause)
            guard !Task.isCancelled else {
                throw CloudFSError(.cancelled, "a listing was ended", item: folder)
            }
            outcome = try await list(folder, depth: .few, isFresh: true)
        }
        if !outcome.unlisted.isEmpty { scanNeeded.raise() }
        if outcome.hasSketches { noteSketches(in: [folder]) }
    }

    /// Somebody opened a folder: what is in it is compared again, if the feed does not hear of
    /// everybody's changes and the last look was some time ago.
    ///
    /// - Returns: Whether a few of its items are known from a listing only: one round of requests
    ///   tells the rest, and `lookClosely` waits for it.
    func noteOpened(_ folder: ItemID) throws(CloudFSError) -> Bool {
        noteUse()
        if isListingFirst { applier.precedence.noteListing() }
        guard !applier.provider.capabilities.contains(.hearsAll), noteLook(at: folder) else {
            return false
        }
        hint([folder])
        let limit = RemoteApplier.fewDetails
        let count = try catalog.read { try $0.sketchCount(in: folder, limit: limit + 1) }
        if count > limit { noteSketches(in: [folder]) }
        return (1...limit).contains(count) && connection.isOnline
    }

    /// Whether folders are being listed that nobody listed before.
    private var isListingFirst: Bool { state.withLock { $0.firstListings > 0 } }

    /// - Returns: Whether the last look was long enough ago for another one.
    private func noteLook(at folder: ItemID) -> Bool {
        let now = clocks.elapsed()
        return state.withLock { state in
            if let last = state.looks[folder], now - last < listingAge { return false }
            if state.looks.count >= Self.looksLimit { state.looks = [:] }
            state.looks[folder] = now
            return true
        }
    }

    private func noteSkipped(_ items: Set<RemoteID>, in folder: ItemID) {
        state.withLock { $0.skipped[folder] = items.isEmpty ? nil : items }
    }

    /// What listings left out until they are repeated.
    var skipped: Set<RemoteID> {
        state.withLock { $0.skipped.values.reduce(into: []) { $0.formUnion($1) } }
    }

    /// Notes a folder whose listing met something that this machine was changing.
    func noteBlurred(_ folder: ItemID) {
        state.withLock { _ = $0.blurred.insert(folder) }
        // Whatever blurred it may have ended before this was noted, and looked again already.
        if applier.mutations.isIdle { lookAgain() }
    }

    /// Somebody uses the drive: news is wanted soon.
    func noteUse() {
        applier.provider.noteUse()
    }

    /// How many items are looked at closely when everything was compared; the others when their
    /// folders are opened.
    private static let firstDetails = 10_000
    private static let looksLimit = 10_000
    static let movingPause = Duration.milliseconds(100)

    var clocks: Clocks { applier.files.clocks }

    /// One listing of a folder at a time; whoever comes meanwhile gets the same one.
    func list(
        _ folder: ItemID,
        depth: RemoteApplier.Depth,
        isFresh: Bool = false
    ) async throws(CloudFSError) -> RemoteApplier.Outcome {
        let running = state.withLock { $0.flights[folder] }
        if isFresh, let running { _ = await running.value }
        let flight = state.withLock { state in
            if let flight = state.flights[folder] { return flight }
            let flight = Task { () -> Result<RemoteApplier.Outcome, CloudFSError> in
                defer { self.state.withLock { $0.flights[folder] = nil } }
                do throws(CloudFSError) {
                    let outcome = try await self.applier.refresh(folder, depth: depth)
                    self.note(outcome, of: folder)
                    if outcome.isElsewhere { await self.hintParent(of: folder) }
                    try await self.lookWhereTheyAre()
                    return .success(outcome)
                } catch {
                    if error.code == .notFound { self.noteSkipped([], in: folder) }
                    // Else it is this folder's own, which is tried less and less often.
                    if error.isOfConnection { await self.noteUnlistedLeft() }
                    return .failure(error)
                }
            }
            state.flights[folder] = flight
            return flight
        }
        _ = noteLook(at: folder)
        return try await flight.value.get()
    }

    private func note(_ outcome: RemoteApplier.Outcome, of folder: ItemID) {
        noteSkipped(outcome.skipped, in: folder)
        if outcome.isBlurred { noteBlurred(folder) }
        if !outcome.doubted.isEmpty { hint(outcome.doubted) }
        // Nothing tells when what hides something is gone, or where the folder is.
        let isDone = !outcome.hasHidden && !outcome.isElsewhere
        if isDone { failed.forget(folder) } else { noteFailed([folder]) }
    }

    /// Whether what a folder lacks may not be taken for gone before all is compared: it is listed
    /// again then.
    func holdsBack(_ folder: ItemID) -> Bool {
        state.withLock { $0.comparisons.holdsBack(folder) }
    }

    private func followHints() async {
        while !Task.isCancelled {
            let batch = state.withLock { state in
                let batch = state.hints.prefix(256)
                state.hints.subtract(batch)
                state.isFollowing = !batch.isEmpty
                return Array(batch)
            }
            guard !batch.isEmpty else {
                await hinted.wait()
                continue
            }
            await processLogging(batch)
        }
    }

    private func scanWhenNeeded() async {
        while !Task.isCancelled {
            await scanNeeded.wait()
            guard connection.isOnline else {
                failed.addAll(at: clocks.elapsed())
                continue
            }
            guard state.withLock({ $0.hasBegun }) else { continue }
            do throws(CloudFSError) {
                let known = try await pool.engine {
                    try self.catalog.read { try $0.lastListedFolder() }
                }
                let needed = state.withLock { $0.comparisons.needed }
                try await scanUnlisted()
                if !hasCompared {
                    if let known { try await compareAll(through: known) }
                    let due = state.withLock { $0.comparisons.noteMade(for: needed) }
                    if !due.isEmpty { hint(due) }
                    let sketched = try await pool.engine {
                        try self.catalog.read {
                            try $0.sketchedFolders(itemLimit: Self.firstDetails)
                        }
                    }
                    noteSketches(in: sketched)
                    settled.raise()
                }
                // Not if something made another comparison necessary meanwhile.
                if hasCompared { failed.noteCompared() }
            } catch {
                connection.didFail(error)
                failed.addAll(at: clocks.elapsed())
                logger.notice("comparing with the cloud stopped", metadata: ["error": "\(error)"])
            }
        }
    }

    /// Lists the folders whose children are not known.
    ///
    /// - Parameter isPatient: Whether folders are left out that failed and are tried again later.
    func scanUnlisted(isPatient: Bool = true) async throws(CloudFSError) {
        state.withLock { $0.firstListings += 1 }
        defer { state.withLock { $0.firstListings -= 1 } }
        // What cannot be listed now, such as a folder that is to be deleted, holds nothing up.
        var last = ItemID(0)
        while !Task.isCancelled {
            let start = last
            let batch = try await pool.engine {
                try self.catalog.read { try $0.unlistedFolders(after: start, limit: 64) }
            }
            guard let end = batch.last else { return }
            let due = batch.filter { !isPatient || !failed.isPutOff($0) }
            try await process(due, depth: .names, isFresh: false)
            last = end
        }
    }

    private func processLogging(_ batch: [ItemID]) async {
        do throws(CloudFSError) {
            try await process(batch, depth: .few)
        } catch {
            connection.didFail(error)
            // What could not be listed is compared again after the next connection.
            needComparison()
            noteFailed(batch)
            if !error.isOfConnection { failed.addAll(at: clocks.elapsed()) }
            logger.notice("listing stopped", metadata: ["error": "\(error)"])
        }
    }
}
