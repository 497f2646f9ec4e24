/// Items that have left a folder which was removed here, and that the cloud still has in it.
extension RemoteApplier {
    /// Looks at an item that has left a folder which was removed here.
    ///
    /// Of a file the cloud's version is taken over; of one that was edited here too both versions
    /// are kept, where it is now.
    ///
    /// - Returns: What was known of the item, if the cloud does not have it there any more.
    func takeOverDeparted(_ id: ItemID) async throws(CloudFSError) -> BaseRecord? {
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        let departed = try await pool.engine {
            try self.catalog.read { try $0.departed(id, mark: mark) }
        }
        guard let (base, kind, path, listing) = departed else { return nil }
        do throws(CloudFSError) {
            let remote = try await provider.item(at: path)
            // Else something has the place that is not it.
            if remote.kind == kind, !hasStableIDs || remote.id == base.remoteID {
                if kind == .file, remote.version.content != base.version.content {
                    try await applyContent(of: id, remote, of: listing)
                }
                return nil
            }
        } catch  where error.code == .notFound || error.code == .notDirectory {
            logger.debug("not in its old place", metadata: ["item.id": "\(id)"])
        }
        return try await isGone(base, from: listing) ? base : nil
    }

    /// Whether an item that is not in its old place was not moved by this machine meanwhile.
    private func isGone(
        _ base: BaseRecord,
        from listing: Listing
    ) async throws(CloudFSError) -> Bool {
        let isUnmoved = try await pool.engine {
            try self.catalog.read {
                try self.isUnmoved(listing.folder, at: listing.path, since: listing.mark, $0)
            }
        }
        return isUnmoved && !mutations.blurs(base.item, at: base.place, since: listing.mark)
    }
}

extension CatalogReader {
    /// An item that has a name here and is still known in a folder that was removed here: what is
    /// known of it, what it is, where the cloud has it, and the folder to look into.
    fileprivate func departed(
        _ id: ItemID,
        mark: UInt64
    ) throws -> (BaseRecord, ItemKind, RemotePath, RemoteApplier.Listing)? {
        guard let base = try base(of: id), let folder = base.parent, try !isKept(folder),
            try name(of: id) != nil, let kind = try item(id)?.item.kind,
            let path = try remotePath(of: id), let above = try remotePath(of: folder)
        else { return nil }
        let listing = RemoteApplier.Listing(
            folder: folder,
            path: above,
            depth: .few,
            mark: mark,
            isFirst: false,
            isNew: false
        )
        return (base, kind, path, listing)
    }
}
