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
    private let failures = Mutex<[ItemID: Failure]>([:])
    /// What fetches some files at once.
    private let running = Mutex<Task<Void, Never>?>(nil)
    private static let parallelFiles = 4
    /// Files for which there is room.
    private let admitted = Mutex<[OpenFile]>([])
    /// Held while there is a look whether there is.
    private let admission = Mutex<Void>(())

    /// How the last attempt of a file failed, and when it is tried again.
    struct Failure: Sendable {
        var error: CloudFSError
        var retryAt: Duration
    }

    private var files: OpenFiles { hydrator.files }

    init(hydrator: Hydrator, connection: Connection, pool: BlockingPool, logger: Logger) {
        self.hydrator = hydrator
        self.connection = connection
        self.pool = pool
        self.logger = logger
    }

    /// Notes that more files may be wanted, or that the cloud is reached again.
    func noticeWanted() {
        failures.withLock { $0.removeAll() }
        files.wanted.raise()
    }

    /// Ends what is fetched where a pause has begun; goes on where one has ended.
    func noticePause() {
        guard connection.isPaused else { return noticeWanted() }
        running.withLock { $0 }?.cancel()
    }

    func failure(of id: ItemID) -> CloudFSError? {
        failures.withLock { $0[id]?.error }
    }

    /// Files whose last attempt failed.
    var allFailures: [ItemID: CloudFSError] { failures.withLock { $0.mapValues(\.error) } }

    /// Runs until the task is cancelled.
    func run() async {
        await askForPinned()
        await withDiscardingTaskGroup { group in
            group.addTask { await self.noticeAsked() }
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

    /// Asks for what is pinned and was not asked for: earlier versions left out what was moved to a
    /// pinned place.
    private func askForPinned() async {
        do throws(CloudFSError) {
            try await pool.engine {
                guard try self.files.catalog.read({ try $0.missesPinned() }) else { return }
                try self.files.catalog.write(isLong: true) { try $0.wantPinned() }
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
            let waiting = failures.withLock { failures in
                Set(failures.filter { $0.value.retryAt > now }.keys)
            }
            let wanted = try await pool.engine {
                try self.files.catalog.read {
                    try $0.wantedFiles(limit: waiting.count + Self.parallelFiles)
                }
            }
            return Array(wanted.filter { !waiting.contains($0) }.prefix(Self.parallelFiles))
        } catch {
            logger.error("the list of wanted files cannot be read", metadata: ["error": "\(error)"])
            return []
        }
    }

    private func nextRetry() -> Duration? {
        guard mayFetch else { return nil }
        let next = failures.withLock { $0.values.map(\.retryAt).min() }
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
            try hydrator.evictor.requireRoom(for: all, of: file.id)
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
            failures.withLock { $0[id] = nil }
        } catch {
            // By a pause, or by the end: it is on the list still.
            if error.code == .cancelled, Task.isCancelled { return }
            connection.didFail(error)
            let retryAt = files.clocks.elapsed() + .seconds(30)
            let isKnown = failures.withLock { failures in
                defer { failures[id] = Failure(error: error, retryAt: retryAt) }
                return error.isLackOfRoom
                    && failures.values.contains { $0.error.code == error.code }
            }
            logger.log(
                level: isKnown ? .debug : .notice,
                "a file could not be downloaded",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
    }
}
