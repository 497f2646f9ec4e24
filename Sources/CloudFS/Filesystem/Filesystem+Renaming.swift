extension Filesystem {
    func rename(
        _ name: ItemName,
        in parent: ItemID,
        to newName: ItemName,
        in newParent: ItemID,
        mode: RenameMode,
        caller: Caller
    ) throws(CloudFSError) {
        try requireWritable()
        try requireFree(name, in: parent)
        try requireFree(newName, in: newParent)
        try requireName(newName, in: newParent)
        if mode == .exchange { try requireName(name, in: parent) }
        guard try !isDone(caller.request, to: newParent) else { return }
        let change = Renaming(
            name: name,
            parent: parent,
            newName: newName,
            newParent: newParent,
            mode: mode,
            now: clocks.now(),
            notBefore: notBefore,
            request: caller.request
        )
        let nameClaim = try claimName(newName, in: newParent, for: caller)
        defer { nameClaim?.end() }
        let result = try withClaims(for: caller) { reader in
            try Self.intents(of: change, reader)
        } _: { claimed throws(CloudFSError) in
            let result = try catalog.write(for: caller) { writer in
                if !caller.isRepresented { try self.requireSeen(change) }
                return try self.rename(change, claimed, writer)
            }
            // Before anybody can claim what has the name now.
            if let id = result.moved.first { fulfil(newName, in: newParent, with: id) }
            handOn(result)
            return result
        }
        for (package, members) in result.packed { packages.noteJoined(members, package) }
        if parent != newParent { for id in result.moved { coordinator.noteMoved(id) } }
        if let victim = result.victim {
            replaced.keep(victim.id)
            didUnlink(victim)
        }
        if let ancestor = result.ancestor { eraseIfDone(ancestor) }
        publish(change.news(of: result), by: caller)
    }

    /// Documents go on as other items.
    private func handOn(_ result: Renamed) {
        if let victim = result.victim {
            for id in result.moved { succeed(victim.id, as: id) }
        }
        if let (old, new) = result.saved { succeed(old, as: new) }
        if let ancestor = result.ancestor, let id = result.moved.first {
            succeed(ancestor, as: id)
        }
    }

    /// A document goes on as another item, where a program saved it by replacing the file.
    func didSucceed(_ heir: ItemID, to ancestor: ItemID) {
        succeed(ancestor, as: heir)
        eraseIfDone(ancestor)
    }

    private func succeed(_ item: ItemID, as heir: ItemID) {
        files.noteReplaced(item, by: heir)
        coordinator.pass(item, to: heir)
        board.pass(item, to: heir)
    }

    /// What a rename is asked to do.
    private struct Renaming {
        var name: ItemName
        var parent: ItemID
        var newName: ItemName
        var newParent: ItemID
        var mode: RenameMode
        var now: Timestamp
        var notBefore: Timestamp
        var request: RequestStamp?

        func news(of result: Renamed) -> [ItemChange] {
            guard let item = result.moved.first else { return [] }
            let isNew = result.victim == nil && mode != .exchange
            return [
                mode == .exchange
                    ? .entryReplaced(parent: parent, name: name)
                    : .entryVanished(
                        parent: parent,
                        name: name,
                        item: item,
                        isFolder: result.isFolder,
                        isGone: false
                    ),
                isNew
                    ? .entryAppeared(parent: newParent, name: newName)
                    : .entryReplaced(parent: newParent, name: newName),
            ]
        }
    }

    private struct Renamed {
        /// Items with new names.
        var moved: [ItemID] = []
        /// Whether the first of them is a folder.
        var isFolder = false
        /// Who lost its name.
        var victim: ItemRecord?
        /// Whose identity the moved one has now.
        var ancestor: ItemID?
        /// A document that was put aside for another version of it, and that one.
        var saved: (old: ItemID, new: ItemID)?
        /// Folders that have become packages, and what is in them.
        var packed: [(package: ItemID, members: [ItemID])] = []
    }

    private static func intents(
        of change: Renaming,
        _ reader: CatalogReader
    ) throws -> [AccessIntent] {
        let source = try child(change.name, of: change.parent, reader)
        let target = try reader.child(change.newName.bytes, of: change.newParent)
        return [(source, .forMoving), (target, .forReplacing)].compactMap { record, option in
            record.map { .writing($0.id, option, isFolder: $0.item.kind == .folder) }
        }
    }

    /// Makes sure that what is renamed is what the kernel knows under that name.
    ///
    /// The kernel tells names only. If the engine has just given one to another item, the kernel
    /// would show the old one under the new name, to a program that might remove it there. It
    /// looks the name up again, as `remoteChanged` makes it do, and asks once more.
    private func requireSeen(_ change: Renaming) throws(CloudFSError) {
        var places = [NamePlace(parent: change.parent, name: change.name.bytes)]
        if change.mode == .exchange {
            places.append(NamePlace(parent: change.newParent, name: change.newName.bytes))
        }
        guard places.contains(where: catalog.untoldNames.contains) else { return }
        throw CloudFSError(
            .remoteChanged,
            "the cloud has just given a name to another item",
            item: change.parent
        )
    }

    private func rename(
        _ change: Renaming,
        _ claimed: [ItemID],
        _ writer: CatalogWriter
    ) throws -> Renamed {
        let reader = writer.reader
        let source = try Self.child(change.name, of: change.parent, reader)
        let target = try reader.child(change.newName.bytes, of: change.newParent)
        for record in [source, target] {
            if let record { try Self.require(record, among: claimed) }
        }
        try Self.requireMovable(source, to: change.newParent, reader)
        if change.mode == .exchange { return try exchange(source, target, change, writer) }
        guard let target else { return try move(source, over: nil, change, writer) }
        guard change.mode != .noReplace else {
            throw CloudFSError(
                .exists,
                "\(change.newName) exists already",
                item: change.newParent
            )
        }
        if target.id == source.id { return Renamed() }
        try Self.requireReplaceable(target, by: source, reader)
        return try move(source, over: target, change, writer)
    }

    private func move(
        _ source: ItemRecord,
        over victim: ItemRecord?,
        _ change: Renaming,
        _ writer: CatalogWriter
    ) throws -> Renamed {
        let packed = try adopt(source, as: change.newName, in: change.newParent, change, writer)
        let wasHeld = try writer.reader.isHeldBack(below: source.id)
        let ancestor = try writer.rename(
            source.id,
            to: change.newName.bytes,
            in: change.newParent,
            replacing: victim?.id,
            at: change.now,
            notBefore: change.notBefore,
            by: change.request,
            settleTime: files.settleTime
        )
        if wasHeld { try writer.lookAgainAtHeld() }
        return Renamed(
            moved: [source.id],
            isFolder: source.item.isFolder,
            victim: victim,
            ancestor: ancestor,
            packed: packed
        )
    }

    private func exchange(
        _ source: ItemRecord,
        _ target: ItemRecord?,
        _ change: Renaming,
        _ writer: CatalogWriter
    ) throws -> Renamed {
        guard let target else {
            throw CloudFSError(
                .notFound,
                "\(change.newName) does not exist",
                item: change.newParent
            )
        }
        if target.id == source.id { return Renamed() }
        try Self.requireMovable(target, to: change.parent, writer.reader)
        let packed =
            try adopt(source, as: change.newName, in: change.newParent, change, writer)
            + adopt(target, as: change.name, in: change.parent, change, writer)
        let wasHeld = try [source, target].contains {
            try writer.reader.isHeldBack(below: $0.id)
        }
        try writer.exchange(
            source.id,
            target.id,
            at: change.now,
            notBefore: change.notBefore,
            by: change.request
        )
        if wasHeld { try writer.lookAgainAtHeld() }
        var result = Renamed(moved: [source.id, target.id], packed: packed)
        // A document is put aside where what has its place now is synced, and it is not any more.
        let isAside = options.isIgnored(change.name, target.item.isFolder)
        guard isAside != options.isIgnored(change.newName, source.item.isFolder) else {
            return result
        }
        let (old, new) = isAside ? (target, source) : (source, target)
        let isPassed = try writer.passDocument(
            of: old,
            to: new.id,
            notBefore: change.notBefore,
            settleTime: files.settleTime
        )
        if isPassed { result.saved = (old.id, new.id) }
        return result
    }

    private static func requireMovable(
        _ record: ItemRecord,
        to folder: ItemID,
        _ reader: CatalogReader
    ) throws {
        let target = try reader.existing(folder)
        try requirePlace(target, reader)
        guard target.item.container == record.item.container else {
            throw CloudFSError(.crossContainer, "the folder is in another container", item: folder)
        }
        guard record.item.isFolder, try reader.isInside(folder, of: record.id) else {
            return
        }
        throw CloudFSError(
            .invalidArgument,
            "a folder cannot be moved into itself",
            item: record.id
        )
    }

    /// Makes sure that something can be put into a folder.
    ///
    /// The kernel may not have heard yet that another device has removed it.
    static func requirePlace(_ folder: ItemRecord, _ reader: CatalogReader) throws {
        try requireFolder(folder)
        guard try reader.isKept(folder.id) else {
            throw CloudFSError(.notFound, "the folder was deleted", item: folder.id)
        }
    }

    /// Makes a package of a folder that gets a package's name.
    ///
    /// Only if no cloud has it yet: a package is another thing there. So nothing comes into one or
    /// out of one, either; `mv` copies then.
    ///
    /// - Returns: A package that was a folder, and what is in it.
    private func adopt(
        _ record: ItemRecord,
        as name: ItemName,
        in folder: ItemID,
        _ change: Renaming,
        _ writer: CatalogWriter
    ) throws -> [(package: ItemID, members: [ItemID])] {
        let package = try writer.reader.existing(folder).item.enclosingPackage
        guard package == record.item.package else {
            throw CloudFSError(.crossContainer, "packages are moved as one", item: record.id)
        }
        let isPackage = record.item.isPackage
        guard record.item.isFolder, package == nil, packages.isPackageName(name) != isPackage
        else { return [] }
        if !isPackage {
            let members = try writer.makePackage(of: record.id, notBefore: change.notBefore)
            return [(record.id, members)]
        }
        // What a program sets aside to remove it stays what it is.
        guard options.isIgnored(name, true) else {
            throw CloudFSError(.crossContainer, "it is a package", item: record.id)
        }
        return []
    }

    private static func requireReplaceable(
        _ target: ItemRecord,
        by source: ItemRecord,
        _ reader: CatalogReader
    ) throws {
        if target.item.isFolder {
            try requireFolder(source)
            try requireEmpty(target, reader)
        } else if source.item.isFolder {
            throw CloudFSError(.notDirectory, "the target is not a folder", item: target.id)
        }
    }
}
