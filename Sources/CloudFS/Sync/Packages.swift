import Logging
import Synchronization

/// Packages: folders of declared types, which are one file in the cloud.
///
/// A package's content is an archive of its tree. The tree is made of the content when somebody
/// looks into it (`unpack`), the content of the tree when it is to be sent (`pack`). So all that
/// the engine knows of files holds for packages: they arrive whole, conflict as one, and have
/// versions.
final class Packages: Sendable {
    let files: OpenFiles
    let hydrator: Hydrator
    let hub: ChangeHub
    let coordinator: Coordinator
    let pool: BlockingPool
    let replaced: ReplacedFiles
    let logger: Logger
    /// Whether folders of a name are packages.
    let isPackageName: @Sendable (ItemName) -> Bool
    let unpacking = SingleFlight<ItemID, Void>()

    var catalog: Catalog { files.catalog }

    init(
        files: OpenFiles,
        hydrator: Hydrator,
        hub: ChangeHub,
        coordinator: Coordinator,
        pool: BlockingPool,
        isPackageName: @escaping @Sendable (ItemName) -> Bool,
        logger: Logger
    ) {
        self.files = files
        self.hydrator = hydrator
        self.hub = hub
        self.coordinator = coordinator
        self.pool = pool
        self.isPackageName = isPackageName
        replaced = ReplacedFiles(files: files, pool: pool, logger: logger)
        self.logger = logger
    }

    /// Notes that items are in a package now that were in a folder.
    func noteJoined(_ members: [ItemID], _ package: ItemID) {
        for id in members { files.live(id)?.state.withLock { $0.package = package } }
    }

    // MARK: - Packing

    /// Makes the content of a package of its tree; blocks on the disk in the pool.
    ///
    /// What is in the tree must rest meanwhile: else the content is made once more before it is
    /// sent.
    ///
    /// - Returns: Whether to go on with the next step.
    /// - Throws: `cancelled` while a program may write in it; `claimed` while a coordinated one
    ///   does.
    func pack(_ id: ItemID) async throws(CloudFSError) -> Bool {
        try await pool.engine {
            let claim = try self.coordinator.tryClaim(
                [.reading(id, .forUploading)],
                by: .sync,
                isYielding: true
            )
            defer { claim.end() }
            let file = try self.files.acquire(id)
            do throws(CloudFSError) {
                try self.pack(file)
            } catch {
                try self.files.release(file)
                throw error
            }
            try self.files.release(file)
        }
        return true
    }

    private func pack(_ file: OpenFile) throws(CloudFSError) {
        let (record, tree) = try catalog.read { reader in
            (try reader.existing(file.id), try reader.tree(of: file.id))
        }
        guard record.isTreeChanged else { return }
        guard tree.count <= PackageEntry.most else {
            throw CloudFSError(.tooLarge, "the package has too many files", item: file.id)
        }
        // After the count of changes was read: who opens something now makes it another one.
        for entry in tree where try isBeingWritten(entry.record.id) {
            throw CloudFSError(.cancelled, "the package is being written", item: file.id)
        }
        hydrator.perform(try files.truncate(file, to: 0), on: file)
        _ = try files.write(
            file,
            at: { _ in 0 },
            count: 0,
            receive: { content, _, _ throws(CloudFSError) in try write(tree, to: content) }
        )
        let archive = try file.state.withLock { state throws(CloudFSError) in
            try files.save(&state, file.id)
            return try files.content(of: &state, file.id)
        }
        // Before the catalog says that it holds the tree: after a power failure it would be sent.
        try archive.synchronize()
        try FaultPoint.packagePacked.pass()
        try catalog.write { try $0.notePacked(file.id, at: record.treeChanges) }
    }

    private func isBeingWritten(_ id: ItemID) throws(CloudFSError) -> Bool {
        guard let member = files.retainIfLive(id) else { return false }
        let isWritten = try member.state.withLock { state throws(CloudFSError) in
            if state.isBeingWritten { return true }
            // What was written last is on its way to the catalog.
            try files.observe(&state, id)
            try files.save(&state, id)
            return false
        }
        try files.release(member)
        return isWritten
    }

