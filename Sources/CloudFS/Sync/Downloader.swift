import Logging
import Synchronization

/// Brings whole files here that were asked for: pinned ones, and those of `cloudfs download`.
///
/// What is wanted is written in the catalog, so that it goes on after a restart.
final class Downloader: Sendable {
    private let hydrator: Hydrator
    private let connection: Connection
    private let pool: BlockingPool
    private let logger: Logger
    private let failures = Mutex(DownloadFailures())
    /// What fetches some files at once.
    private let running = Mutex<Task<Void, Never>?>(nil)
    private static let parallelFiles = 4
    /// Files for which there is room.
    private let admitted = Mutex<[OpenFile]>([])
    /// Held while there is a look whether there is.
    private let admission = Mutex<Void>(())

    private var files: OpenFiles { hydrator.files }

    init(hydrator: Hydrator, connection: Connection, pool: BlockingPool, logger: Logger) {
        self.hydrator = hydrator
        self.connection = connection
        self.pool = pool
        self.logger = logger
    }

    /// Notes that more files may be wanted, or that the cloud is reached again.
    func noticeWanted() {
        failures.withLock { $0 = DownloadFailures() }
        files.wanted.raise()
    }

    /// Ends what is fetched where a pause has begun; goes on where one has ended.
    func noticePause() {
        guard connection.isPaused else { return noticeWanted() }
        running.withLock { $0 }?.cancel()
    }

    /// Files that are being fetched.
    var filesOnTheWay: [ItemID] { admitted.withLock { $0.map(\.id) } }

    /// Why a file that was asked for is not here; `nil` if it was not, or was not tried yet.
    func failure(of record: ItemRecord) -> CloudFSError? {
        guard record.isWanted else { return nil }
        return failures.withLock { $0.error(of: record.item.id, missing: record.missingByteCount) }
    }

    /// The same of all files.
    func failures(_ reader: CatalogReader) throws -> [ItemID: CloudFSError] {
        try failures.withLock { $0 }.all(reader)
    }

    /// Runs until the task is cancelled.
    func run() async {
        await withDiscardingTaskGroup { group in
            group.addTask { await self.noticeAsked() }
            group.addTask { await self.noticePinned() }
            while !Task.isCancelled {
                let batch = await next()
                if batch.isEmpty {
                    await files.wanted.wait(atMost: nextRetry())
                } else {
                    await download(batch)
                }
            }
        }
    }

    /// Asks for what is pinned and was not asked for: at the start, for the last process may have
    /// died before it had done so, and where much has come to a pinned place.
    private func noticePinned() async {
        while !Task.isCancelled {
            await askForPinned()
            await files.catalog.pinned.wait()
        }
    }

    private func askForPinned() async {
        do throws(CloudFSError) {
            try await pool.engine {
                let catalog = self.files.catalog
                for id in try catalog.read({ try $0.policiesToFollow() }) {
                    try catalog.followPolicy(of: id)
                }
                let missed = try catalog.read { try $0.missedPinned() }
                try catalog.writeInSteps(missed) { try $0.followPolicy($1) }
            }
        } catch {
            logger.error(
                "what is pinned cannot be looked for",
                metadata: ["error": "\(error)"]
            )
        }
    }

    /// Has the list looked at when the catalog has more on it.
    private func noticeAsked() async {
        while !Task.isCancelled {
            await files.catalog.wanted.wait()
            files.wanted.raise()
        }
    }

    private var mayFetch: Bool { connection.isOnline && !connection.isPaused }

    private func next() async -> [ItemID] {
        guard mayFetch else { return [] }
        do throws(CloudFSError) {
            let now = files.clocks.elapsed()
            let waiting = failures.withLock { $0.waiting(at: now) }
            let found = try await pool.engine {
                try self.files.catalog.read {
                    try $0.wantedFiles(
                        limit: Self.parallelFiles,
                        without: waiting.items,
                        missingLessThan: waiting.missing
                    )
                }
            }
            if found.isEmpty { failures.withLock { $0.forgetDue(at: now) } }
            return found
        } catch {
            logger.error("the list of wanted files cannot be read", metadata: ["error": "\(error)"])
            return []
        }
    }

    private func nextRetry() -> Duration? {
        guard mayFetch else { return nil }
        let next = failures.withLock { $0.retryAt }
        return next.map { max(.milliseconds(10), $0 - files.clocks.elapsed()) }
    }

    /// Fetches files at once, in a task that a pause can end.
    private func download(_ batch: [ItemID]) async {
        let task = Task {
            await withTaskGroup(of: Void.self) { group in
                for id in batch { group.addTask { await self.download(id) } }
            }
        }
        running.withLock { $0 = task }
        // A pause may have begun since they were looked for.
        if connection.isPaused { task.cancel() }
        await withTaskCancellationHandler {
            await task.value
        } onCancel: {
            task.cancel()
        }
        running.withLock { $0 = nil }
    }

    /// Fetches a file, if there is room for it beside those that are being fetched.
    private func complete(_ file: OpenFile) async throws(CloudFSError) {
        defer { admitted.withLock { files in files.removeAll { $0 === file } } }
        try await hydrator.complete(file) { () throws(CloudFSError) in try self.admit(file) }
    }

    /// - Throws: `diskFull`.
    private func admit(_ file: OpenFile) throws(CloudFSError) {
        let own = file.state.withLock { $0.missingByteCount }
        guard own > 0 else { return }
        try admission.withLock { _ throws(CloudFSError) in
            let all = admitted.withLock { $0 }.reduce(own) { sum, file in
                sum.addingOrMost(file.state.withLock { $0.missingByteCount })
            }
            try hydrator.evictor.requireRoom(for: all, of: file.id, .keeping)
            admitted.withLock { $0.append(file) }
        }
    }

    private func download(_ id: ItemID) async {
        do throws(CloudFSError) {
            let file = try await pool.engine { try self.files.acquire(id) }
            var failure: CloudFSError?
            do throws(CloudFSError) {
                try await complete(file)
            } catch {
                failure = error
            }
            try await files.release(file, on: pool)
            if let failure { throw failure }
            try await pool.engine {
                let now = self.files.clocks.now()
                try self.files.catalog.write { writer in
                    // Else what a person has just asked for would be the first to be dropped.
                    try writer.setLastUsed(now, accessed: nil, of: id)
                    // An empty file has nothing to fetch and no content file: it is done too.
                    if try writer.reader.existing(id).item.size == 0 {
                        try writer.setWanted(false, of: id)
                    }
                }
            }
            failures.withLock { $0.forget(id) }
        } catch {
            // By a pause, or by the end: it is on the list still.
            if error.code == .cancelled, Task.isCancelled { return }
            connection.didFail(error)
            let isNews = await note(error, of: id)
            logger.log(
                level: isNews ? .notice : .debug,
                "a file could not be downloaded",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
    }

    private func note(_ error: CloudFSError, of id: ItemID) async -> Bool {
        var missing = Int64.max
        do throws(CloudFSError) {
            missing = try await pool.engine {
                try self.files.catalog.read { try $0.existing(id).missingByteCount }
            }
        } catch {
            logger.debug("a file is not wanted any more", metadata: ["error": "\(error)"])
        }
        let now = files.clocks.elapsed()
        return failures.withLock { $0.note(error, of: id, missing: missing, at: now) }
    }
}
