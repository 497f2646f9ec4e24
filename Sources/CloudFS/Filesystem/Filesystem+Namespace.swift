import Glibc
import Synchronization

extension Filesystem {
    // MARK: - Looking

    /// - Parameter process: Whose call it is; `nil` for nobody's.
    func lookup(
        _ name: ItemName,
        in parent: ItemID,
        process: Int32? = nil
    ) throws(CloudFSError) -> Answer<LookupResult> {
        if let sight = try announcedLookup(name, in: parent, process: process) {
            return .ready(sight)
        }
        if parent.isVirtual {
            return try answer(about: parent) { () throws(CloudFSError) in
                try self.lookUp(name, inVirtual: parent)
            }
        }
        if parent == .root, name == .reserved {
            let top = try attributes(ofVirtual: VirtualNode.top.id)
            return .ready(.found(Entry(attributes: top, isCacheable: false)))
        }
        let told = Telling(from: self)
        let (child, folder) = try catalog.readFew { reader -> (ItemRecord?, ItemRecord?) in
            if let child = try reader.child(name.bytes, of: parent) { return (child, nil) }
            return (nil, try reader.existing(parent))
        }
        if let child {
            let entry = entry(child)
            told.noteSize(of: child.id)
            told.noteName(name, in: parent)
            return .ready(.found(entry))
        }
        if let folder, folder.isListed {
            told.noteName(name, in: parent)
            return .ready(.absent(isCacheable: true))
        }
        if let folder { try requireMayFetch(folder, process) }
        return .pending { () throws(CloudFSError) in
            try await self.ensureListed(parent, within: self.options.lookupDeadline)
            let told = Telling(from: self)
            let child = try self.catalog.read { try $0.child(name.bytes, of: parent) }
            told.noteName(name, in: parent)
            return child.map { .found(self.entry($0)) } ?? .absent(isCacheable: true)
        }
    }

    func linkTarget(of id: ItemID) throws(CloudFSError) -> [UInt8] {
        if id.isVirtual { return try linkTarget(ofVirtual: id) }
        let record = try catalog.read { try $0.existing(id) }
        guard let target = record.item.linkTarget else {
            throw CloudFSError(.invalidArgument, "only symbolic links have a target", item: id)
        }
        return target
    }

    // MARK: - Making

    func makeFolder(
        _ name: ItemName,
        in parent: ItemID,
        permissions: UInt16,
        caller: Caller
    ) throws(CloudFSError) -> Entry {
        if let announced = try announcedMaking(name, in: parent, by: caller) { return announced }
        let notBefore = notBefore
        var ancestor: ItemID?
        let entry = try make(
            .folder,
            name,
            in: parent,
            permissions: permissions,
            caller: caller
        ) { record, writer in
            guard record.item.isPackage else { return record }
            // It may be the next version of one that was removed here.
            ancestor = try writer.inheritBase(
                record.id,
                name: name.bytes,
                in: parent,
                notBefore: notBefore,
                settleTime: files.settleTime
            )
            try writer.noteTreeChange(of: record.id, notBefore: notBefore)
            return try writer.reader.existing(record.id)
        }
        if let ancestor { didSucceed(entry.attributes.id, to: ancestor) }
        return entry
    }

    func makeNode(
        _ name: ItemName,
        in parent: ItemID,
        kind: ItemKind,
        permissions: UInt16,
        caller: Caller
    ) throws(CloudFSError) -> Entry {
        if let announced = try announcedMaking(name, in: parent, by: caller) { return announced }
        guard kind == .file else {
            return try make(kind, name, in: parent, permissions: permissions, caller: caller)
        }
        if let made = try made(name, in: parent, by: caller.request) { return made }
        let (entry, file) = try makeFile(name, in: parent, permissions: permissions, caller: caller)
        try files.release(file)
        return entry
    }

