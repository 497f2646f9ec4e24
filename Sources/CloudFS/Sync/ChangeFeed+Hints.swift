extension ChangeFeed {
    /// The folder a hint speaks of, or the nearest one above that is known; below it, if asked for.
    func folders(
        for path: RemotePath,
        isSubtree: Bool,
        _ reader: CatalogReader
    ) throws -> [ItemID] {
        var path = path
        if try reader.folder(at: path, root: root) == nil {
            applier.whereabouts.noteUnknown(path)
        }
        while true {
            if let folder = try reader.folder(at: path, root: root) {
                guard isSubtree else { return [folder] }
                return try reader.descendants(of: folder).filter {
                    try reader.item($0)?.item.kind == .folder && reader.base(of: $0) != nil
                }
            }
            guard !path.isRoot else { return [] }
            path = path.parent
        }
    }
}
