import Logging
import Synchronization

/// Files that are all here, which the catalog does not know yet.
struct CompletedFiles: Sendable {
    struct File: Sendable {
        var file: OpenFile
        /// What was all here then; the file may have other content by the time it is stored.
        var content: ContentFile?
    }

    var files: [File] = []
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
        let content = file.state.withLock { $0.plan?.isComplete == true ? $0.content : nil }
        let begins = completed.withLock { completed in
            completed.files.append(CompletedFiles.File(file: file, content: content))
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
        for complete in gathered {
            let file = complete.file
            do throws(CloudFSError) {
                if try storeResident(file, flushed: isFlushed ? complete.content : nil) {
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

    /// Notes that all is here of a file whose content the kernel has had from an earlier process:
    /// it was let at nothing less, which that process may not have stored any more.
    func noteExposed(_ file: OpenFile) throws(CloudFSError) {
        let actions = try file.state.withLock {
            state throws(CloudFSError) -> [HydrationPlan.Action] in
            guard let plan = state.plan, state.generation != 0,
                try files.content(of: &state, file.id).wasShown
            else { return [] }
            return files.handle(.localWrite(0..<plan.size), &state, files.clocks.elapsed())
        }
        perform(actions, on: file)
    }

    /// Stores that a file is all here, after flushing it.
    func markResident(_ file: OpenFile) throws(CloudFSError) {
        if try storeResident(file, flushed: nil) { hub.publish([.attributes(file.id)]) }
    }

    /// - Parameter flushed: What is on the disk already.
    /// - Returns: Whether others are to hear of it.
    private func storeResident(
        _ file: OpenFile,
        flushed: ContentFile?
    ) throws(CloudFSError) -> Bool {
        let content = file.state.withLock { state in
            state.plan?.isComplete == true ? state.content : nil
        }
        guard let content else { return false }
        do throws(CloudFSError) {
            if content === flushed {
                try content.requireWritten()
            } else {
                try content.synchronize()
            }
        } catch {
            // Should the catalog not take it, the mark stays, and whoever reads on meets it.
            if try content.isTorn { _ = try? dropTorn(content, of: file) }
            throw error
        }
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

    /// Has those who read on fetch anew what the disk lost.
    ///
    /// - Returns: Whether the content was dropped: it is not if only this machine has its bytes.
    func dropTorn(_ content: ContentFile, of file: OpenFile) throws(CloudFSError) -> Bool {
        let actions = try file.change { state throws(CloudFSError) -> [HydrationPlan.Action]? in
            // Somebody else has done so meanwhile.
            guard state.content === content else { return [] }
            return try files.dropTorn(&state, file.id)
        }
        guard let actions else { return false }
        perform(actions, on: file)
        hub.publish([.content(file.id)])
        return true
    }
}
