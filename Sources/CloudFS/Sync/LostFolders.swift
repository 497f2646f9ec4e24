import Synchronization

/// Since when folders that were removed here are not where they were in the cloud, as far as is
/// remembered.
final class LostFolders: Sendable {
    private let since = Mutex<[ItemID: Duration]>([:])
    private let limit: Int
    /// Whoever waits for one has asked many times by then.
    private static let rememberedTime = Duration.seconds(60)

    /// - Parameter limit: How many are remembered; others wait until there is room.
    init(limit: Int) {
        self.limit = limit
    }

    /// Notes that a folder is where it was.
    func noteFound(_ folder: ItemID) {
        _ = since.withLock { $0.removeValue(forKey: folder) }
    }

    /// Notes that a folder is not where it was.
    ///
    /// - Returns: For how long it has not been, or zero if that cannot be remembered now.
    func noteLost(_ folder: ItemID, at now: Duration) -> Duration {
        since.withLock { since in
            if let first = since[folder] { return now - first }
            // Never all of them: those who wait would begin anew, over and over.
            if since.count >= limit {
                since = since.filter { now - $0.value < Self.rememberedTime }
            }
            if since.count < limit { since[folder] = now }
            return .zero
        }
    }
}
