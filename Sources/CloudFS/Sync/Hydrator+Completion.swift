import Logging
import Synchronization

/// Files that are all here, which the catalog does not know yet.
struct CompletedFiles: Sendable {
    var files: [OpenFile] = []
    /// Whether a task stores them, until there are no more.
    var areStored = false
}

/// What is done about files that are all here: several together, because flushing each by itself
/// would stop the reader of many small files at every one.
extension Hydrator {
    /// From how many files on the whole disk is flushed instead of each file.
    private static let manyFiles = 8

    /// Notes a file of which the last bytes have just arrived; it is stored as resident at once, or
    /// with all others that arrive while some are stored.
    func noteComplete(_ file: OpenFile) {
        files.retain(file)
        let begins = completed.withLock { completed in
            completed.files.append(file)
            defer { completed.areStored = true }
            return !completed.areStored
        }
        if begins { pool.start { self.storeAllCompleted() } }
    }

    /// Stores what is complete, and has it done again for what came meanwhile.
    private func storeAllCompleted() {
        if storeCompleted() { pool.start { self.storeAllCompleted() } }
    }

    /// Stores which files are all here; those that fail stay partial.
    ///
    /// Blocks on the disk.
    /// - Returns: Whether there were any.
    @discardableResult
    func storeCompleted() -> Bool {
        let gathered = completed.withLock { completed in
            completed.areStored = !completed.files.isEmpty
            defer { completed.files = [] }
            return completed.files
        }
        let isFlushed = gathered.count >= Self.manyFiles && flushStore()
        var stored: [ItemChange] = []
        for file in gathered {
            do throws(CloudFSError) {
                if try storeResident(file, isFlushed: isFlushed) {
                    stored.append(.attributes(file.id))
                }
            } catch {
                logger.error(
                    "a complete file could not be stored as such",
                    metadata: ["item.id": "\(file.id)", "error": "\(error)"]
                )
            }
            releaseNow(file)
        }
        hub.publish(stored)
        return !gathered.isEmpty
    }

    /// - Returns: Whether everything is on the disk.
    private func flushStore() -> Bool {
        do throws(CloudFSError) {
            try files.store.synchronize()
            return true
        } catch {
            logger.error("the disk could not be flushed", metadata: ["error": "\(error)"])
            return false
        }
    }

    /// Stores that a file is all here, after flushing it.
    func markResident(_ file: OpenFile) throws(CloudFSError) {
        if try storeResident(file, isFlushed: false) { hub.publish([.attributes(file.id)]) }
    }

    /// - Returns: Whether others are to hear of it.
    private func storeResident(
        _ file: OpenFile,
        isFlushed: Bool
    ) throws(CloudFSError) -> Bool {
        let content = file.state.withLock { state in
            state.plan?.isComplete == true ? state.content : nil
        }
        guard let content else { return false }
        if !isFlushed { try content.synchronize() }
        try FaultPoint.hydrateFlushed.pass()
        // From then on programs write without asking who else does.
        return try file.change { state throws(CloudFSError) -> Bool in
            guard state.plan?.isComplete == true, state.content === content else { return false }
            let allocated = try content.facts().allocated
            let generation = state.generation
            try files.catalog.write { writer in
                try writer.setContent(
                    of: file.id,
                    generation: generation,
                    residency: .resident,
                    localBytes: allocated
                )
            }
            state.becomeResident()
            state.unstoredBytes = 0
            try FaultPoint.hydrateStored.pass()
            return true
        }
    }
}
