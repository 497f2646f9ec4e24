import Logging

/// What was written here on items that another device has moved, where that shows as one that is
/// gone and one that is new; see `Bequests`.
extension RemoteApplier {
    /// Hands on to an item of the cloud, which was not known in its place before, what was written
    /// here on what it may have been.
    ///
    /// - Parameter unsent: What there is, if that was looked up already.
    func inherit(
        _ remote: RemoteItem,
        as id: ItemID,
        from unsent: UnsentFiles? = nil,
        _ writer: CatalogWriter
    ) throws -> [ItemChange] {
        let hasInherited = try writer.inherit(
            remote,
            as: id,
            from: unsent ?? unsentFiles(writer.reader),
            at: files.clocks.now()
        )
        guard hasInherited else { return [] }
        logger.debug(
            "an item has what was written on it in another place",
            metadata: ["item.id": "\(id)"]
        )
        return [.attributes(id)]
    }

    /// What may turn up in another place.
    func unsentFiles(_ reader: CatalogReader) throws -> UnsentFiles {
        try reader.unsentFiles(byBytes: !hasStableIDs)
    }

    /// Gives an item the document's identity, unless another one has it: that may be the same item
    /// in its old place.
    func identify(_ id: ItemID, as remote: RemoteItem, _ writer: CatalogWriter) throws {
        guard let holder = try writer.reader.holder(of: remote.documentID) else {
            try writer.forgetHeir(id)
            return try writer.setDocument(remote.documentID, of: id)
        }
        if holder != id { try noteHeir(id, remote, writer) }
    }

    /// Notes that an item has the identity of a document that is known in another place, where
    /// there is nothing else by which a moved item is known.
    func noteHeir(
        _ id: ItemID,
        _ remote: RemoteItem,
        _ writer: CatalogWriter
    ) throws {
        guard !hasStableIDs, remote.isIdentified else { return }
        try writer.noteHeir(id, of: remote.documentID, at: files.clocks.now())
    }
}
