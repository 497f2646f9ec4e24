import Glibc
import Logging
import Synchronization

extension Filesystem {
    // MARK: - Opening

    func open(
        _ id: ItemID,
        flags: Int32,
        caller: Caller
    ) throws(CloudFSError) -> Answer<OpenedFile> {
        feed.noteUse()
        if hydrator.files.hydration.policy == .full, !OpenFlags.truncates(flags),
            !programs.program(of: caller.processID).isRefused
        {
            return .pending { () throws(CloudFSError) in
                try await self.openComplete(id, flags: flags, caller: caller)
            }
        }
        do throws(CloudFSError) {
            return .ready(try openNow(id, flags: flags, caller: caller))
        } catch  where error.code == .claimed {
            return .pending { () throws(CloudFSError) in
                try await self.openWhenFree(id, flags: flags, caller: caller)
            }
        }
    }

    /// Opens without waiting for anything.
    ///
    /// - Throws: `claimed` when a coordinated program keeps writers out, or the kernel has not
    ///   heard of the file's size; `readOnly`, `notFound`.
    func openNow(
        _ id: ItemID,
        flags: Int32,
        caller: Caller
    ) throws(CloudFSError) -> OpenedFile {
        if let opened = opened(by: caller.request) { return opened }
        if OpenFlags.changes(flags) { try requireWritable() }
        let intent = intent(toOpen: id, flags: flags)
        let claim = try intent.map { intent throws(CloudFSError) in
            try claimNow([intent], for: caller)
        }
        return try open(id, flags: flags, caller: caller, claim: claim)
    }

    private func openWhenFree(
        _ id: ItemID,
        flags: Int32,
        caller: Caller
    ) async throws(CloudFSError) -> OpenedFile {
        await waitUntilSizeIsTold(of: id)
        var claim: Claim?
        if let intent = intent(toOpen: id, flags: flags) {
            claim = try await self.claim([intent], for: caller)
            // Replaced while it was waited for: the kernel is to look the name up again.
            guard try catalog.readFew({ try $0.name(of: id) }) != nil else {
                claim?.end()
                throw CloudFSError(.notFound, "the file was replaced", item: id)
            }
        }
        do throws(CloudFSError) {
            return try open(id, flags: flags, caller: caller, claim: claim)
        } catch  where error.code == .claimed && files.caches.untoldSizes.contains(id) {
            // The kernel looks it up again, if it has a name to look up.
            throw CloudFSError(.notFound, "the file was replaced", item: id)
        }
    }

    /// Waits until the kernel has heard that the engine has put content of another size in the
    /// place of a file's: it does not ask for the size of what it opens.
    ///
    /// A second at most: the kernel may hold back who tells it.
    private func waitUntilSizeIsTold(of id: ItemID) async {
        guard files.caches.untoldSizes.contains(id) else { return }
        // It may not have known the file when it was told, as the answer that it opens was on
        // its way.
        hub.tellAgain([.content(id)])
        let end = clocks.elapsed() + .seconds(1)
        while files.caches.untoldSizes.contains(id) {
            let left = end - clocks.elapsed()
            guard left > .zero else { return }
            await hub.settled(within: left)
            guard files.caches.untoldSizes.contains(id) else { return }
            // It is told in a moment. Cancelled, nobody waits any more.
            do { try await Task.sleep(for: .milliseconds(5)) } catch { return }
        }
    }

    private func openComplete(
        _ id: ItemID,
        flags: Int32,
        caller: Caller
    ) async throws(CloudFSError) -> OpenedFile {
        let opened: OpenedFile
        do throws(CloudFSError) {
            opened = try openNow(id, flags: flags, caller: caller)
        } catch  where error.code == .claimed {
            opened = try await openWhenFree(id, flags: flags, caller: caller)
        }
        do throws(CloudFSError) {
            try await hydrator.complete(try handles.file(opened.handle).file)
        } catch {
            release(opened.handle)
            throw error
        }
        return opened
    }

    private func open(
        _ id: ItemID,
        flags: Int32,
        caller: Caller,
        claim: Claim?
    ) throws(CloudFSError) -> OpenedFile {
        do throws(CloudFSError) {
            let file = try files.acquire(id)
            do throws(CloudFSError) {
                return try open(file, flags: flags, caller: caller, claim: claim)
            } catch {
                try files.release(file)
                throw error
            }
        } catch {
            claim?.end()
            throw error
        }
    }