    /// - Returns: How many bytes were written.
    private func write(_ tree: [TreeEntry], to content: ContentFile) throws(CloudFSError) -> Int {
        let writer = try PackageWriter(to: content.descriptor)
        for entry in tree {
            let item = entry.record.item
            guard item.kind.isSynced else { continue }
            let attributes = try catalog.read { try $0.attributes(of: item.id) }
            var packed = PackageEntry(
                path: entry.path,
                kind: item.kind,
                permissions: item.metadata.permissions & 0o777,
                modified: item.metadata.modified,
                linkTarget: item.linkTarget,
                attributes: attributes.filter { RemoteAttribute.isApplications($0.key) }
            )
            guard packed.isSound else {
                throw CloudFSError(
                    .tooLarge,
                    "the package has folders too deep in each other, or too many attributes",
                    item: item.id
                )
            }
            guard item.kind == .file, item.content.generation != 0 else {
                try writer.add(packed)
                continue
            }
            let own = try files.store.open(item.id, generation: item.content.generation)
            // A power failure must not leave less here than what is sent: that would be sent next.
            try own.synchronize()
            packed.size = try own.facts().size
            try writer.add(packed, content: own.descriptor)
        }
        try writer.finish()
        let size = try content.facts().size
        try Self.requireReadable(content, size: size)
        return Int(size)
    }

    /// What could not be unpacked again must not take the place of the tree: no other device could
    /// open it, nor this one once its tree was dropped.
    private static func requireReadable(
        _ content: ContentFile,
        size: Int64
    ) throws(CloudFSError) {
        do throws(CloudFSError) {
            _ = try entries(of: content, size: size)
        } catch  where error.code == .notDirectory {
            throw CloudFSError(
                .tooLarge,
                "the package has too many or too long names and attributes",
                cause: error
            )
        }
    }

    // MARK: - Letting go

    /// Takes the tree of a package away whose content is replaced or goes; see
    /// `CatalogWriter.dropTree`.
    ///
    /// - Parameter name: What it is called in the cloud, if another content comes: what was no
    ///   package may be one then.
    func drop(
        _ record: ItemRecord,
        newName name: ItemName? = nil,
        _ writer: CatalogWriter
    ) throws -> DroppedTree {
        guard record.item.isPackage else {
            guard let name, isPackageName(name) else { return DroppedTree() }
            try writer.setPackage(true, of: record.id)
            return DroppedTree(changes: try Self.replacement(of: record.id, writer.reader))
        }
        return try writer.dropTree(of: record)
    }

    static func replacement(
        of id: ItemID,
        _ reader: CatalogReader
    ) throws -> [ItemChange] {
        try reader.name(of: id)
            .map { [.entryReplaced(parent: $0.parent, name: try ItemName($0.name))] } ?? []
    }

    /// Ends what was known of members that lost their names; who looks for one right now finds it.
    func forget(_ members: [ItemID]) {
        for id in members { replaced.keep(id) }
        files.forget(members)
    }
}

/// What a package had in it before its content was replaced, or went.
struct DroppedTree: Sendable {
    /// What lost its name, to be erased by its last use.
    var members: [ItemID] = []
    var changes: [ItemChange] = []
}

extension CatalogWriter {
    /// Takes the tree of a package away, as its content was replaced or goes, too.
    ///
    /// Nobody finds what was in it any more; who has something of it open keeps that.
    ///
    /// - Parameter isWanted: Whether a person wants it gone, changed or not.
    /// - Throws: `claimed` if it was changed here since that was decided.
    func dropTree(of package: ItemRecord, isWanted: Bool = false) throws -> DroppedTree {
        guard try isWanted || !reader.existing(package.id).isTreeChanged else {
            throw CloudFSError(.claimed, "the package is being changed", item: package.id)
        }
        let tree = try reader.tree(of: package.id)
        var dropped = DroppedTree(members: tree.map(\.record.id))
        for entry in tree {
            try removeName(of: entry.record.id)
            guard entry.path.count == 1 else { continue }
            let name = try ItemName(entry.path[0])
            dropped.changes.append(
                .entryVanished(
                    parent: package.id,
                    name: name,
                    item: entry.record.id,
                    isFolder: entry.record.item.isFolder,
                    isGone: true
                )
            )
        }
        try setListed(false, of: package.id)
        return dropped
    }
}
