import Synchronization

/// What a handle is for.
enum ContentAccess: Sendable {
    case reading
    case writing
    /// Writing without waiting, which is what `touch` asks for and hardly any program that writes.
    case touching
    /// Nothing less can be mapped for storing into it.
    case readingAndWriting
}

/// Content that programs read and write without the drive being asked.
///
/// What they do shows on the disk only: it is looked at where size, times or bytes count. Until it
/// is certain that nobody can write any more, the item is dirty in the catalog, so that a crash
/// loses nothing.
extension OpenFiles {
    /// Lets the kernel use the content file for a handle that was counted before, if it may.
    ///
    /// All handles of a file are alike, as the kernel wants it: the first one that comes here
    /// decides.
    /// - Returns: What the kernel calls the content file.
    func expose(
        _ state: inout OpenFile.State,
        _ id: ItemID,
        for access: ContentAccess
    ) throws(CloudFSError) -> Int32? {
        let forWriting = access != .reading
        if !state.isBackingDecided {
            let hasContent = state.generation != 0 || (forWriting && state.base == nil)
            // All of it may be here before it is flushed, and stored as resident: good for reading.
            let isHere = state.plan == nil || (!forWriting && state.plan?.isComplete == true)
            // Bytes that the kernel may write count as changed, and would be sent for a new time.
            let isTouched = access == .touching && !state.isDirty && state.base != nil
            state.isBackingDecided = true
            guard passthrough.mode == .on, isHere, hasContent, !state.hasSetID, !isTouched
            else { return nil }
            let content = try content(of: &state, id)
            // What the catalog calls resident is never thinned.
            if state.plan != nil {
                do throws(CloudFSError) {
                    try content.noteShown()
                } catch  where error.code == .readOnly {
                    // It can be read through the drive as well.
                    return nil
                }
            }
            state.backing = passthrough.register(content)
        }
        guard let backing = state.backing else { return nil }
        guard !forWriting || state.plan == nil else {
            throw CloudFSError(.claimed, "the file is not stored as resident yet", item: id)
        }
        if forWriting { _ = try writableContent(of: &state, id) }
        // The pages that the kernel kept before are not those that it uses now.
        caches.noteChanged(id)
        if forWriting, state.direct == nil { try beginDirectWriting(&state, id) }
        if access == .readingAndWriting { state.direct?.isMappable = true }
        return backing
    }

    private func beginDirectWriting(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) {
        let wasClean = !state.isDirty && state.base != nil
        try markDirty(&state, id)
        let facts = try content(of: &state, id).facts()
        let isUntouched = wasClean && !facts.isFresh(at: clocks.now())
        var direct = OpenFile.DirectWriting(seen: facts, isUntouched: isUntouched)
        direct.agreed = state.base?.version.content
        setDirect(direct, &state, id)
    }

    private func setDirect(
        _ direct: OpenFile.DirectWriting?,
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) {
        state.direct = direct
        directWriters.note(id, isWritten: direct != nil, isMapped: direct?.isMapped == true)
    }

    /// Notes that programs still write a content file that they reached before this process began:
    /// handles of a dead mount, and its mappings, go on as long as they are held.
    func adoptWriters(of id: ItemID) throws(CloudFSError) {
        // Used until it is certain that nobody writes it.
        let file = try acquire(id)
        do throws(CloudFSError) {
            try file.state.withLock { state throws(CloudFSError) in
                let facts = try content(of: &state, id).facts()
                var direct = OpenFile.DirectWriting(seen: facts, isUntouched: false)
                direct.isMappable = true
                direct.isMapped = true
                setDirect(direct, &state, id)
            }
        } catch {
            try release(file)
            throw error
        }
    }

    /// The same for a file with a handle that an earlier worker left, unless it is noted already.
    func adoptDirectWriters(of file: OpenFile) throws(CloudFSError) {
        guard file.state.withLock({ $0.direct == nil }) else { return }
        try adoptWriters(of: file.id)
    }

    /// Notes that a handle ends here which a program may have still: it can write afterwards, as
    /// through a mapping.
    func noteOutlived(_ file: OpenFile) {
        file.state.withLock { $0.direct?.isMappable = true }
    }

