extension ChangeFeed {
    /// Takes all hints of a page together: an item that moved is in two of them.
    func note(_ hints: [ChangeHint]) async throws(CloudFSError) {
        if hints.contains(.subtree(.root)) {
            needComparison()
            scanNeeded.raise()
        }
        let folders = try await pool.engine {
            try self.catalog.read { reader in
                try hints.flatMap { hint -> [ItemID] in
                    switch hint {
                    case .subtree(.root): []
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

    /// The folder a hint speaks of, or the nearest one above that is known, and what was there a
    /// short while ago; below them, if asked for.
    func folders(
        for path: RemotePath,
        isSubtree: Bool,
        _ reader: CatalogReader
    ) throws -> [ItemID] {
        let whereabouts = applier.whereabouts
        let now = applier.files.clocks.elapsed()
        if try reader.folder(at: path, root: root) == nil { whereabouts.noteUnknown(path) }
        var folders = try whereabouts.formerly(at: path, root: root, reader, at: now)
        folders.insert(try nearestFolder(to: path, reader))
        guard isSubtree else { return Array(folders) }
        return try folders.flatMap { folder in
            try reader.descendants(of: folder).filter {
                try reader.item($0)?.item.kind == .folder && reader.base(of: $0) != nil
            }
        }
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
