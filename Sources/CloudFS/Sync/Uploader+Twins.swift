import Logging

/// Names that differ here and are one in the cloud, as where it folds case or normal forms.
///
/// No two clouds agree on what they fold, so that nothing here compares names in any other way than
/// byte by byte: a cloud refuses a name, and no listing has anything under it.
extension Uploader {
    /// How often it is refused before: who has the place may be about to leave it.
    private static let refusalsOfFreePlace = 3

    /// Gives an item another name, if the cloud has refused its own often, and has nothing there as
    /// far as anybody can see: what has the place keeps its bytes, and so does this.
    ///
    /// - Parameter place: The name that was refused.
    /// - Returns: Whether it has another name by now.
    func leaveToTwin(
        _ id: ItemID,
        _ place: NamePlace?
    ) async throws(CloudFSError) -> Bool {
        let changes = try await pool.engine { () throws -> [ItemChange]? in
            try self.catalog.write { writer in
                let reader = writer.reader
                guard let place, let name = try reader.name(of: id), name.parent == place.parent,
                    name.name == place.name, let entry = try reader.outboxEntry(of: id),
                    entry.attempts >= Self.refusalsOfFreePlace,
                    try reader.base(named: name.name, in: name.parent) == nil
                else { return nil }
                let old = try ItemName(name.name)
                let now = self.clocks.now()
                let free = try self.applier.conflictName(for: old, in: name.parent, reader)
                try writer.moveName(of: id, to: free.bytes, in: name.parent)
                try writer.touchFolder(name.parent, at: now)
                try writer.enqueue(id, notBefore: now)
                return [
                    .entryVanished(
                        parent: name.parent,
                        name: old,
                        item: id,
                        isFolder: try reader.existing(id).item.isFolder,
                        isGone: false
                    ),
                    .entryAppeared(parent: name.parent, name: free),
                ]
            }
        }
        guard let changes else { return false }
        logger.notice(
            "the cloud takes a name for that of another item; this one gets a new name",
            metadata: ["item.id": "\(id)"]
        )
        applier.hub.publish(changes)
        return true
    }
}
