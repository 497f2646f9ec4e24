/// Which bytes of a file are here, as the catalog may say it.
extension OpenFiles {
    /// Stores which bytes of a partial file are its own, not those of its base: whatever becomes of
    /// this process, nothing is fetched over them.
    ///
    /// Before the plan hears of them: should this fail, those who wait for them still do.
    ///
    /// Not flushed first, as the bytes are not: both survive this process. After a power failure
    /// they are those of the base, as on a disk that never got the new ones.
    ///
    /// - Parameter written: When a program wrote it; `nil` where the disk knows of it before it
    ///   knows of this, as of what is cut off.
    func storeLocal(
        _ range: Range<Int64>,
        written: Timestamp?,
        state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        guard let plan = state.plan else { return }
        let range = range.clamped(to: 0..<plan.size)
        let ranges = state.storedRanges.missing(in: range)
        guard !ranges.isEmpty else { return }
        try catalog.write { try $0.addRanges(ranges, of: id, written: written) }
        state.storedRanges.insert(range)
    }

    /// Stores size and time of a file that is being filled: fetched bytes give its content file
    /// another time, which a crash could leave there.
    func storeTime(
        of state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        guard state.plan != nil else { return }
        let allocated = try content(of: &state, id).facts().allocated
        let (size, modified, changed) = (state.size, state.modified, state.changed)
        try catalog.write { writer in
            try writer.recordContent(
                id,
                size: size,
                modified: modified,
                changed: changed,
                localBytes: allocated
            )
        }
    }

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
        var failure: CloudFSError?
        for (id, since) in files {
            let age = now.since(since)
            // The clock may have been set back.
            guard age >= Self.writtenAge || age < .zero else {
                rest = min(rest ?? Self.writtenAge, Self.writtenAge - age)
                continue
            }
            // One that fails keeps no other.
            do throws(CloudFSError) { try flushWritten(of: id) } catch { failure = error }
        }
        if let failure { throw failure }
        return rest
    }

    private func flushWritten(of id: ItemID) throws(CloudFSError) {
        let file = try acquire(id)
        let outcome = Result { () throws(CloudFSError) in try synchronize(file) }
        let content = file.state.withLock { $0.content }
        try release(file)
        guard case .failure(let error) = outcome else { return }
        // Whoever reads or sends it hears of what the disk lost.
        guard try content?.isTorn == true else { throw error }
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