    func makeSymlink(
        _ name: ItemName,
        in parent: ItemID,
        target: [UInt8],
        caller: Caller
    ) throws(CloudFSError) -> Entry {
        if let announced = try announcedMaking(name, in: parent, by: caller) { return announced }
        return try make(
            .symlink,
            name,
            in: parent,
            permissions: 0o777,
            caller: caller,
            target: target
        )
    }

    func makeHardLink(
        to id: ItemID,
        _ name: ItemName,
        in parent: ItemID
    ) throws(CloudFSError) -> Entry {
        throw CloudFSError(.notPermitted, "the drive has no hard links", item: id)
    }

    func createFile(
        _ name: ItemName,
        in parent: ItemID,
        permissions: UInt16,
        flags: Int32,
        caller: Caller
    ) throws(CloudFSError) -> (Entry, OpenedFile) {
        if let made = try made(name, in: parent, by: caller.request) {
            return (made, try openNow(made.attributes.id, flags: flags & ~O_TRUNC, caller: caller))
        }
        // Until the new file is open: nobody who has waited for the name comes in between.
        let claim = try claimName(name, in: parent, for: caller)
        defer { claim?.end() }
        let (entry, file) = try makeToOpen(name, in: parent, permissions, flags, caller)
        let opened: OpenedFile
        do throws(CloudFSError) {
            opened = try openNow(file.id, flags: flags & ~O_TRUNC, caller: caller)
        } catch {
            unmake(file.id, name, in: parent, for: caller)
            try files.release(file)
            throw error
        }
        try files.release(file)
        return (entry, opened)
    }

