import Synchronization

/// Listings that failed: the cloud was out of reach for a moment, of which the feed itself need not
/// have heard, or the local disk was full, and nothing tells when that has passed.
extension ChangeFeed {
    /// Runs until the task is cancelled, trying again what failed.
    func listFailedAgain() async {
        while !Task.isCancelled {
            await failed.added.wait()
            // Cancelled, the loop ends.
            try? await Task.sleep(for: failed.delay)
            guard connection.isOnline else { continue }
            let (folders, isAll) = failed.take()
            if isAll { scanNeeded.raise() }
            if !folders.isEmpty { hint(Array(folders)) }
        }
    }

    /// Runs until the task is cancelled, trying folders again that may not be listed: nothing tells
    /// when they may.
    func listDeniedAgain() async {
        while let folder = await denied.next() {
            // Cancelled, the loop ends.
            try? await Task.sleep(for: Self.deniedPause)
            hint([folder] + denied.takeAll())
        }
    }

    private static let deniedPause = Duration.seconds(5)
}

/// What is to be compared again some time after it failed.
final class FailedListings: Sendable {
    private struct State {
        var folders: Set<ItemID> = []
        var isAll = false
        /// How often in a row something failed.
        var count = 0
    }

    private let state = Mutex(State())
    /// Raised when something failed, and when the cloud is reached again.
    let added = Signal()
    // Short at first: most failures concern one call.
    private static let backoff = Backoff(
        first: .milliseconds(250),
        longest: .seconds(60),
        certainPart: 0.5
    )

    func add(_ folders: [ItemID], isAll: Bool) {
        state.withLock { state in
            state.folders.formUnion(folders)
            state.isAll = state.isAll || isAll
            state.count += 1
        }
        added.raise()
    }

    /// Whatever failed because the cloud was away need not wait longer.
    func noteConnected() {
        state.withLock { $0.count = 0 }
        added.raise()
    }

    func noteSuccess() {
        state.withLock { $0.count = 0 }
    }

    /// How long to wait after the last failure.
    var delay: Duration {
        var random = SystemRandomNumberGenerator()
        let count = state.withLock { $0.count }
        return Self.backoff.delay(afterFailures: max(1, count), using: &random)
    }

    func take() -> (folders: Set<ItemID>, isAll: Bool) {
        state.withLock { state in
            defer { (state.folders, state.isAll) = ([], false) }
            return (state.folders, state.isAll)
        }
    }
}
