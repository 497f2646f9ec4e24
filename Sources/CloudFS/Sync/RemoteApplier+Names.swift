/// Names of items whose own ones something else has.
extension RemoteApplier {
    /// A free name for the version of `name` that lost.
    func conflictName(
        for name: ItemName,
        in folder: ItemID,
        _ reader: CatalogReader
    ) throws -> ItemName {
        let plain = provider.plainName(of: name)
        var number = 1
        while true {
            let candidate = try ConflictNaming.name(
                for: plain,
                device: deviceName,
                at: files.clocks.now(),
                number: number
            )
            if try reader.isFree(candidate, in: folder) { return candidate }
            number += 1
        }
    }

    /// Whether nothing new in the cloud can have the name.
    private func isRefused(_ name: ItemName, in folder: ItemID) -> Bool {
        do throws(CloudFSError) {
            try provider.requireName(name, isInRoot: folder == .root)
            return false
        } catch {
            return true
        }
    }

    /// Names an item anew that is kept, and was displaced or has a name that nothing new can have:
    /// as before, if that is free and can be.
    func nameAnew(_ id: ItemID, _ writer: CatalogWriter) throws -> [ItemChange] {
        let reader = writer.reader
        guard let known = try reader.name(of: id) else { return [] }
        let displaced = DisplacedName.original(of: known.name, id)
        let original = try displaced ?? ItemName(known.name)
        let isRefused = isRefused(original, in: known.parent)
        guard displaced != nil || isRefused else { return [] }
        let name =
            try !isRefused && reader.isFree(original, in: known.parent)
            ? original : try conflictName(for: original, in: known.parent, reader)
        try writer.moveName(of: id, to: name.bytes, in: known.parent)
        return [
            .entryVanished(
                parent: known.parent,
                name: try ItemName(known.name),
                item: id,
                isFolder: try reader.existing(id).item.isFolder,
                isGone: false
            ),
            .entryAppeared(parent: known.parent, name: name),
        ]
    }
}