    private func open(
        _ file: OpenFile,
        flags: Int32,
        caller: Caller,
        claim: Claim?
    ) throws(CloudFSError) -> OpenedFile {
        if OpenFlags.truncates(flags) {
            hydrator.perform(try files.truncate(file, to: 0), on: file)
            try FaultPoint.replaceSwitched.pass()
            try dropSetID(of: file, changedBy: caller)
            if !OpenFlags.isWritable(flags) {
                publishContent(of: file, changedBy: caller.processID)
            }
        }
        let program = programs.program(of: caller.processID)
        // What is in a package is used as the package.
        let used = file.state.withLock { $0.package } ?? file.id
        files.noteUse(of: used, isPersons: program.purpose.isPersons)
        virtual.noteUse()
        if program.purpose.isPersons { recents?.noteUse() }
        let isWritable = OpenFlags.isWritable(flags)
        let (generation, isAbsent) = file.state.withLock { state in
            state.noteOpened(isWritable: isWritable, at: clocks.now())
            return (state.generation, state.plan != nil)
        }
        if !isWritable, !program.isRefused {
            siblings.noteOpened(file.id, by: caller.processID, isAbsent: isAbsent)
        }
        do throws(CloudFSError) {
            // Its content is not replaced any more now.
            guard OpenFlags.truncates(flags) || !files.caches.untoldSizes.contains(file.id) else {
                throw CloudFSError(.claimed, "its size is not told yet", item: file.id)
            }
            if isWritable, try !noteTreeChange(around: file) {
                throw CloudFSError(.remoteChanged, "its package was replaced", item: file.id)
            }
            let backing = try expose(file, for: OpenFlags.access(flags))
            // The kernel flushes what it writes by itself; that there is a file is ours to flush.
            if backing != nil, isWritable, OpenFlags.isSynchronous(flags) {
                try catalog.makeDurable()
            }
            let handle = try handles.add(
                file,
                flags: flags,
                claim: claim,
                generation: generation,
                backing: backing,
                caller: caller
            )
            // What it will write may need room that others have to give.
            if isWritable { evictor.noticeUse(of: [file.id]) }
            // No content is replaced while it has a handle.
            return OpenedFile(
                item: file.id,
                handle: handle.number,
                keepsCache: backing == nil && files.caches.noteOpened(file.id, by: handle.number),
                backing: backing
            )
        } catch {
            forgetHandle(of: file, flags: flags)
            conceal(file)
            askIfOutdated(file)
            throw error
        }
    }

    /// What is opened for writing in a package makes that newer than its content, before the first
    /// byte: neither is the tree replaced then, nor a half of it sent.
    ///
    /// - Returns: Whether the file is part of what is sent. What was in a package before its tree
    ///   went can be used by who has it open, as something unlinked, and by nobody else.
    @discardableResult
    func noteTreeChange(around file: OpenFile) throws(CloudFSError) -> Bool {
        guard let package = file.state.withLock({ $0.package }) else { return true }
        let notBefore = notBefore
        let (isFirst, isPart) = try catalog.write { writer in
            let record = try writer.reader.item(package)
            try writer.noteTreeChange(of: package, notBefore: notBefore)
            return (record?.isTreeChanged == false, record?.isListed == true)
        }
        // A power failure must find a changed package with old bytes, never the other way round.
        if isFirst { try catalog.makeDurable() }
        return isPart
    }

    /// Lets the kernel use the content file, if it may.
    private func expose(
        _ file: OpenFile,
        for access: ContentAccess
    ) throws(CloudFSError) -> Int32? {
        let forWriting = access != .reading
        // What is being filled cannot be written without the drive being asked.
        if forWriting { try hydrator.markResident(file) }
        let (backing, isOutdated) = try file.state.withLock { state throws(CloudFSError) in
            let wasMappable = state.direct?.isMappable == true
            let backing = try files.expose(&state, file.id, for: access)
            // Nothing can be stored into an empty file, and what makes it longer is heard of.
            let isMappable = state.direct?.isMappable == true && state.size > 0
            return (backing, isMappable && !wasMappable)
        }
        // Times that the kernel keeps would not follow what is stored.
        if isOutdated { hub.publish([.attributes(file.id)]) }
        return backing
    }

    private func forgetHandle(of file: OpenFile, flags: Int32) {
        file.state.withLock { state in
            state.handles -= 1
            if OpenFlags.isWritable(flags) { state.writers -= 1 }
        }
    }

    // MARK: - Reading and writing

    /// - Parameter offset: `nil` is the end of the file, wherever that is by then.
    func write(
        _ handle: UInt64,
        offset: Int64?,
        count: Int,
        caller: Caller,
        receive: (ContentFile, Int64, Int) throws(CloudFSError) -> Int
    ) throws(CloudFSError) -> Int {
        let handle = try handles.file(handle)
        guard handle.isWritable else { throw Self.badMode(handle) }
        let (written, actions) = try files.write(
            handle.file,
            at: { end in
                offset ?? handles.place(caller.request, atEnd: end, of: handle.number)
            },
            count: count,
            receive: receive
        )
        hydrator.perform(actions, on: handle.file)
        if written > 0 { try dropSetID(of: handle.file, changedBy: caller) }
        return written
    }

    func allocate(
        _ handle: UInt64,
        mode: Int32,
        offset: Int64,
        count: Int64,
        caller: Caller
    ) throws(CloudFSError) {
        let handle = try handles.file(handle)
        guard handle.isWritable else { throw Self.badMode(handle) }
        guard let mode = AllocationMode(rawValue: mode) else {
            throw CloudFSError(.unsupported, "this kind of fallocate is not supported")
        }
        let (end, overflow) = offset.addingReportingOverflow(count)
        guard offset >= 0, count > 0, !overflow, end > 0 else {
            throw CloudFSError(.invalidArgument, "not a range to allocate")
        }
        let actions = try files.allocate(handle.file, mode: mode, offset: offset, count: count)
        hydrator.perform(actions, on: handle.file)
        try dropSetID(of: handle.file, changedBy: caller)
    }

