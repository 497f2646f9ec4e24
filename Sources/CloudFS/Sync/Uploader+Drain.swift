extension Uploader {
    /// What failed and is tried again this soon is waited for: another device moved it in that
    /// moment, for instance.
    private static let soon = Duration.seconds(3)

    /// Sends everything that waits, at once, and waits until nothing is left that can be sent.
    ///
    /// - Parameters:
    ///   - limit: When to give up waiting.
    ///   - isPatient: Whether to wait also while the cloud cannot be reached, or sending is paused.
    /// - Returns: What is left.
    func drain(
        within limit: Duration,
        isPatient: Bool = false
    ) async throws(CloudFSError) -> OutboxTotals {
        let end = clocks.elapsed() + limit
        var hurried = clocks.elapsed()
        try await hurry(alsoFailed: true)
        while true {
            // What a program had open a moment ago was put off once more when it let go.
            if clocks.elapsed() - hurried > .milliseconds(500) {
                hurried = clocks.elapsed()
                try await hurry(alsoFailed: false)
            }
            let totals = try await pool.engine { try self.catalog.read { try $0.outboxTotals() } }
            let isStuck =
                active.isEmpty && totals.items == totals.failed
                && totals.next.map { $0 > clocks.now() + Self.soon } ?? true
            let isHeldUp = isPaused || !connection.isOnline
            let isOver = isStuck || (isHeldUp && !isPatient) || clocks.elapsed() >= end
            if totals.items == 0 || isOver || Task.isCancelled { return totals }
            do {
                try await Task.sleep(for: min(.milliseconds(50), end - clocks.elapsed()))
            } catch {
                return totals
            }
        }
    }

    /// Waits until the cloud has all changes of some items, the time is over, or the task is
    /// cancelled.
    func waitUntilSent(_ items: [ItemID], within limit: Duration) async throws(CloudFSError) {
        let end = clocks.elapsed() + limit
        while clocks.elapsed() < end {
            let isSent = try await pool.engine {
                try self.catalog.read { reader in
                    try items.allSatisfy { try reader.outboxEntry(of: $0) == nil }
                }
            }
            if isSent { return }
            do { try await Task.sleep(for: .milliseconds(50)) } catch { return }
        }
    }
}
