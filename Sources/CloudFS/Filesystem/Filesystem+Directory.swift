extension Filesystem {
    func openFolder(
        _ id: ItemID,
        by request: RequestStamp? = nil,
        process: Int32? = nil
    ) throws(CloudFSError) -> Answer<OpenedFolder> {
        if id.isVirtual { return .ready(try openVirtualFolder(id, by: request)) }
        let record = try catalog.readFew { try $0.existing(id) }
        try Self.requireFolder(record)
        if record.isListed {
            guard try feed.noteOpened(id) else {
                return .ready(try opened(id, by: request, process))
            }
            return .pending { () throws(CloudFSError) in
                await self.feed.lookClosely(at: id)
                return try self.opened(id, by: request, process)
            }
        }
        try requireMayFetch(record, process)
        feed.applier.precedence.noteListing()
        return .pending { () throws(CloudFSError) in
            try await self.ensureListed(id, within: self.options.listingDeadline)
            return try self.opened(id, by: request, process)
        }
    }

    /// Looking into a package that is in the cloud only fetches it: not for programs that get no
    /// downloads.
    func requireMayFetch(_ folder: ItemRecord, _ process: Int32?) throws(CloudFSError) {
        guard folder.item.isPackage, folder.item.content.residency != .resident, let process
        else { return }
        let program = programs.program(of: process)
        guard program.isRefused else { return }
        programs.activity.noteRefusal(of: program, at: clocks.now())
        throw programs.refusal(of: program, folder.id)
    }

    private func opened(
        _ id: ItemID,
        by request: RequestStamp?,
        _ process: Int32?
    ) throws(CloudFSError) -> OpenedFolder {
        if let request, request.isRepeated, let handle = handles.folder(openedBy: request.mark) {
            return OpenedFolder(item: id, handle: handle, keepsCache: false)
        }
        let handle = try handles.add(folder: id, by: request)
        // A program that gets no downloads causes none of pictures either.
        if let desktop, process.map({ !programs.program(of: $0).isRefused }) ?? true {
            desktop.noticeOpened(id)
        }
        return OpenedFolder(
            item: id,
            handle: handle,
            keepsCache: files.caches.noteOpened(id, by: handle)
        )
    }

    /// What reading an open folder gives, at once if that takes no time.
    func readingFolder<Value: Sendable>(
        _ handle: UInt64,
        _ read: @escaping @Sendable () throws(CloudFSError) -> Value
    ) throws(CloudFSError) -> Answer<Value> {
        try answer(about: try handles.folder(handle), read)
    }

    /// Emits entries from `offset` on, until there are no more or `emit` says that it is full.
    ///
    /// An offset is the row of a name, not a position in a snapshot: a stream goes on where it
    /// was in another process, and sees each name once however the folder changes meanwhile. It
    /// ends with the names that there were when it began, so that who renames what it shows comes
    /// to an end.
    func readFolder(
        _ handle: UInt64,
        offset: Int64,
        withAttributes: Bool,
        emit: (DirectoryEntry) -> Bool
    ) throws(CloudFSError) {
        let folder = try handles.folder(handle)
        if folder.isVirtual { return try readVirtualFolder(folder, offset: offset, emit: emit) }
        let last = try handles.lastName(of: handle, isBeginning: offset == 0) {
            () throws(CloudFSError) in try catalog.readFew { try $0.newestName() }
        }
        var offset = offset
        if offset < Self.firstName, !(try emitDots(folder, from: offset, emit)) { return }
        offset = max(offset, Self.firstName)
        while true {
            let position = offset - Self.firstName
            let page = try catalog.read {
                try $0.children(of: folder, after: position, upTo: last, limit: 128)
            }
            for child in page {
                offset = child.position + Self.firstName
                let entry = DirectoryEntry(
                    name: child.name,
                    attributes: attributes(of: child.record),
                    offset: offset,
                    isCacheable: true
                )
                guard emit(entry) else { return }
            }
            if page.count < 128 { return }
        }
    }

    /// Offsets 1 and 2 are behind `.` and `..`; names follow.
    private static let firstName: Int64 = 2

    private func emitDots(
        _ folder: ItemID,
        from offset: Int64,
        _ emit: (DirectoryEntry) -> Bool
    ) throws(CloudFSError) -> Bool {
        let (own, above) = try catalog.readFew { reader in
            let own = try reader.existing(folder)
            let parent = try reader.name(of: folder)?.parent ?? folder
            return (own, try reader.existing(parent))
        }
        let dots: [(String, ItemRecord)] = [(".", own), ("..", above)]
        for (index, (name, record)) in dots.enumerated() where Int64(index) >= offset {
            let entry = DirectoryEntry(
                name: Array(name.utf8),
                attributes: attributes(of: record),
                offset: Int64(index) + 1,
                isCacheable: false
            )
            guard emit(entry) else { return false }
        }
        return true
    }

    /// Takes back an open of which the kernel does not know.
    func takeBack(_ folder: OpenedFolder) {
        files.caches.noteChanged(folder.item)
        releaseFolder(folder.handle)
    }

    func releaseFolder(_ handle: UInt64) {
        if let folder = handles.removeFolder(handle) { files.caches.noteUsed(folder, by: handle) }
    }

    func synchronizeFolder(_ id: ItemID, dataOnly: Bool) throws(CloudFSError) {
        try catalog.makeDurable()
    }
}
