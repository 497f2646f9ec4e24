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
