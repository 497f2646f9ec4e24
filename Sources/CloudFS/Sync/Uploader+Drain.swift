extension Uploader {
    /// Sends everything that waits, at once, and waits until nothing is left that can be sent.
    ///
    /// - Parameter limit: When to give up waiting.
    /// - Returns: What is left.
    func drain(within limit: Duration) async throws(CloudFSError) -> OutboxTotals {
        let end = clocks.elapsed() + limit
        var hurried = clocks.elapsed()
        try await hurry()
        while true {
            // What a program had open a moment ago was put off once more when it let go.
            if clocks.elapsed() - hurried > .milliseconds(500) {
                hurried = clocks.elapsed()
                try await hurry()
            }
            let totals = try await pool.engine { try self.catalog.read { try $0.outboxTotals() } }
            let isStuck = active.isEmpty && totals.items == totals.failed
            let isOver = isStuck || isPaused || !connection.isOnline || clocks.elapsed() >= end
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
