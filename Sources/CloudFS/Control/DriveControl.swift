import CloudFSControlAPI
import Glibc
import Synchronization

/// The drive as the control API sees it: translates between its values and the engine's.
final class DriveControl: ControlledDrive {
    /// What about a drive never changes while it is mounted.
    struct Identity: Sendable {
        var mountpoint: String
        var containerURL: String
        var deviceName: String
        var stateDirectory: String
        /// The process that ends the drive when it is asked to.
        var process: Int32
        var since: Timestamp
    }

    let filesystem: Filesystem
    let leases: LeaseKeeper
    let pool: BlockingPool
    let news: DriveNews
    let indexer: NameIndexer
    let queries: LiveQueries
    let bookmarkKey = BookmarkKey()
    private let purposes = Atomic<UInt64>(0)
    private let identity: Identity
    private let beginRestart: @Sendable () async throws(CloudFSError) -> Void
    private let beginUnmount: @Sendable (_ sending: Duration?) -> Void

    var catalog: Catalog { filesystem.catalog }

    init(
        filesystem: Filesystem,
        leases: LeaseKeeper,
        pool: BlockingPool,
        identity: Identity,
        restart: @escaping @Sendable () async throws(CloudFSError) -> Void,
        unmount: @escaping @Sendable (_ sending: Duration?) -> Void
    ) {
        self.filesystem = filesystem
        self.leases = leases
        self.pool = pool
        news = DriveNews(filesystem: filesystem, pool: pool)
        indexer = NameIndexer(filesystem, pool: pool)
        queries = LiveQueries(filesystem.hub)
        self.identity = identity
        beginRestart = restart
        beginUnmount = unmount
    }

    /// A number for a purpose that nobody named.
    func nextPurpose() -> UInt64 {
        purposes.add(1, ordering: .relaxed).newValue
    }

    /// What the `cloudfs` command finds the drive by.
    var record: DriveRecord {
        DriveRecord(
            mountpoint: identity.mountpoint,
            containerURL: identity.containerURL,
            stateDirectory: identity.stateDirectory,
            pid: identity.process
        )
    }

    // MARK: - The drive

    private static func mode(_ mode: Passthrough.Mode) -> DriveStatus.Mode {
        switch mode {
        case .on: DriveStatus.Mode(name: "passthrough", reason: "")
        case .off(let reason): DriveStatus.Mode(name: "splice", reason: reason)
        }
    }

    func status() async throws(CloudFSError) -> DriveStatus {
        try await pool.engine { try self.makeStatus() }
    }

    private func makeStatus() throws(CloudFSError) -> DriveStatus {
        let (totals, unlisted, outbox) = try catalog.read { reader in
            (try reader.residencyTotals(), try reader.unlistedFolderCount(), try counts(reader))
        }
        let space = try filesystem.files.store.space()
        let limits = filesystem.evictor.limits
        let notes = filesystem.feed.serverNotes
        return DriveStatus(
            mountpoint: identity.mountpoint,
            containerURL: identity.containerURL,
            containerDisplayName: filesystem.options.containerName,
            deviceName: identity.deviceName,
            stateDirectory: identity.stateDirectory,
            pid: identity.process,
            worker: getpid(),
            since: identity.since.wire,
            connection: connection(),
            isReadOnly: filesystem.isReadOnly,
            mode: Self.mode(filesystem.files.passthrough.mode),
            cache: CacheStatus(
                usedBytes: totals.localBytes,
                limitBytes: limits.cacheSize,
                freeFloorBytes: limits.freeFloor,
                freeBytes: space.available
            ),
            counts: ItemCounts(
                items: Int64(totals.items),
                resident: Int64(totals.resident),
                partial: Int64(totals.partial),
                dirty: Int64(totals.dirty),
                conflicts: Int64(totals.conflicts),
                errors: outbox.failed
            ),
            listing: ListingProgress(
                isComplete: unlisted == 0 && filesystem.feed.hasCompared,
                items: Int64(totals.items),
                foldersLeft: unlisted
            ),
            outbox: outbox,
            fetches: FetchCounts(
                requests: Int64(filesystem.hydrator.fetchCounters.requests),
                bytes: filesystem.hydrator.fetchCounters.bytes
            ),
            server: notes.isEmpty ? nil : notes
        )
    }

    private func connection() -> DriveStatus.Connection {
        if let since = filesystem.connection.pausedSince { return .paused(since: since.wire) }
        switch filesystem.connection.current {
        case .online: return .online
        case .connecting:
            return .offline(reason: "connecting", since: identity.since.wire)
        case .offline(let reason, let since): return .offline(reason: reason, since: since.wire)
        }
    }

    private func counts(_ reader: CatalogReader) throws -> OutboxCounts {
        let totals = try reader.outboxTotals()
        let failed = Int64(totals.failureCount(where: RetrySchedule.needsUser))
        let others = Int64(totals.items) - failed
        // Who is still at it may have sent the last of it.
        let uploading = min(Int64(filesystem.uploader.active.count), others)
        return OutboxCounts(
            waiting: others - uploading,
            uploading: uploading,
            failed: failed,
            bytes: totals.bytes
        )
    }

    func drain(timeout: Duration) async throws(CloudFSError) -> DrainResult {
        let (_, isOver) = try await filesystem.uploader.drain(within: timeout, isPatient: true)
        let left = try await pool.engine { try self.catalog.read { try self.counts($0) } }
        return DrainResult(remaining: left, isOver: isOver)
    }

    func pause() async throws(CloudFSError) {
        try await setPaused(true)
    }

    func resume() async throws(CloudFSError) {
        try await setPaused(false)
    }

