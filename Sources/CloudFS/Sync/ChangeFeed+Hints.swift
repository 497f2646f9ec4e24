extension ChangeFeed {
    /// Takes all hints of a page together: an item that moved is in two of them.
    func note(_ hints: [ChangeHint]) async throws(CloudFSError) {
        if hints.contains(.subtree(.root)) {
            needComparison()
            scanNeeded.raise()
        }
        let written = hints.compactMap { if case .item(let path) = $0 { path } else { nil } }
        for start in stride(from: 0, to: written.count, by: Self.fewWritten) {
            let few = written[start..<min(start + Self.fewWritten, written.count)]
            try await pool.engine {
                try self.catalog.write(isLong: true) { writer in
                    for path in few { try self.noteWritten(path, writer) }
                }
            }
        }
        let folders = try await pool.engine {
            try self.catalog.read { reader in
                try hints.flatMap { hint -> [ItemID] in
                    switch hint {
                    case .subtree(.root): []
                    case .item(let path):
                        // A folder's own listing tells of it.
                        try self.folders(for: path.parent, isSubtree: false, reader)
                            + [reader.folder(at: path, root: self.root)].compactMap { $0 }
                    case .children(let path):
                        try self.folders(for: path, isSubtree: false, reader)
                    case .subtree(let path):
                        try self.folders(for: path, isSubtree: true, reader)
                    }
                }
            }
        }
        if !folders.isEmpty { hint(folders) }
    }

    /// Lists again, soon, the folder that holds the item in the cloud.
    ///
    /// - Parameter folder: Where it was missed, which tells more than that it is there no more.
    func hintParent(of id: ItemID, missedIn folder: ItemID? = nil) async {
        if let folder { hint([folder]) }
        do {
            let parent = try await pool.engine {
                try self.catalog.read { try $0.base(of: id)?.parent }
            }
            if let parent { hint([parent]) }
        } catch {
            logger.error("the folder of an item is unknown", metadata: ["error": "\(error)"])
        }
    }

    /// Finds out what became of an item that the cloud does not have as it is known, before it
    /// returns; where that fails, soon, as whether it is gone from everywhere.
    func lookFor(_ id: ItemID) async {
        do throws(CloudFSError) {
            let parent = try await pool.engine {
                try self.catalog.read { try $0.base(of: id)?.parent }
            }
            guard let parent else { return }
            let outcome = try await list(parent, depth: .few, isFresh: true)
            if !outcome.missing.isEmpty { hint([parent]) }
        } catch {
            await hintParent(of: id)
        }
    }

    /// How many items are noted in one transaction.
    private static let fewWritten = 100

    /// Makes the next listing look closer at an item, whatever it says.
    private func noteWritten(_ path: RemotePath, _ writer: CatalogWriter) throws {
        guard let name = path.name,
            let folder = try writer.reader.folder(at: path.parent, root: root),
            let base = try writer.reader.base(named: name.bytes, in: folder),
            !base.version.isSketch
        else { return }
        try writer.doubt(base)
        // What a listing under way has asked about it may be older than this.
        applier.mutations.noteWrittenElsewhere(base.item)
    }

    /// The folder a hint speaks of, or the nearest one above that is known, and what was there a
    /// short while ago; below them, if asked for.
    func folders(
        for path: RemotePath,
        isSubtree: Bool,
        _ reader: CatalogReader
    ) throws -> [ItemID] {
        let whereabouts = applier.whereabouts
        let now = applier.files.clocks.elapsed()
        var folders = try whereabouts.formerly(at: path, root: root, reader, at: now)
        let known = try reader.folder(at: path, root: root)
        if let known { folders.insert(known) }
        var all = isSubtree ? try folders.flatMap { try reader.cloudFolders(from: $0) } : []
        all += folders
        guard known == nil else { return all }
        // What is there is listed once the folder above tells of it.
        whereabouts.noteUnknown(path, isSubtree: isSubtree, at: now)
        return all + [try nearestFolder(to: path, reader)]
    }

    private func nearestFolder(
        to path: RemotePath,
        _ reader: CatalogReader
    ) throws -> ItemID {
        var path = path
        while !path.isRoot {
            if let folder = try reader.folder(at: path, root: root) { return folder }
            path = path.parent
        }
        return root
    }
}
