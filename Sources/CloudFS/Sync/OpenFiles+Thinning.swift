import Synchronization

/// Room that files in use give back.
extension OpenFiles {
    /// What became of a file that was to give room back.
    struct Thinned: Sendable {
        /// Bytes of it that are not here any more.
        var byteCount: Int64 = 0
        /// To be performed whatever else happens.
        var actions: [HydrationPlan.Action] = []
        /// Why there is not more.
        var failure: CloudFSError?
    }

    /// Drops bytes of a file in use that the cloud has too, and that no reader is near of.
    ///
    /// Nothing of what was changed here, of what a person wants here, and of a version that the
    /// cloud may not have any more.
    ///
    /// Blocks on the disk, and until what is on its way to the file has arrived there.
    func thin(
        _ file: OpenFile,
        by byteCount: Int64,
        sparing: HydrationPlan.Sparing = .usual
    ) throws(CloudFSError) -> Thinned {
        guard file.state.withLock({ $0.plan != nil }) else { return Thinned() }
        return try file.change { state throws(CloudFSError) in
            guard state.isLoaded, let plan = state.plan, state.generation != 0, !state.isDirty,
                state.base != nil, state.lostSize == nil, !state.isOutdated, state.completers == 0
            else { return Thinned() }
            let held = file.held.withLock { $0.ranges }
            let dropped = plan.expendable(byteCount, beside: held, sparing: sparing)
            guard !dropped.isEmpty, try !isPinned(file.id) else { return Thinned() }
            try forget(dropped, of: &state, file.id)
            let content = try content(of: &state, file.id)
            let (gone, failure) = Self.drop(dropped, of: content)
            guard !gone.isEmpty else { return Thinned(failure: failure) }
            let actions = handle(.thinned(gone), &state, clocks.elapsed())
            state.noteThinned()
            return Thinned(byteCount: gone.byteCount, actions: actions, failure: failure)
        }
    }

    /// How much has arrived in files in use that the catalog does not know of.
    ///
    /// Without files that somebody is at just now.
    var unstoredBytes: Int64 {
        inUse.reduce(0) { $0 + ($1.state.withLockIfAvailable { $0.unstoredBytes } ?? 0) }
    }

    private func isPinned(_ id: ItemID) throws(CloudFSError) -> Bool {
        try catalog.read { try $0.effectivePolicy(of: id) == .pinned }
    }

    /// Has the catalog forget ranges before they are dropped: whatever happens, it never takes a
    /// hole for bytes.
    private func forget(
        _ dropped: ByteRangeSet,
        of state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        let left = state.storedRanges.subtracting(dropped)
        guard left.byteCount < state.storedRanges.byteCount else { return }
        let allocated = try content(of: &state, id).facts().allocated
        try catalog.write { writer in
            try writer.setRanges(
                left.ranges,
                of: id,
                localBytes: max(0, allocated - dropped.byteCount)
            )
        }
        state.storedRanges = left
        try catalog.makeDurable()
    }

    /// - Returns: What is not to be read any more.
    private static func drop(
        _ dropped: ByteRangeSet,
        of content: ContentFile
    ) -> (ByteRangeSet, CloudFSError?) {
        var gone = ByteRangeSet()
        for range in dropped.ranges {
            do throws(CloudFSError) {
                try content.allocate(
                    mode: AllocationMode.punchHole.rawValue,
                    offset: range.lowerBound,
                    count: Int64(range.count)
                )
                gone.insert(range)
            } catch {
                // Where no disk's blocks can be given back singly, nothing has happened.
                if error.code != .unsupported { gone.insert(range) }
                return (gone, error)
            }
        }
        return (gone, nil)
    }
}

extension OpenFile.State {
    /// What of the bytes that are here the catalog does not know, after some were dropped.
    fileprivate mutating func noteThinned() {
        guard let plan else { return }
        unstoredBytes = max(0, plan.present.byteCount - storedRanges.byteCount)
    }
}
