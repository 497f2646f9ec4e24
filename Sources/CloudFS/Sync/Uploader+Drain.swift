extension Uploader {
    /// What failed and is tried again this soon is waited for: another device moved it in that
    /// moment, for instance.
    private static let soon = Duration.seconds(3)

    /// Sends everything that waits, at once, and waits until nothing is left that can be sent.
    ///
    /// - Parameters:
    ///   - limit: When to give up waiting.
    ///   - isPatient: Whether to wait also for what failed and may succeed by itself, and while the
    ///     cloud cannot be reached, or sending is paused.
    /// - Returns: How many changes are left, and whether waiting longer would send none of them.
    func drain(
        within limit: Duration,
        isPatient: Bool = false
    ) async throws(CloudFSError) -> (left: Int, isOver: Bool) {
        let end = clocks.elapsed() + limit
        var hurried = clocks.elapsed()
        try await hurry(alsoFailed: true)
        while true {
            // What a program had open a moment ago was put off once more when it let go.
            if clocks.elapsed() - hurried > .milliseconds(500) {
                hurried = clocks.elapsed()
                try await hurry(alsoFailed: false)
            }
            let begun = clocks.elapsed()
            let totals = try await pool.engine { try self.catalog.read { try $0.outboxTotals() } }
            // A long queue is not added up all the time.
            let pause = max(.milliseconds(50), (clocks.elapsed() - begun) * 4)
            let isHeldUp = isPaused || !connection.isOnline
            let isOver =
                totals.items == 0 || isStuck(totals, isPatient: isPatient)
                || isHeldUp && !isPatient
            if isOver || clocks.elapsed() >= end || Task.isCancelled {
                return (totals.items, isOver)
            }
            do {
                try await Task.sleep(for: min(pause, end - clocks.elapsed()))
            } catch {
                return (totals.items, false)
            }
        }
    }

    /// Whether everything that is left failed, and is not tried again in a moment.
    private func isStuck(_ totals: OutboxTotals, isPatient: Bool) -> Bool {
        let hopeless = totals.failureCount { !isPatient || !$0.isTransient }
        return active.isEmpty && totals.items == hopeless
            && totals.next.map { $0 > clocks.now() + Self.soon } ?? true
    }

    /// Sends some items before everything else, and waits until the cloud has all their changes.
    ///
    /// - Parameter limit: How long it is waited for one to be sent; not counted is how long that
    ///   takes.
    /// - Returns: Whether the cloud has all; if not, the time is over, or the task was cancelled.
    func sendFirst(_ items: [ItemID], within limit: Duration) async throws(CloudFSError) -> Bool {
        try await pool.engine {
            try self.catalog.write { writer in for id in items { try writer.bringForward(id) } }
        }
        let end = clocks.elapsed() + limit
        while clocks.elapsed() < end || !active.isDisjoint(with: items) {
            let isSent = try await pool.engine {
                try self.catalog.read { reader in
                    try items.allSatisfy { try reader.outboxEntry(of: $0) == nil }
                }
            }
            if isSent { return true }
            do { try await Task.sleep(for: .milliseconds(50)) } catch { return false }
        }
        return false
    }
}