    /// Looks whether programs have written since the last look.
    func observe(_ state: inout OpenFile.State, _ id: ItemID) throws(CloudFSError) {
        if state.isPackage, try catalog.readFew({ try $0.item(id)?.isTreeChanged }) == true {
            state.isDirty = true
        }
        guard let seen = state.direct?.seen else { return }
        let facts = try content(of: &state, id).facts()
        state.direct?.seen = facts
        guard facts.size != seen.size || facts.modified != seen.modified else { return }
        state.direct?.isUntouched = false
        state.didChange(at: facts.modified)
        state.changed = max(state.changed, facts.changed)
        state.size = facts.size
    }

    /// Takes the content file back from the kernel, when a handle was closed and is no longer
    /// counted, if it was the last.
    ///
    /// - Returns: Whether the item is clean now and was not: everything was sent before.
    func conceal(_ file: OpenFile) throws(CloudFSError) -> Bool {
        var isCleaned = false
        let hasEnded = try file.state.withLock { state throws(CloudFSError) -> Bool in
            guard state.handles == 0 else { return false }
            let wasDirty = state.isDirty
            defer { isCleaned = wasDirty && !state.isDirty }
            if let backing = state.backing { passthrough.unregister(backing) }
            state.backing = nil
            state.isBackingDecided = false
            guard let direct = state.direct else { return false }
            // A mapped file is in use until it is certain that nobody writes it; so is one of
            // which that cannot be told.
            defer { if !direct.isMapped, state.direct?.isMapped == true { retain(file) } }
            do throws(CloudFSError) {
                return try endDirectWriting(&state, file.id) && direct.isMapped
            } catch {
                setMapped(&state, file.id)
                throw error
            }
        }
        if hasEnded { try release(file) }
        return isCleaned
    }

    private func setMapped(_ state: inout OpenFile.State, _ id: ItemID) {
        guard var direct = state.direct else { return }
        direct.isMapped = true
        setDirect(direct, &state, id)
    }

    /// Looks once more whether a file that nobody has open is mapped.
    ///
    /// - Returns: Whether it was until now: then a use of it is to be ended.
    func endMapped(_ state: inout OpenFile.State, _ id: ItemID) throws(CloudFSError) -> Bool {
        guard state.handles == 0, state.direct?.isMapped == true else { return false }
        return try endDirectWriting(&state, id)
    }

    /// - Returns: Whether nobody can write any more.
    private func endDirectWriting(
        _ state: inout OpenFile.State,
        _ id: ItemID
    ) throws(CloudFSError) -> Bool {
        guard let direct = state.direct else { return true }
        try observe(&state, id)
        // Where nobody could map it, nobody can write after the last handle.
        if direct.isMappable {
            // A descriptor of ours would look like a writer.
            state.content = nil
            guard store.isUnwritten(id, generation: state.generation) else {
                setMapped(&state, id)
                return false
            }
            try observe(&state, id)
        }
        if try isSent(state, id) { state.isDirty = false }
        setDirect(nil, &state, id)
        return true
    }

    /// Whether the cloud has everything, so that the item is clean again.
    private func isSent(_ state: OpenFile.State, _ id: ItemID) throws(CloudFSError) -> Bool {
        // A new file has never been sent.
        guard state.direct?.agreed != nil else { return false }
        return try catalog.write { writer in
            let base = try writer.reader.base(of: id)
            guard state.hasNothingToSend(beside: base) else { return false }
            try writer.markClean(id)
            if let length = state.length { try writer.setSize(length, of: id) }
            return true
        }
    }

    // MARK: - Looking after writers

    /// Looks at the files that programs may write without the drive being asked.
    ///
    /// - Returns: Those that nobody can write any more, and which were mapped only until now.
    func lookAfterWriters() -> (ended: [OpenFile], failures: [ItemID: CloudFSError]) {
        var ended: [OpenFile] = []
        var failures: [ItemID: CloudFSError] = [:]
        for id in directWriters.items {
            guard let file = live(id) else { continue }
            do throws(CloudFSError) {
                if try !isWritten(file) { ended.append(file) }
            } catch {
                failures[id] = error
            }
        }
        return (ended, failures)
    }

    private func isWritten(_ file: OpenFile) throws(CloudFSError) -> Bool {
        try file.state.withLock { state throws(CloudFSError) in
            if try endMapped(&state, file.id) { return false }
            try observe(&state, file.id)
            try save(&state, file.id)
            return true
        }
    }
}
