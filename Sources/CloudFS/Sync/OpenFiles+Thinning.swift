import Synchronization

/// Room that files in use give back.
extension OpenFiles {
    /// Whether there is so much room on the disk that nobody waits for what was dropped.
    func hasRoomToSpare() throws(CloudFSError) -> Bool {
        try store.space().available > hydration.keptFree.addingOrMost(1 << 30)
    }

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
    /// Nothing of what was changed here, of what is being brought here whole, of a version that the
    /// cloud may not have any more, and of what the kernel reads without the drive.
    ///
    /// Blocks on the disk, and until what is on its way to the file has arrived there.
    func thin(
        _ file: OpenFile,
        by byteCount: Int64,
        sparing: HydrationPlan.Sparing = .usual
    ) throws(CloudFSError) -> Thinned {
        guard file.state.withLock({ $0.plan != nil }), mayThin.load(ordering: .relaxed) else {
            return Thinned()
        }
        return try file.change { state throws(CloudFSError) in
            guard let plan = state.plan, state.mayGiveWay else { return Thinned() }
            let held = file.held.withLock { $0.ranges }
            let dropped = plan.expendable(byteCount, beside: held, sparing: sparing)
            let content = try content(of: &state, file.id)
            guard !dropped.isEmpty, try !content.wasShown, try !isPinned(file.id)
            else { return Thinned() }
            try forget(dropped, of: &state, file.id)
            let (gone, failure) = Self.drop(dropped, of: content)
            if failure?.code == .unsupported { mayThin.store(false, ordering: .relaxed) }
            guard !gone.isEmpty else { return Thinned(failure: failure) }
            let actions = handle(.thinned(gone), &state, clocks.elapsed())
            state.noteUnstored()
            return Thinned(byteCount: gone.byteCount, actions: actions, failure: failure)
        }
    }

    /// Begins to bring the rest of a file that was changed here, which cannot be sent without it.
    ///
    /// Where the disk has no room for that, it is left to who sends it, who can make some.
    func completing(
        _ state: inout OpenFile.State,
        at now: Duration
    ) -> [HydrationPlan.Action] {
        guard state.plan?.isCompleting == true || hasRoom(for: state.missingByteCount) else {
            return []
        }
        return handle(.completeAll(forced: true), &state, now)
    }

    private func hasRoom(for byteCount: Int64) -> Bool {
        guard byteCount > 0 else { return true }
        do throws(CloudFSError) {
            return byteCount.addingOrMost(hydration.keptFree) <= (try store.space().available)
        } catch {
            // What comes then finds out.
            return true
        }
    }

    /// Whether a program, or the engine, is at a file's content.
    func isEngaged(_ id: ItemID) -> Bool {
        live(id)?.state.withLock { state in
            state.isInUse || !state.fetches.isEmpty || !state.waits.isEmpty || state.completers > 0
        } ?? false
    }

    /// What files in use that are not all here take of the disk, in bytes.
    struct PartialBytes: Sendable {
        var all: Int64 = 0
        /// What the catalog does not know of.
        var unstored: Int64 = 0
    }

    /// Without files that somebody is at just now.
    var partialBytes: PartialBytes {
        inUse.reduce(into: PartialBytes()) { sum, file in
            file.state.withLockIfAvailable { state in
                guard let plan = state.plan else { return }
                let present = plan.present.byteCount
                sum.all = sum.all.addingOrMost(present)
                // What is written again and again is counted once.
                let unknown = max(0, present - state.storedRanges.byteCount)
                sum.unstored = sum.unstored.addingOrMost(min(unknown, state.unstoredBytes))
            }
        }
    }

    /// Whether a program has a file open for writing, or somebody is at one just now.
    var mayBeWritten: Bool {
        inUse.contains { $0.state.withLockIfAvailable { $0.isBeingWritten } ?? true }
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
        if left.byteCount < state.storedRanges.byteCount {
            try catalog.write { writer in
                try writer.setRanges(left.ranges, of: id, localBytes: left.byteCount)
            }
            state.storedRanges = left
            state.mayHaveForgotten = true
            // Should they stay after all, they are stored again with the last use.
            state.noteUnstored()
        }
        guard state.mayHaveForgotten else { return }
        try catalog.makeDurable()
        state.mayHaveForgotten = false
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
    /// Whether nothing but its readers needs what is here of it.
    fileprivate var mayGiveWay: Bool {
        isLoaded && generation != 0 && !isDirty && base != nil && lostSize == nil && !isOutdated
            && !isUnlinked && completers == 0 && backing == nil && direct == nil
    }

    /// Counts anew what of the bytes that are here the catalog does not know.
    fileprivate mutating func noteUnstored() {
        guard let plan else { return }
        unstoredBytes = max(0, plan.present.byteCount - storedRanges.byteCount)
    }
}
