import Synchronization

/// Listings that failed: the cloud was out of reach for a moment, of which the feed itself need not
/// have heard, or the local disk was full, or one folder is broken or closed to us. Nothing tells
/// when that has passed.
extension ChangeFeed {
    /// Runs until the task is cancelled, trying again what failed.
    func listFailedAgain() async {
        while !Task.isCancelled {
            let delay = failed.delay(at: clocks.elapsed())
            guard let delay, delay <= .zero, connection.isOnline else {
                // Out of reach, nothing is tried: `noteConnected` ends the wait.
                await failed.changed.wait(atMost: connection.isOnline ? delay : nil)
                continue
            }
            let (folders, isAll) = failed.takeDue(at: clocks.elapsed())
            if isAll { scanNeeded.raise() }
            if !folders.isEmpty { hint(folders) }
        }
    }

    func noteFailed(_ folders: [ItemID]) {
        if failed.add(folders, at: clocks.elapsed()) { needComparison() }
    }

    /// Sees to it that new folders are listed although the listing failed that has brought them on
    /// an earlier page: the next one takes them for known.
    func noteUnlistedLeft() async {
        do {
            let unlisted = try await pool.engine {
                try self.catalog.read { try $0.unlistedFolders(after: ItemID(0), limit: 1) }
            }
            if !unlisted.isEmpty { scanNeeded.raise() }
        } catch {
            logger.error("folders to list cannot be found", metadata: ["error": "\(error)"])
        }
    }
}

/// What is to be compared again some time after it failed: later, the more often it did.
final class FailedListings: Sendable {
    private struct Failure {
        /// How often in a row it failed.
        var count = 0
        /// When it is tried again, by `Clocks.elapsed`; `nil` while it is.
        var due: Duration?

        /// - Parameter delay: After so many failures.
        mutating func add(at now: Duration, _ delay: (Int) -> Duration) {
            count += 1
            due = now + delay(count)
        }
    }

    private struct State {
        var folders: [ItemID: Failure] = [:]
        /// Of a comparison of everything.
        var all: Failure?
    }

    private let state = Mutex(State())
    /// Raised when something failed, and when the cloud is reached again.
    let changed = Signal()
    private let limit: Int
    // Short at first: most failures concern one call.
    private static let backoff = Backoff(
        first: .milliseconds(250),
        longest: .seconds(60),
        certainPart: 0.5
    )

    /// - Parameter limit: How many folders are remembered; beyond, everything is compared instead.
    init(limit: Int) {
        self.limit = limit
    }

    /// Some folders could not be listed.
    ///
    /// - Returns: Whether they are too many, so that everything is to be compared instead.
    func add(_ folders: [ItemID], at now: Duration) -> Bool {
        defer { changed.raise() }
        return state.withLock { state in
            for folder in folders {
                state.folders[folder, default: Failure()].add(at: now, delay(after:))
            }
            guard state.folders.count > limit else { return false }
            state.folders = [:]
            state.all = state.all ?? Failure()
            state.all?.add(at: now, delay(after:))
            return true
        }
    }

    /// Whether everything that failed was made good.
    var isEmpty: Bool { state.withLock { $0.folders.isEmpty && $0.all == nil } }

    /// Whether a folder failed and its moment has not come.
    func isPutOff(_ folder: ItemID) -> Bool { state.withLock { $0.folders[folder]?.due != nil } }

    /// Everything was to be compared, and was not.
    func addAll(at now: Duration) {
        state.withLock { state in
            var failure = state.all ?? Failure()
            failure.add(at: now, delay(after:))
            state.all = failure
        }
        changed.raise()
    }

    /// Whatever failed because the cloud was away need not wait longer.
    func noteConnected(at now: Duration) {
        state.withLock { state in
            for folder in state.folders.keys where state.folders[folder]?.due != nil {
                state.folders[folder] = Failure(due: now)
            }
            if state.all?.due != nil { state.all = Failure(due: now) }
        }
        changed.raise()
    }

    /// A folder was listed, or is none any more.
    func forget(_ folder: ItemID) {
        state.withLock { _ = $0.folders.removeValue(forKey: folder) }
    }

    /// Everything was compared, but for folders that failed by themselves.
    func noteCompared() {
        state.withLock { $0.all = nil }
    }

    /// How long it is until something is to be tried again; `nil` if nothing is.
    func delay(at now: Duration) -> Duration? {
        state.withLock { state in
            let dues = state.folders.values.compactMap(\.due) + [state.all?.due].compactMap { $0 }
            return dues.min().map { $0 - now }
        }
    }

    /// What is to be tried now; it is until it is listed, or fails again.
    func takeDue(at now: Duration) -> (folders: [ItemID], isAll: Bool) {
        state.withLock { state in
            let folders = state.folders.filter { $0.value.due.map { $0 <= now } ?? false }
            for folder in folders.keys { state.folders[folder]?.due = nil }
            let isAll = state.all?.due.map { $0 <= now } ?? false
            if isAll { state.all?.due = nil }
            return (folders.keys.sorted(), isAll)
        }
    }

    private func delay(after count: Int) -> Duration {
        var random = SystemRandomNumberGenerator()
        return Self.backoff.delay(afterFailures: count, using: &random)
    }
}
