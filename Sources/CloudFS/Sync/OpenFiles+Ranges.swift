/// Which bytes of a file are here, as the catalog may say it.
extension OpenFiles {
    /// Stores which ranges are here, after the bytes themselves were flushed.
    func storeRanges(_ state: inout OpenFile.State, _ id: ItemID) throws(CloudFSError) {
        guard state.unstoredBytes > 0, let plan = state.plan, let content = state.content
        else { return }
        do throws(CloudFSError) {
            try content.synchronize()
        } catch {
            guard try content.isTorn else { throw error }
            // What was fetched can be fetched again; what programs wrote is stored already.
            state.unstoredBytes = 0
            return
        }
        let allocated = try content.facts().allocated
        try catalog.write { writer in
            try writer.setRanges(plan.present.ranges, of: id, localBytes: allocated)
        }
        state.storedRanges = plan.present
        state.unstoredBytes = 0
    }

    /// How long what programs wrote is not flushed: as long as the system leaves it in memory.
    private static let writtenAge = Duration.seconds(30)

    /// Flushes what programs wrote some time ago into files that are not all here: a power failure
    /// takes no more of them than of any other.
    ///
    /// - Returns: In which time to look again; `nil` if there is nothing more.
    func flushWritten() throws(CloudFSError) -> Duration? {
        let files = try catalog.read { try $0.filesWithUnflushedRanges() }
        let now = clocks.now()
        var rest: Duration?
        for (id, since) in files {
            let age = now.since(since)
            // The clock may have been set back.
            if age >= Self.writtenAge || age < .zero {
                try flushRanges(of: id)
            } else {
                rest = min(rest ?? Self.writtenAge, Self.writtenAge - age)
            }
        }
        return rest
    }

    private func flushRanges(of id: ItemID) throws(CloudFSError) {
        let file = try acquire(id)
        do {
            try file.state.withLock { state throws(CloudFSError) in
                _ = try content(of: &state, id)
                try storeRanges(&state, id)
            }
        } catch {
            try release(file)
            throw error
        }
        try release(file)
    }

    /// Has a file fetched anew of which the disk lost bytes, if they are in the cloud.
    ///
    /// What the catalog calls present was flushed before, and is sound.
    ///
    /// - Returns: What ends the fetches and waits of the lost content; `nil` if it stays.
    /// - Throws: What the catalog says; then the content stays, and its mark.
    func dropTorn(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> [HydrationPlan.Action]? {
        guard state.plan != nil, !state.isDirty, state.base != nil, state.direct == nil else {
            return nil
        }
        try catalog.write { try $0.dropContent(of: try $0.reader.existing(id)) }
        return reload(&state, id)
    }
}
