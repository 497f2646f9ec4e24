import Synchronization

/// Items that can be sent only after others: into a folder that is made first, to a place that
/// something else has to leave.
extension Uploader {
    /// How many steps an item takes at once, each because the one before it waits for it.
    private static let longestChain = 64

    /// Lets another item go first.
    ///
    /// - Returns: Whether it is done, so that this one can go on.
    func letGoFirst(
        _ other: ItemID,
        before id: ItemID,
        _ facts: OutboxFacts,
        chain: [ItemID]
    ) async throws(CloudFSError) -> Bool {
        guard try await !rests(other, before: id), chain.count < Self.longestChain, begin(other)
        else {
            try await pool.engine { try self.catalog.write { try self.putOff(id, for: other, $0) } }
            return false
        }
        defer { finish(other) }
        if try await pool.engine({ try self.isToRun(other) }) {
            // Its own time may not have come.
            let latest = clocks.now() + files.quietTime
            do throws(CloudFSError) {
                try await run(other, chain: chain + [id])
            } catch {
                await didFail(other, error, queuedBy: latest)
                throw error
            }
        }
        return try await pool.engine {
            try self.catalog.write { try self.isDone(other, before: id, facts, $0) }
        }
    }

    /// Whether an item waits itself, for something else than `id`, and is not tried yet: who waits
    /// for it would try it over and over.
    private func rests(
        _ other: ItemID,
        before id: ItemID
    ) async throws(CloudFSError) -> Bool {
        let end = waiting.withLock { waiting -> Timestamp? in
            guard let end = waiting.endOfWait(of: other) else { return nil }
            return waiting.leads(from: other, to: id) ? nil : end
        }
        guard let end else { return false }
        return try await pool.engine {
            try self.catalog.read { reader in
                guard let entry = try reader.outboxEntry(of: other), !entry.isHeld,
                    entry.errorCode == nil, entry.notBefore > self.clocks.now()
                else { return false }
                // A change since then has a time of its own.
                let difference = entry.notBefore.nanoseconds - end.nanoseconds
                return abs(difference) <= CatalogWriter.sameTime
            }
        }
    }

    /// Whether the steps of an item that another one waits for are to be taken now.
    ///
    /// - Throws: What it failed with, if its time has not come.
    private func isToRun(_ other: ItemID) throws(CloudFSError) -> Bool {
        try catalog.write { writer in
            // It may have ended since the decision, row and all.
            guard try writer.reader.item(other) != nil else { return false }
            let now = self.clocks.now()
            guard let entry = try writer.reader.outboxEntry(of: other) else {
                try writer.enqueue(other, notBefore: now)
                return true
            }
            guard !entry.isHeld else { return false }
            // What failed is not tried for each that waits for it, but when its time comes.
            guard entry.notBefore > now, let error = entry.error, !error.isOfConnection
            else { return true }
            throw error
        }
    }

    /// Whether an item need not wait any more for another one; it is put off otherwise.
    ///
    /// - Throws: `exists` if the other one stays where it is, as it is excluded.
    private func isDone(
        _ other: ItemID,
        before id: ItemID,
        _ facts: OutboxFacts,
        _ writer: CatalogWriter
    ) throws -> Bool {
        let current = try outboxFacts(of: id, writer.reader)?.facts
        guard let current, OutboxStep.next(current) == .waitFor(other),
            let entry = try writer.reader.outboxEntry(of: other)
        else { return true }
        guard entry.isHeld else {
            // Its time may not have come; until then there is no use in asking all the time.
            try putOff(id, for: other, writer)
            return false
        }
        guard facts.facts.isInside(other) else {
            throw CloudFSError(.exists, current.reason(toWaitForHeld: other), item: id)
        }
        // What is in a folder that stays here stays here as well.
        try writer.setHeld(true, of: id)
        return false
    }

    private func putOff(_ id: ItemID, for other: ItemID, _ writer: CatalogWriter) throws {
        let now = clocks.now()
        let until = waiting.withLock { waiting in
            var random = SystemRandomNumberGenerator()
            return waiting.add(id, for: other, at: now, using: &random)
        }
        try writer.postpone(id, until: until)
    }

    /// Brings those forward that wait for an item, if a step has brought it on.
    ///
    /// - Parameter facts: What the step was decided on.
    func noteProgress(of id: ItemID, since facts: OutboxFacts) async throws(CloudFSError) {
        guard waiting.withLock({ $0.isAwaited(id) }) else { return }
        try await pool.engine {
            let hasGotOn = try self.catalog.read { reader in
                try reader.base(of: id) != facts.base || reader.sent(of: id) != facts.sent
            }
            guard hasGotOn else { return }
            let waiters = self.waiting.withLock { $0.takeWaiters(of: id) }
            try self.catalog.write { writer in
                for waiter in waiters {
                    try writer.bringForward(waiter.item, putOffUntil: waiter.until)
                }
            }
        }
        wake.raise()
    }
}

extension OutboxStep.Facts {
    /// Whether `folder` is the one the item is in, or one around that.
    fileprivate func isInside(_ folder: ItemID) -> Bool {
        place?.parent == folder || misplacedFolder == folder
    }

    /// What is to be said of an item that waits for one that stays as it is in the cloud.
    fileprivate func reason(toWaitForHeld other: ItemID) -> String {
        if occupant == other { return "its name is taken in the cloud by something excluded" }
        if remainingChild == other { return "something excluded is in it in the cloud" }
        return "it waits for something excluded"
    }
}
