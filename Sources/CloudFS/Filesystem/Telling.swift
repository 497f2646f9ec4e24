/// What the kernel is told next, from what the catalog has now.
///
/// Made before the catalog is read, so that what changes meanwhile still counts as untold.
struct Telling {
    private let sizes: Untold<ItemID>
    private let sizeMark: UInt64
    private let names: Untold<NamePlace>
    private let nameMark: UInt64

    init(from filesystem: Filesystem) {
        self.init(
            sizes: filesystem.files.caches.untoldSizes,
            names: filesystem.catalog.untoldNames
        )
    }

    init(sizes: Untold<ItemID>, names: Untold<NamePlace>) {
        self.sizes = sizes
        self.names = names
        sizeMark = sizes.mark
        nameMark = names.mark
    }

    /// Notes that the kernel gets the size of a file with a name, or has forgotten what it had.
    ///
    /// A listing with attributes does not count: if a lookup is under way whose answer is older,
    /// the kernel takes that one.
    func noteSize(of id: ItemID) {
        sizes.noteTold(id, asOf: sizeMark)
    }

    /// Notes that the kernel knows what has a name, or has forgotten it.
    func noteName(_ name: ItemName, in parent: ItemID) {
        let place = NamePlace(parent: parent, name: name.bytes)
        names.noteTold(place, asOf: nameMark)
    }
}

extension Catalog {
    /// Runs `body` in one transaction that a caller asked for.
    func write<Value>(
        for caller: Caller,
        _ body: (CatalogWriter) throws -> Value
    ) throws(CloudFSError) -> Value {
        try write(isKernels: !caller.isRepresented, body)
    }
}
