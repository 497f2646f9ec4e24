import Logging
import Synchronization

/// The list of documents that people opened last, which the devices of a drive share.
///
/// It is one small sidecar in the cloud: each device reads it, merges what it knows, and writes it
/// if that changed anything. Two that do so at once may leave out what one of them had: the next
/// exchange brings it. Nobody waits for it, and a drive that nobody uses asks for nothing.
final class RecentUses: Sendable {
    private struct State {
        /// When the list is to be exchanged next; `nil` for when something happens.
        var due: Duration?
        var last: Duration?
        /// Whether the last one failed, and that was said.
        var isFailing = false
    }

    private let files: OpenFiles
    private let sidecars: any SidecarStore
    private let pool: BlockingPool
    private let mayWrite: Bool
    /// Told when the catalog has later uses than before.
    private let changed: @Sendable () -> Void
    private let isOnline: @Sendable () -> Bool
    private let logger: Logger
    private let state = Mutex(State())
    private let wake = Signal()
    private let beat: Duration

    private static let name = SidecarName(room: .recents, name: "00uses")
    /// Uses are gathered for so many beats: 10 s by default.
    private static let gathering = 5
    /// At most one exchange in so many of them because of uses: a minute.
    private static let interval = 30
    /// And because somebody looks: 4 s.
    private static let lookInterval = 2
    /// The quiet time, but also where that is nothing or a day no shorter and no longer than this.
    private static let beats = Duration.milliseconds(200)...Duration.seconds(2)

    /// - Parameter mayWrite: Whether what is opened here is told to others.
    init(
        files: OpenFiles,
        sidecars: any SidecarStore,
        pool: BlockingPool,
        mayWrite: Bool,
        isOnline: @escaping @Sendable () -> Bool,
        logger: Logger,
        changed: @escaping @Sendable () -> Void
    ) {
        self.files = files
        beat = min(max(files.quietTime, Self.beats.lowerBound), Self.beats.upperBound)
        self.sidecars = sidecars
        self.pool = pool
        self.mayWrite = mayWrite
        self.isOnline = isOnline
        self.logger = logger
        self.changed = changed
    }

    /// A person's program opened a file.
    func noteUse() {
        guard mayWrite else { return }
        exchange(after: Self.gathering, sinceLast: Self.interval)
    }

    /// Somebody looks at the list.
    func noteLook() { exchange(after: 0, sinceLast: Self.lookInterval) }

    /// The cloud is reached again.
    func noteConnected() { exchange(after: 0, sinceLast: 0) }

    /// In beats: how long to wait, and how long since the last one at least.
    private func exchange(after pause: Int, sinceLast interval: Int) {
        let now = files.clocks.elapsed()
        let isSooner = state.withLock { state in
            let due = max(now + beat * pause, state.last.map { $0 + beat * interval } ?? now)
            guard state.due.map({ due < $0 }) ?? true else { return false }
            state.due = due
            return true
        }
        if isSooner { wake.raise() }
    }

    /// Exchanges the list when it is due, until the task is cancelled.
    func run() async {
        while !Task.isCancelled {
            let now = files.clocks.elapsed()
            let rest = state.withLock { $0.due }.map { $0 - now }
            guard let rest, rest <= .zero else {
                await wake.wait(atMost: rest)
                continue
            }
            state.withLock { ($0.due, $0.last) = (nil, now) }
            guard isOnline() else { continue }
            do throws(CloudFSError) {
                try await exchange()
                state.withLock { $0.isFailing = false }
            } catch {
                noteFailure(error)
            }
        }
    }

    /// The next use, look or connection tries again, and says no more of it.
    private func noteFailure(_ error: CloudFSError) {
        let isNews = state.withLock { state in
            defer { state.isFailing = true }
            return !state.isFailing && !error.isTransient
        }
        logger.log(
            level: isNews ? .notice : .debug,
            "what was opened last is not exchanged",
            metadata: ["error": "\(error)"]
        )
    }

    private func exchange() async throws(CloudFSError) {
        let own = try await pool.engine {
            try self.files.saveUses()
            return try self.files.catalog.read { try $0.recentUses(limit: RecentUse.most) }
        }
        let text = try await read()
        let theirs = RecentUse.uses(in: text, now: files.clocks.now())
        let known = Set(own)
        let news = theirs.filter { !known.contains($0) }
        if !news.isEmpty {
            let isLater = try await pool.engine {
                try self.files.catalog.write { writer in
                    try news.reduce(false) { try writer.takeOver($1) || $0 }
                }
            }
            if isLater { changed() }
        }
        guard mayWrite else { return }
        let merged = RecentUse.text(of: RecentUse.merged(own, theirs))
        if merged != text { try await sidecars.write(merged, to: Self.name) }
    }

    private func read() async throws(CloudFSError) -> [UInt8] {
        do throws(CloudFSError) {
            return try await sidecars.read(Self.name, atMost: RecentUse.textLimit) ?? []
        } catch  where error.code == .tooLarge {
            // Somebody else's file in its place is written over.
            return []
        }
    }
}