    /// Removes a new file that cannot be opened: its maker and the kernel hear that there is none.
    private func unmake(
        _ id: ItemID,
        _ name: ItemName,
        in parent: ItemID,
        for caller: Caller
    ) {
        let (now, notBefore) = (clocks.now(), notBefore)
        do throws(CloudFSError) {
            try catalog.write(for: caller) { writer in
                try writer.unlink(id, at: now, notBefore: notBefore, by: caller.request)
            }
        } catch {
            logger.warning(
                "a new file that cannot be opened stays, as it cannot be removed",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
            return
        }
        didUnlink(id)
        publish(
            [
                .entryVanished(
                    parent: parent,
                    name: name,
                    item: id,
                    isFolder: false,
                    isGone: true
                )
            ],
            by: caller
        )
    }

    /// Makes an empty file that is opened next.
    ///
    /// The cloud may have brought something under that name which the kernel has not heard of yet,
    /// or it would have opened that. It looks again then, as `remoteChanged` makes it do, and asks
    /// to open what it finds, if its modes let the caller.
    private func makeToOpen(
        _ name: ItemName,
        in parent: ItemID,
        _ permissions: UInt16,
        _ flags: Int32,
        _ caller: Caller
    ) throws(CloudFSError) -> (Entry, OpenFile) {
        do throws(CloudFSError) {
            return try makeFile(name, in: parent, permissions: permissions, caller: caller)
        } catch  where error.code == .exists && flags & O_EXCL == 0 {
            throw CloudFSError(.remoteChanged, "the cloud has just brought \(name)", item: parent)
        }
    }

    /// Makes an empty file.
    ///
    /// - Returns: Also its live state, to be released by the caller: it need not be read again.
    private func makeFile(
        _ name: ItemName,
        in parent: ItemID,
        permissions: UInt16,
        caller: Caller
    ) throws(CloudFSError) -> (Entry, OpenFile) {
        // Its content file is there from the start: its bytes exist nowhere else.
        let generation = files.nextGeneration()
        let notBefore = notBefore
        var begun: OpenFile?
        var unnamed: ItemID?
        var ancestor: ItemID?
        do throws(CloudFSError) {
            let entry = try make(
                .file,
                name,
                in: parent,
                permissions: permissions,
                caller: caller,
                generation: generation
            ) { record, writer in
                let content = try files.store.create(record.id, generation: generation, size: 0)
                unnamed = record.id
                // After a crash the content tells the time.
                try content.setModified(record.item.metadata.modified)
                try FaultPoint.createFiled.pass()
                ancestor = try writer.inheritBase(
                    record.id,
                    name: name.bytes,
                    in: parent,
                    notBefore: notBefore,
                    settleTime: files.settleTime
                )
                if ancestor != nil { return try writer.reader.existing(record.id) }
                begun = files.begin(record, content: content, queuedFor: notBefore)
                return record
            }
            unnamed = nil
            if let ancestor { didSucceed(entry.attributes.id, to: ancestor) }
            noteOwner(of: entry.attributes.id, named: name, caller)
            if let begun { return (entry, begun) }
            return (entry, try files.acquire(entry.attributes.id))
        } catch {
            if let begun { files.abandon(begun) }
            if let unnamed { try files.store.remove(unnamed, generation: generation) }
            throw error
        }
    }

    private func make(
        _ kind: ItemKind,
        _ name: ItemName,
        in parent: ItemID,
        permissions: UInt16,
        caller: Caller,
        target: [UInt8]? = nil,
        generation: Int64 = 0,
        complete: (ItemRecord, CatalogWriter) throws -> ItemRecord = { record, _ in record }
    ) throws(CloudFSError) -> Entry {
        try requireWritable()
        try requireFree(name, in: parent)
        try requireName(name, in: parent)
        if let made = try made(name, in: parent, by: caller.request) { return made }
        let claim = try claimName(name, in: parent, for: caller)
        defer { claim?.end() }
        let now = clocks.now()
        let notBefore = notBefore
        let record = try catalog.write(for: caller) { writer in
            let folder = try writer.reader.existing(parent)
            try Self.requirePlace(folder, writer.reader)
            guard try writer.reader.child(name.bytes, of: parent) == nil else {
                throw CloudFSError(.exists, "\(name) exists already", item: parent)
            }
            // The kernel knows from before that there is no such name; it has to look again.
            guard try writer.reader.hasTree(around: folder.item) else {
                throw CloudFSError(.remoteChanged, "the package is not here", item: parent)
            }
            let package = folder.item.enclosingPackage
            let isPackage = kind == .folder && package == nil && packages.isPackageName(name)
            var new = NewItem(
                container: folder.item.container,
                kind: isPackage ? .file : kind,
                metadata: Self.metadata(
                    of: kind,
                    permissions: permissions,
                    in: folder,
                    caller: caller,
                    now
                )
            )
            new.linkTarget = target
            new.size = Int64(target?.count ?? 0)
            new.isListed = kind == .folder
            new.isPackage = isPackage
            new.package = package
            if generation != 0 {
                new.generation = generation
                new.residency = .resident
                new.cleanliness = .dirty
            }
            let made = try writer.insert(new, name: name.bytes, in: parent, at: now)
            let record = try complete(made, writer)
            try writer.touchFolder(parent, at: now, by: caller.request)
            if kind.isSynced { try writer.enqueue(record.id, notBefore: notBefore) }
            return record
        }
        fulfil(name, in: parent, with: record.id)
        publish([.entryAppeared(parent: parent, name: name)], by: caller)
        return entry(record)
    }

    /// New items belong to the caller; a folder with the set-group-id bit hands on its group.
    private static func metadata(
        of kind: ItemKind,
        permissions: UInt16,
        in folder: ItemRecord,
        caller: Caller,
        _ now: Timestamp
    ) -> ItemMetadata {
        var permissions = kind == .symlink ? 0o777 : permissions & ~caller.umask & 0o7777
        var groupID = caller.groupID
        if folder.item.metadata.permissions & 0o2000 != 0 {
            groupID = folder.item.metadata.groupID
            if kind == .folder { permissions |= 0o2000 }
        }
        return ItemMetadata(
            permissions: permissions,
            userID: caller.userID,
            groupID: groupID,
            modified: now
        )
    }

    static func requireFolder(_ record: ItemRecord) throws(CloudFSError) {
        guard record.item.isFolder else {
            throw CloudFSError(.notDirectory, "not a folder", item: record.id)
        }
    }
}