    private func setPaused(_ isPaused: Bool) async throws(CloudFSError) {
        try await pool.engine {
            // One that is paused already is so since then.
            let begun = self.filesystem.connection.pausedSince ?? self.filesystem.clocks.now()
            try self.catalog.write { writer in
                if isPaused {
                    try writer.setSetting("paused", to: String(begun.nanoseconds))
                } else {
                    try writer.removeSetting("paused")
                }
            }
            self.filesystem.setPaused(since: isPaused ? begun : nil)
        }
    }

    func login(_ login: ProviderLogin) async throws(CloudFSError) -> DriveStatus {
        try await filesystem.feed.login(login)
        // What was refused for want of a login would wait for minutes else.
        _ = try await filesystem.uploader.drain(within: .zero)
        return try await status()
    }

    func restart() async throws(CloudFSError) {
        // Nobody tells the kernel later of a name that is gone.
        await filesystem.hub.settled()
        try await beginRestart()
    }

    func unmount(force: Bool, sending: Duration?) async throws(CloudFSError) -> OutboxCounts {
        let open = force ? [] : Set(filesystem.handles.openFiles.map(\.file.id))
        guard open.isEmpty else { throw try await isInUse(open) }
        let left = try await pool.engine { try self.catalog.read { try self.counts($0) } }
        beginUnmount(sending)
        return left
    }

    /// Names some of the files for which a drive cannot be unmounted.
    private func isInUse(_ open: Set<ItemID>) async throws(CloudFSError) -> CloudFSError {
        let names = try await pool.engine {
            try self.catalog.read { reader in
                try open.sorted().prefix(3).map { try self.path(of: $0, reader)?.text ?? "a file" }
            }
        }
        let more = open.count > names.count ? " and \(open.count - names.count) more" : ""
        let files = "\(names.joined(separator: ", "))\(more)"
        let verb = open.count == 1 ? "is" : "are"
        let them = open.count == 1 ? "it" : "them"
        return CloudFSError(.claimed, "\(files) \(verb) open; close \(them), or use --force")
    }

    // MARK: - The outbox

    func outbox(_ page: PageRequest) async throws(CloudFSError) -> OutboxPage {
        let offset = try Self.offset(page.after)
        return try await pool.engine {
            try self.catalog.read { reader in
                let rows = try reader.outbox(offset: offset, limit: page.limit)
                let entries = try rows.compactMap { try self.entry($0, reader) }
                let next = rows.count == page.limit ? String(offset + page.limit) : nil
                return OutboxPage(
                    counts: try self.counts(reader),
                    entries: entries,
                    next: next
                )
            }
        }
    }

    /// How many come before a page; small enough that more can be added.
    static func offset(_ after: String?) throws(CloudFSError) -> Int {
        Int(try number(after, upTo: Int64(Int32.max)))
    }

    static func number(
        _ after: String?,
        upTo last: Int64 = .max
    ) throws(CloudFSError) -> Int64 {
        guard let after else { return 0 }
        guard let number = Int64(after), (0...last).contains(number) else {
            throw CloudFSError(.invalidArgument, "no such page")
        }
        return number
    }

    private func entry(
        _ row: OutboxRecord,
        _ reader: CatalogReader
    ) throws -> OutboxPage.Entry? {
        guard
            let facts = try filesystem.uploader.outboxFacts(of: row.item, reader),
            let path = try path(of: row.item, reader)
        else { return nil }
        let isActive = filesystem.uploader.active.contains(row.item)
        let sent = filesystem.files.live(row.item)?.state.withLock { $0.sentBytes }
        return OutboxPage.Entry(
            path: path,
            operation: Self.operation(OutboxStep.next(facts.facts), facts.facts),
            bytes: facts.facts.isDirty ? facts.record.item.size : 0,
            sentBytes: sent ?? 0,
            state: Self.state(row, isActive: isActive),
            attempts: row.attempts,
            nextAttempt: row.notBefore.wire,
            lastError: row.errorMessage
        )
    }

    private static func state(_ row: OutboxRecord, isActive: Bool) -> OutboxPage.Entry.State {
        if isActive { return .uploading }
        guard let code = row.errorCode else { return .waiting }
        let needsUser = CloudFSError.Code(rawValue: code).map(RetrySchedule.needsUser) ?? false
        return needsUser ? .failed : .retrying
    }

    private static func operation(
        _ step: OutboxStep,
        _ facts: OutboxStep.Facts
    ) -> OutboxPage.Entry.Operation {
        switch step {
        case .createFolder: .createFolder
        case .createSymlink: .createSymlink
        case .move, .stepAside: .move
        case .upload, .hydrate, .pack, .keepHere: .upload
        case .delete, .forget, .erase: .delete
        case .updateMetadata, .done, .hold: .update
        case .waitForPlace, .waitFor, .ask: laterOperation(facts)
        }
    }

    /// What is to be done once something else was.
    private static func laterOperation(_ facts: OutboxStep.Facts) -> OutboxPage.Entry.Operation {
        guard let place = facts.place else { return .delete }
        guard let base = facts.base else {
            switch facts.kind {
            case .folder: return .createFolder
            case .symlink: return .createSymlink
            case .file, .fifo, .socket: return .upload
            }
        }
        if place != base { return .move }
        return facts.isDirty || facts.isTreeChanged ? .upload : .update
    }

    /// Where an item is, or was last in the cloud if it was deleted here.
    func path(of id: ItemID, _ reader: CatalogReader) throws -> DrivePath? {
        if let names = try reader.path(of: id) { return DrivePath(names: names) }
        return try reader.remotePath(of: id).flatMap { DrivePath(names: $0.names.map(\.bytes)) }
    }
}