    func copyRange(
        from source: UInt64,
        at sourceOffset: Int64,
        to destination: UInt64,
        at destinationOffset: Int64,
        count: Int,
        caller: Caller
    ) throws(CloudFSError) -> Int {
        let input = try handles.file(source)
        let output = try handles.file(destination)
        guard input.isReadable, output.isWritable else { throw Self.badMode(output) }
        let copied = try files.copy(
            from: input.file,
            at: sourceOffset,
            to: output.file,
            at: destinationOffset,
            count: count
        )
        if copied > 0 { try dropSetID(of: output.file, changedBy: caller) }
        return copied
    }

    /// Absent bytes count as data.
    ///
    /// Taken for holes, they would be stored as zeros by `cp` and `tar`. So does all of a file that
    /// somebody may have mapped and written to: those pages are the kernel's alone, unless it
    /// reaches the content directly.
    func seek(
        _ handle: UInt64,
        offset: Int64,
        target: SeekTarget
    ) throws(CloudFSError) -> Int64 {
        let file = try handles.file(handle).file
        let (size, content) = try file.state.withLock {
            state throws(CloudFSError) -> (Int64, ContentFile?) in
            let isHere =
                state.plan == nil && state.generation != 0
                && (state.writers == 0 || state.backing != nil)
            try files.observe(&state, file.id)
            return (state.size, isHere ? try files.content(of: &state, file.id) : nil)
        }
        guard offset >= 0, offset < size else {
            throw CloudFSError(.noData, "nothing there", item: file.id)
        }
        guard let content else { return target == .data ? offset : size }
        guard let found = try content.seek(from: offset, hole: target == .hole) else {
            throw CloudFSError(.noData, "no data there", item: file.id)
        }
        return min(found, size)
    }

    // MARK: - Closing

    /// A close of one of a handle's descriptors: what it changed is stored, so that nobody who
    /// reads the catalog when the handle is released meets what was there before.
    func flush(_ handle: UInt64, lockOwner: UInt64) throws(CloudFSError) {
        let handle = try handles.file(handle)
        unlockAll(.posix, on: handle.file.id, owner: lockOwner)
        guard handle.isWritable else { return }
        try handle.file.state.withLock { state throws(CloudFSError) in
            try files.observe(&state, handle.file.id)
            try files.save(&state, handle.file.id)
        }
        publishContent(of: handle.file, changedBy: handle.opener)
        // Only who had it open meanwhile hears of all that failed, and a program by its close only.
        try handle.file.state.withLock { $0.content }?.requireWritten()
    }

    func synchronize(_ handle: UInt64, dataOnly: Bool) throws(CloudFSError) {
        let handle = try handles.file(handle)
        try files.synchronize(handle.file)
        publishContent(of: handle.file, changedBy: handle.opener)
    }

    /// Takes back an open of which the kernel does not know.
    func takeBack(_ opened: OpenedFile) {
        files.caches.noteChanged(opened.item)
        release(opened.handle)
    }

    func release(_ number: UInt64) {
        handles.closeFile(number) { close($0) }
    }

    /// Gives back all that belongs to a handle; what is left is found by the next worker.
    private func close(_ handle: FileHandle) {
        let file = handle.file
        store(file) { try FaultPoint.closeBegun.pass() }
        unlockAll(through: handle)
        files.caches.noteUsed(file.id, by: handle.number)
        file.state.withLock { $0.plan?.forget(handle: handle.number) }
        forgetHandle(of: file, flags: handle.flags)
        conceal(file)
        handle.claim?.end()
        if OpenFlags.changes(handle.flags) {
            store(file) { try files.letRest(file) }
            publishContent(of: file, changedBy: handle.opener)
        }
        askIfOutdated(file)
        store(file) { try files.release(file) }
        evictor.noticeUse(of: [file.id])
    }

    private func store(_ file: OpenFile, _ step: () throws -> Void) {
        do { try step() } catch {
            logger.error(
                "the state of a closed file could not be stored",
                metadata: ["item.id": "\(file.id)", "error": "\(error)"]
            )
        }
    }

    /// Has the cloud asked about a file that it went on without, if nobody uses it any more.
    private func askIfOutdated(_ file: OpenFile) {
        let (isOutdated, missedIn) = file.state.withLock {
            ($0.isOutdated && !$0.isInUse, $0.missedIn)
        }
        guard isOutdated else { return }
        Task { await feed.hintParent(of: file.id, missedIn: missedIn) }
    }

    /// Takes the content file back from the kernel after a close, if it was the last.
    private func conceal(_ file: OpenFile) {
        do throws(CloudFSError) {
            if try files.conceal(file) { hub.publish([.state(file.id)]) }
        } catch {
            logger.error(
                "it is not known whether a closed file is mapped",
                metadata: ["item.id": "\(file.id)", "error": "\(error)"]
            )
        }
    }
}
