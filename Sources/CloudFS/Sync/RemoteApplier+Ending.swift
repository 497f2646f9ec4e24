/// What is known once a folder was listed to its end.
extension RemoteApplier {
    /// Notes that a listing is complete.
    ///
    /// - Returns: What the catalog has and the listing lacks; `nil` if that cannot be told, as this
    ///   machine was changing the folder meanwhile, or one above.
    func finish(_ listing: Listing) throws(CloudFSError) -> [BaseRecord]? {
        let folder = listing.folder
        guard try mark(listing) else { return nil }
        // What was listed before an interruption may be there and was not seen now.
        guard listing.first == nil, !listing.isNew else { return [] }
        // What is missing may have got a name that cannot be looked at.
        guard !listing.hasUnreadable else { return [] }
        return try catalog.read { reader in
            guard try isStill(folder, at: listing.path, since: listing.mark, reader) else {
                return nil
            }
            return try reader.bases(in: folder) { !listing.seen.contains($0.hashValue) }
        }
    }

    /// Stores that a folder is listed, if its last page did not do that.
    ///
    /// - Returns: Whether what was listed for the first time is what is in the folder.
    private func mark(_ listing: Listing) throws(CloudFSError) -> Bool {
        let isFull = !listing.seen.isEmpty && !hasItems.load(ordering: .relaxed)
        let isUnmarked = listing.isFirst && !listing.isMarked
        guard isUnmarked || isFull else { return true }
        let isTrue = try catalog.write { writer in
            let (folder, reader) = (listing.folder, writer.reader)
            if isFull { try writer.setHasItems(try reader.existing(folder).item.container) }
            guard isUnmarked else { return true }
            guard try isStill(folder, at: listing.path, since: listing.mark, reader) else {
                return false
            }
            try writer.setListed(true, of: folder)
            return true
        }
        if isFull { hasItems.store(true, ordering: .relaxed) }
        if isUnmarked, isTrue { hub.publish([.listed(listing.folder)]) }
        return isTrue
    }
}
