extension Filesystem {
    func removeFile(
        _ name: ItemName,
        from parent: ItemID,
        caller: Caller
    ) throws(CloudFSError) {
        try remove(name, from: parent, caller: caller) { record, _ in
            guard !record.item.isFolder else {
                throw CloudFSError(.isDirectory, "\(name) is a folder", item: record.id)
            }
        }
    }

    func removeFolder(
        _ name: ItemName,
        from parent: ItemID,
        caller: Caller
    ) throws(CloudFSError) {
        try remove(name, from: parent, caller: caller) { record, reader in
            try Self.requireFolder(record)
            try Self.requireEmpty(record, reader)
        }
    }

    private func remove(
        _ name: ItemName,
        from parent: ItemID,
        caller: Caller,
        requiring require: (ItemRecord, CatalogReader) throws -> Void
    ) throws(CloudFSError) {
        if try isAnnouncedRemoval(name, from: parent, by: caller) { return }
        try requireWritable()
        try requireFree(name, in: parent)
        guard try !isDone(caller.request, to: parent) else { return }
        let now = clocks.now()
        let notBefore = notBefore
        let record = try withClaims(for: caller) { reader in
            [.writing(try Self.child(name, of: parent, reader).id, .forDeleting)]
        } _: { claimed throws(CloudFSError) in
            try catalog.write(for: caller) { writer in
                let record = try Self.child(name, of: parent, writer.reader)
                try require(record, writer.reader)
                try Self.require(record, among: claimed)
                try writer.unlink(record.id, at: now, notBefore: notBefore, by: caller.request)
                return record
            }
        }
        didUnlink(record)
        publishRemoval(of: record, name, from: parent, by: caller)
    }

    /// Removes a package with all that is in it, in one step.
    func removePackage(
        _ name: ItemName,
        from parent: ItemID,
        caller: Caller
    ) throws(CloudFSError) {
        try requireWritable()
        let (now, notBefore) = (clocks.now(), notBefore)
        let (record, dropped) = try withClaims(for: caller) { reader in
            [.writing(try Self.child(name, of: parent, reader).id, .forDeleting)]
        } _: { claimed throws(CloudFSError) in
            try catalog.write { writer -> (ItemRecord, DroppedTree) in
                let record = try Self.child(name, of: parent, writer.reader)
                try Self.require(record, among: claimed)
                let dropped = try writer.dropTree(of: record, isWanted: true)
                try writer.unlink(record.id, at: now, notBefore: notBefore, by: caller.request)
                return (record, dropped)
            }
        }
        packages.forget(dropped.members)
        didUnlink(record)
        publish(dropped.changes, by: caller)
        publishRemoval(of: record, name, from: parent, by: caller)
    }

    private func publishRemoval(
        of record: ItemRecord,
        _ name: ItemName,
        from parent: ItemID,
        by caller: Caller
    ) {
        let isFolder = record.item.isFolder
        publish(
            [
                .entryVanished(
                    parent: parent,
                    name: name,
                    item: record.id,
                    isFolder: isFolder,
                    isGone: true
                )
            ],
            by: caller
        )
    }

    static func child(
        _ name: ItemName,
        of parent: ItemID,
        _ reader: CatalogReader
    ) throws -> ItemRecord {
        guard let record = try reader.child(name.bytes, of: parent) else {
            throw CloudFSError(.notFound, "\(name) does not exist", item: parent)
        }
        return record
    }

    /// A folder that was never listed may hold anything.
    static func requireEmpty(_ record: ItemRecord, _ reader: CatalogReader) throws {
        guard record.isListed, try !reader.hasChildren(record.id) else {
            throw CloudFSError(.notEmpty, "the folder is not empty", item: record.id)
        }
    }

    func didUnlink(_ record: ItemRecord) {
        gone.keep(record)
        didUnlink(record.id)
    }

    /// Lets go of an item that lost its name, now or with its last handle.
    func didUnlink(_ id: ItemID) {
        if let file = files.live(id) {
            file.state.withLock { $0.isUnlinked = true }
        }
        eraseIfDone(id)
    }

    /// Erases an item that nothing is left of, unless somebody uses it still.
    func eraseIfDone(_ id: ItemID) {
        // What is being sent right now is erased, or deleted in the cloud, when that has ended.
        if !uploader.erasesLater(id) { files.eraseSoon(id) }
    }
}
