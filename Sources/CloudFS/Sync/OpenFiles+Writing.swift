import Synchronization

/// Local changes of content. Each is called on a worker thread and never waits for the network.
extension OpenFiles {
    /// Makes a file ready for a change: its content file is there, and the catalog knows.
    ///
    /// The catalog's mark is durable before the first byte of a synced version is overwritten:
    /// a power failure then leaves a dirty item, never a clean one with other bytes.
    func prepareToWrite(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> ContentFile {
        let content = try writableContent(of: &state, id)
        try observe(&state, id)
        try markDirty(&state, id)
        return content
    }

    func markDirty(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        state.changeCount += 1
        guard !state.isDirty else { return }
        try settleTime(of: &state, id)
        let notBefore = clocks.now() + quietTime
        try catalog.write { try $0.markDirty(id, notBefore: notBefore) }
        state.queuedFor = notBefore
        if state.base != nil { try catalog.makeDurable() }
        state.isDirty = true
        try FaultPoint.writeMarked.pass()
    }

    /// Gives the content file of what was clean the time that the item has: after a crash it tells
    /// the time of what is not clean, and that of what was fetched tells when it came.
    private func settleTime(
        of state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        guard state.generation != 0 else { return }
        try content(of: &state, id).settle(modified: state.modified)
    }

    /// Writes through `receive`, which moves the bytes and says how many.
    ///
    /// A file that is being filled is held locked meanwhile, so that its plan and its bytes agree.
    ///
    /// - Parameter place: Where to write, when the file ends at what it is given.
    func write(
        _ file: OpenFile,
        at place: (_ end: Int64) -> Int64,
        count: Int,
        receive: (ContentFile, Int64, Int) throws(CloudFSError) -> Int
    ) throws(CloudFSError) -> (written: Int, actions: [HydrationPlan.Action]) {
        let begun = try file.change { state throws(CloudFSError) -> BegunWrite in
            // From the mark on, until it is written or counted, nobody may take it for clean.
            let content = try prepareToWrite(&state, file.id)
            let offset = place(state.size)
            guard state.plan == nil else {
                let written = try receive(content, offset, count)
                return .done(written, try didWrite(written, at: offset, &state, file.id))
            }
            state.writesInFlight += 1
            return .inFlight(content, generation: state.generation, offset: offset)
        }
        switch begun {
        case .done(let written, let actions):
            return (written, actions)
        case .inFlight(let content, let generation, let offset):
            let outcome = Result { () throws(CloudFSError) in try receive(content, offset, count) }
            try file.state.withLock { state throws(CloudFSError) in
                state.writesInFlight -= 1
                if case .success(let written) = outcome, written > 0 {
                    try didWrite(upTo: offset + Int64(written), of: generation, content, &state)
                }
            }
            return (try outcome.get(), [])
        }
    }

    /// How far a write is when the lock is left.
    private enum BegunWrite {
        /// Written into a file that is being filled.
        case done(Int, [HydrationPlan.Action])
        /// To be written into a file that is all here.
        case inFlight(ContentFile, generation: Int64, offset: Int64)
    }

    /// Notes bytes of a file that is all here, which could be cut meanwhile.
    ///
    /// What went into content that was replaced by nothing was written before that.
    private func didWrite(
        upTo end: Int64,
        of generation: Int64,
        _ content: ContentFile,
        _ state: inout OpenFile.State
    ) throws(CloudFSError) {
        guard state.generation == generation else { return }
        state.didChange(at: clocks.now())
        if end > state.size { state.size = max(state.size, try content.facts().size) }
    }

    /// Notes bytes of a file that is being filled.
    private func didWrite(
        _ written: Int,
        at offset: Int64,
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> [HydrationPlan.Action] {
        guard written > 0 else { return [] }
        let end = offset + Int64(written)
        // The gap between the old end and the write is zeros, not bytes of the base.
        let range = min(offset, state.size)..<end
        try storeLocal(range, written: clocks.now(), state: &state, id)
        state.unstoredBytes += Int64(written)
        state.didChange(at: clocks.now())
        state.size = max(state.size, end)
        try storeTime(of: &state, id)
        let now = clocks.elapsed()
        return handle(.localWrite(range), &state, now)
            + completing(&state, at: now)
    }

    /// Sets the size, as `truncate` and `O_TRUNC` do.
    func truncate(
        _ file: OpenFile,
        to size: Int64
    ) throws(CloudFSError) -> [HydrationPlan.Action] {
        let hasEnded = try file.state.withLock { state throws(CloudFSError) in
            size == 0 ? try endMapped(&state, file.id) : false
        }
        if hasEnded { try release(file) }
        return try file.change {
            state throws(CloudFSError) -> [HydrationPlan.Action] in
            // Who reaches the content directly would go on with what was dropped.
            let isExposed = state.backing != nil || state.direct != nil
            if size == 0, !isExposed { return try startOver(&state, file.id) }
            try observe(&state, file.id)
            let content = try writableContent(of: &state, file.id)
            if size == 0 { try keepVersion(of: state, file.id) }
            try markDirty(&state, file.id)
            try content.truncate(to: size)
            // Whether or not the catalog can be told, nothing is fetched over what is cut off.
            state.plan?.cut(to: size)
            let start = min(size, state.size)
            state.didChange(at: clocks.now())
            state.size = size
            if size == 0 { try content.noteEmptied() }
            try save(&state, file.id)
            // From the old end on where that is nearer: an earlier cut may not be stored.
            try storeLocal(start..<Int64.max, written: nil, state: &state, file.id)
            let now = clocks.elapsed()
            return handle(.truncated(to: size), &state, now)
                + completing(&state, at: now)
        }
    }

    /// Begins an empty generation: nothing of the old content is needed, so nothing is fetched.
    private func startOver(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> [HydrationPlan.Action] {
        let (generation, content) = try makeContent(for: id, size: 0)
        let now = clocks.now()
        do {
            // After a crash the content tells the time.
            try content.setModified(now)
            try catalog.write { writer in
                let old = try writer.reader.existing(id)
                try writer.keepPrevious(old, for: id, at: now)
                try writer.discard(old)
                try writer.setContent(of: id, generation: generation, residency: .resident)
                try writer.markDirty(id, notBefore: now + quietTime)
                try writer.recordContent(
                    id,
                    size: 0,
                    modified: now,
                    changed: now,
                    localBytes: 0
                )
            }
        } catch {
            try store.remove(id, generation: generation)
            throw error
        }
        let actions =
            state.fetches.keys.map { HydrationPlan.Action.cancel($0) }
            + state.waits.keys.map { .wake($0, failure: nil) }
        state.generation = generation
        state.content = content
        state.becomeResident()
        state.isDirty = true
        state.size = 0
        state.didChange(at: now)
        state.hasUnsavedChange = false
        return actions
    }

    /// `fallocate` with the modes an ordinary disk knows, except those that move bytes.
    func allocate(
        _ file: OpenFile,
        mode: AllocationMode,
        offset: Int64,
        count: Int64
    ) throws(CloudFSError) -> [HydrationPlan.Action] {
        try file.change { state throws(CloudFSError) in
            let content = try writableContent(of: &state, file.id)
            try observe(&state, file.id)
            try markDirty(&state, file.id)
            let end = offset + count
            var own: [Range<Int64>] = []
            if mode.erases { own.append(offset..<end) }
            if !mode.keepsSize, end > state.size { own.append(state.size..<end) }
            // On a file that is being filled the disk's own size is the size that counts.
            do throws(CloudFSError) {
                try content.allocate(mode: mode.rawValue, offset: offset, count: count)
            } catch {
                // A full disk has made room for as much as it could.
                if state.direct == nil, try content.facts().size > state.size {
                    try content.truncate(to: state.size)
                }
                throw error
            }
            for range in own { try storeLocal(range, written: nil, state: &state, file.id) }
            if !mode.keepsSize { state.size = max(state.size, end) }
            state.didChange(at: clocks.now())
            try storeTime(of: &state, file.id)
            let now = clocks.elapsed()
            return own.flatMap { handle(.localWrite($0), &state, now) }
                + completing(&state, at: now)
        }
    }

    /// Copies between two files that are all here.
    ///
    /// - Throws: `unsupported` when bytes are absent: the kernel then reads and writes instead.
    func copy(
        from source: OpenFile,
        at sourceOffset: Int64,
        to target: OpenFile,
        at offset: Int64,
        count: Int
    ) throws(CloudFSError) -> Int {
        let input = try source.state.withLock { state throws(CloudFSError) -> ContentFile? in
            guard state.plan == nil else {
                throw CloudFSError(.unsupported, "the source is not all here", item: source.id)
            }
            try observe(&state, source.id)
            return state.size == 0 ? nil : try content(of: &state, source.id)
        }
        guard let input else { return 0 }
        guard target.state.withLock({ $0.plan == nil }) else {
            throw CloudFSError(.unsupported, "the target is not all here", item: target.id)
        }
        let result = try write(
            target,
            at: { _ in offset },
            count: count,
            receive: { content, offset, count throws(CloudFSError) in
                try content.copy(from: input, at: sourceOffset, to: offset, count: count)
            }
        )
        return result.written
    }

    /// Stores size and times in the catalog, and queues the change.
    func save(_ state: inout OpenFile.State, _ id: ItemID) throws(CloudFSError) {
        guard state.hasUnsavedChange, state.generation != 0 else { return }
        let content = try content(of: &state, id)
        if state.direct?.seen.modified != state.modified {
            try content.setModified(state.modified)
            state.direct?.seen.modified = state.modified
            // What a program wrote just before would not show any more.
            state.direct?.isUntouched = false
        }
        try FaultPoint.flushTimed.pass()
        let allocated = try content.facts().allocated
        let notBefore = clocks.now() + quietTime
        let (size, modified, changed) = (state.size, state.modified, state.changed)
        let accessed = state.accessed
        try catalog.write { writer in
            try writer.recordContent(
                id,
                size: size,
                modified: modified,
                changed: changed,
                localBytes: allocated
            )
            if let accessed { try writer.setMetadata(of: id, accessed: accessed, at: changed) }
            if try writer.reader.outboxEntry(of: id) != nil || state.isDirty {
                try writer.enqueue(id, notBefore: notBefore)
            }
        }
        state.hasUnsavedChange = false
        state.queuedFor = notBefore
        try FaultPoint.flushStored.pass()
    }

    /// Stores what was written through a handle that is closed now, and has it rest for the quiet
    /// time.
    func letRest(_ file: OpenFile) throws(CloudFSError) {
        let notBefore = clocks.now() + quietTime
        let isDone = try file.state.withLock { state throws(CloudFSError) in
            guard !state.isUnlinked else { return true }
            try observe(&state, file.id)
            try save(&state, file.id)
            guard let queuedFor = state.queuedFor else { return false }
            let same = Duration.nanoseconds(CatalogWriter.sameTime)
            let distance = notBefore.since(queuedFor)
            return distance <= same && distance >= .zero - same
        }
        guard !isDone else { return }
        let id = file.id
        try catalog.write { writer in
            guard let entry = try writer.reader.outboxEntry(of: id) else {
                // It was sent while it was open, and written on.
                let content = try writer.reader.item(id)?.item.content
                if content?.cleanliness == .dirty {
                    try writer.enqueue(id, notBefore: notBefore)
                }
                return
            }
            if entry.errorCode == nil { try writer.postpone(id, until: notBefore) }
        }
    }

    /// Sets the time of the last change, as `utimensat` does; the catalog is left to the caller.
    func setModified(_ moment: Timestamp, of file: OpenFile) throws(CloudFSError) {
        try file.state.withLock { state throws(CloudFSError) in
            try observe(&state, file.id)
            try setModified(moment, &state, file.id)
            state.changed = clocks.now()
        }
    }

    /// Sets times of a new file that is being written, to be stored with its size, and sent with
    /// its bytes.
    ///
    /// - Returns: Whether it is one.
    func setTimes(
        of file: OpenFile,
        modified: Timestamp?,
        accessed: Timestamp?,
        changed: Timestamp
    ) throws(CloudFSError) -> Bool {
        try file.state.withLock { state throws(CloudFSError) in
            guard state.isLoaded, state.base == nil, state.isDirty, state.writers > 0 else {
                return false
            }
            try observe(&state, file.id)
            if let modified { try setModified(modified, &state, file.id) }
            if let accessed {
                noteAccessSet(of: file.id)
                state.accessed = accessed
            }
            state.changed = changed
            state.hasUnsavedChange = true
            state.changeCount += 1
            return true
        }
    }

    private func setModified(
        _ moment: Timestamp,
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        // After a crash the content file tells the time of what is not clean.
        if state.isDirty, state.generation != 0 {
            try content(of: &state, id).setModified(moment)
            state.direct?.seen.modified = moment
            state.direct?.isUntouched = false
            state.hasUnsavedChange = true
        }
        state.modified = moment
    }

    /// Makes content, size, times and the item's place in the tree survive a power failure.
    func synchronize(_ file: OpenFile) throws(CloudFSError) {
        let (written, generation) = try file.state.withLock {
            state throws(CloudFSError) -> (ContentFile?, Int64) in
            try observe(&state, file.id)
            try save(&state, file.id)
            // Also what was written through handles that are closed by now.
            let written = state.generation == 0 ? nil : try content(of: &state, file.id)
            return (written, state.generation)
        }
        try written?.synchronizeWithTimes()
        try file.state.withLock { state throws(CloudFSError) in
            try storeRanges(&state, file.id)
        }
        try releasePrevious(of: ContentName(item: file.id, generation: generation))
        try FaultPoint.syncFlushed.pass()
        try catalog.makeDurable()
    }

    /// Tells the plan of a file what happened, unless there is no content yet that could take what
    /// the plan would begin to fetch; of a version that is gone it begins nothing.
    func handle(
        _ event: HydrationPlan.Event,
        _ state: inout OpenFile.State,
        _ now: Duration
    ) -> [HydrationPlan.Action] {
        guard state.generation != 0 || state.plan?.isOutdated == true else { return [] }
        return state.plan?.handle(event, now: now) ?? []
    }
}

/// The modes of `fallocate` that CloudFS knows.
enum AllocationMode: Int32, Sendable {
    case extend = 0
    case keepSize = 1
    case punchHole = 3
    case zeroRange = 16
    case zeroRangeKeepSize = 17

    var keepsSize: Bool { self == .keepSize || self == .punchHole || self == .zeroRangeKeepSize }
    var erases: Bool { self == .punchHole || self == .zeroRange || self == .zeroRangeKeepSize }
}
