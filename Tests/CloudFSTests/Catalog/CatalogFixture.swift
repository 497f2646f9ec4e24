import CloudFSTestSupport

@testable import CloudFS

/// A catalog with a container and nothing in it but what a test puts there.
struct CatalogFixture {
    let directory: TemporaryDirectory
    let files: OpenFiles

    static let now = Timestamp(seconds: 1_000_000_000, nanoseconds: 0)
    static let metadata = ItemMetadata(permissions: 0o644, userID: 0, groupID: 0, modified: now)

    var catalog: Catalog { files.catalog }

    init(hydration: HydrationSettings = HydrationSettings(policy: .partial)) throws {
        directory = try TemporaryDirectory()
        let catalog = try Catalog(path: directory.path("catalog.sqlite"))
        try catalog.write { writer in
            let new = NewItem(container: ContainerID(1), kind: .folder, metadata: Self.metadata)
            let root = try writer.insertItem(new, at: Self.now)
            try writer.setBase(Self.base(of: root, named: "", in: nil, version: ""))
            _ = try writer.addContainer(url: "local:/cloud", root: root)
        }
        files = OpenFiles(
            catalog: catalog,
            store: try ContentStore(root: directory.path),
            clocks: .system,
            hydration: hydration,
            quietTime: .zero
        )
    }

    /// Adds a file to the root.
    ///
    /// - Parameter isDirty: Whether it has bytes that are to be sent.
    func addFile(_ name: String, isDirty: Bool = false) throws -> ItemID {
        var new = NewItem(container: ContainerID(1), kind: .file, metadata: Self.metadata)
        if isDirty { (new.generation, new.residency, new.cleanliness) = (1, .resident, .dirty) }
        return try catalog.write { writer in
            try writer.insert(
                new,
                name: Array(name.utf8),
                in: .root,
                at: Self.now
            ).id
        }
    }

    static func base(
        of id: ItemID,
        named name: String,
        in parent: ItemID? = .root,
        version: String
    ) -> BaseRecord {
        BaseRecord(
            item: id,
            parent: parent,
            name: Array(name.utf8),
            remoteID: RemoteID(version),
            version: ItemVersion(content: version, metadata: ""),
            size: 3,
            modified: now
        )
    }
}

extension OpenFiles {
    /// Writes from the beginning of a file, as a program does.
    func write(_ bytes: [UInt8], to file: OpenFile) throws {
        _ = try write(
            file,
            at: { _ in 0 },
            count: bytes.count,
            receive: { content, offset, count throws(CloudFSError) in
                try content.write(bytes[...], at: offset)
                return count
            }
        )
    }
}
