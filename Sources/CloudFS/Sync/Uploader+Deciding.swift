import Logging
import Synchronization

/// What an item's next step is, and which paths stay where they are for it.
extension Uploader {
    func outboxFacts(of id: ItemID, _ reader: CatalogReader) throws -> OutboxFacts? {
        try OutboxFacts(of: id, in: reader, at: clocks.now(), isIgnored: isIgnored)
    }

    /// Decides the next step, and reserves the paths that it names: no folder moves beneath them
    /// until `release`.
    func next(
        _ id: ItemID,
        chain: [ItemID]
    ) async throws(CloudFSError) -> (OutboxStep, OutboxFacts)? {
        try await pool.engine {
            do throws(CloudFSError) {
                return try self.decide(id, chain: chain)
            } catch {
                self.release(id)
                throw error
            }
        }
    }

    /// Decides the next step, and ends the row in the same transaction if there is none.
    private func decide(
        _ id: ItemID,
        chain: [ItemID]
    ) throws(CloudFSError) -> (OutboxStep, OutboxFacts)? {
        // A use of its own: whoever uses it now may have looked already whether it can be erased.
        guard let live = files.retainIfLive(id) else {
            return try decide(id, of: nil, chain: chain)
        }
        defer { releaseLater(live) }
        // Held meanwhile: what a program writes now must not be taken for sent.
        return try live.state.withLock { state throws(CloudFSError) in
            try files.observe(&state, id)
            return try decide(id, of: state, chain: chain)
        }
    }

    private func decide(
        _ id: ItemID,
        of state: OpenFile.State?,
        chain: [ItemID]
    ) throws(CloudFSError) -> (OutboxStep, OutboxFacts)? {
        let isOpen = state != nil
        return try catalog.write { writer in
            guard
                var facts = try self.outboxFacts(of: id, writer.reader)
            else { return nil }
            let isSent = state?.hasNothingToSend(beside: facts.base) == true
            if isSent { facts.facts.isDirty = false }
            // What waits for this one's place has nothing to send, whatever the catalog calls it.
            if let successor = facts.facts.successor,
                self.isCircle(from: successor, to: id, chain: chain)
            {
                facts.facts.successor = nil
            }
            var step = OutboxStep.next(facts.facts)
            // And what was removed goes when it is asked for: nobody has to make room for that.
            if try !isSent || !Self.isForRemoved(step, writer.reader) {
                step = self.steppingAside(step, facts, id, chain: chain)
            }
            if !step.isOfAnother { self.waiting.withLock { $0.end(id) } }
            switch step {
            case .done: try writer.dequeue(id)
            case .hold: try writer.setHeld(true, of: id)
            case .waitForPlace:
                try writer.postpone(id, until: self.clocks.now() + Self.waitingPause)
            case .erase:
                try writer.dequeue(id)
                if !isOpen { try writer.erase(id) }
            default: return try self.reserve(step, facts, id, chain: chain).map { ($0, facts) }
            }
            return nil
        }
    }

    /// Ends the row if a request was all that was to be sent.
    ///
    /// - Returns: Whether something is left.
    /// - Parameter hasNothingToSend: Whether a file's bytes were sent, though it may be written on.
    func goesOn(
        _ id: ItemID,
        hasNothingToSend: Bool = false,
        _ writer: CatalogWriter
    ) throws -> Bool {
        guard var facts = try outboxFacts(of: id, writer.reader)?.facts
        else { return true }
        if hasNothingToSend { facts.isDirty = false }
        guard OutboxStep.next(facts) == .done else { return true }
        try writer.dequeue(id)
        return false
    }

    /// Whether a step is to wait for an item that was removed here.
    private static func isForRemoved(_ step: OutboxStep, _ reader: CatalogReader) throws -> Bool {
        guard case .waitFor(let other) = step else { return false }
        return try reader.name(of: other) == nil
    }

    /// Items that wait for each other for any reason: one of them makes room, and is moved when its
    /// turn comes.
    private func steppingAside(
        _ step: OutboxStep,
        _ facts: OutboxFacts,
        _ id: ItemID,
        chain: [ItemID]
    ) -> OutboxStep {
        guard case .waitFor(let other) = step, facts.base != nil, !facts.isAside else {
            return step
        }
        return isCircle(from: other, to: id, chain: chain) ? .stepAside : step
    }

    /// Whether what `id` is to wait for waits for `id`, over others or at once.
    private func isCircle(from other: ItemID, to id: ItemID, chain: [ItemID]) -> Bool {
        chain.contains(other) || waiting.withLock { $0.leads(from: other, to: id) }
    }

    /// Reserves what a step names, within the transaction that it was decided in: whoever moved a
    /// folder before has stored it or holds it reserved.
    ///
    /// - Returns: The step to be taken; `nil` if there is nothing to do but to wait.
    private func reserve(
        _ step: OutboxStep,
        _ facts: OutboxFacts,
        _ id: ItemID,
        chain: [ItemID]
    ) throws(CloudFSError) -> OutboxStep? {
        // They wait for each other, and this one has no place to leave: another one makes room.
        if case .waitFor(let other) = step, chain.contains(other) { return nil }
        guard let reservation = step.reservation(facts) else { return step }
        guard reservations.withLock({ $0.reserve(reservation, for: id) }) else {
            throw CloudFSError(.claimed, "a folder is moving", item: id)
        }
        return step
    }

    func release(_ id: ItemID) {
        reservations.withLock { $0.release(id) }
    }

    func releaseLater(_ file: OpenFile) {
        Task {
            do {
                try await files.release(file, on: pool)
            } catch {
                logger.error(
                    "the state of a file could not be stored",
                    metadata: ["item.id": "\(file.id)", "error": "\(error)"]
                )
            }
        }
    }
}
