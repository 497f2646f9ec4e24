import Synchronization

/// What listings leave out of items is asked for beside everything that somebody waits for.
extension ChangeFeed {
    /// Looks at the few items of a folder that are known from a listing only.
    ///
    /// Nobody waits long for it: what is not known in time is shown as it was listed.
    func lookClosely(at folder: ItemID) async {
        let timeout = CloudFSError(.timedOut, "the items were not described in time")
        do {
            try await withDeadline(Self.closeLookLimit, or: timeout) {
                if try await self.applier.lookAtSketches(of: folder) {
                    try await self.refresh(folder)
                }
            }
        } catch {
            logger.debug(
                "a folder is shown as it was listed",
                metadata: ["folder.id": "\(folder)", "error": "\(error)"]
            )
            noteSketches(in: [folder])
        }
    }

    private static let closeLookLimit = Duration.milliseconds(500)

    /// Takes over what the answer to a fetch told about an item.
    func note(_ item: RemoteItem, of id: ItemID) async {
        do throws(CloudFSError) {
            if let folder = try await applier.learn(item, of: id) { hint([folder]) }
        } catch {
            logger.error(
                "what a fetch told could not be stored",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
    }

    /// Makes sure that the identity of an item is its document's own, which a listing may not tell.
    ///
    /// - Throws: `offline` where the cloud does not tell it now.
    func identify(_ id: ItemID) async throws(CloudFSError) {
        let known = try await applier.pool.engine { () throws -> (RemoteItem, RemotePath)? in
            try self.catalog.read { reader in
                guard let sketch = try reader.sketch(of: id),
                    let folder = try reader.remotePath(of: id)?.parent
                else { return nil }
                return (sketch, folder)
            }
        }
        guard let (sketch, folder) = known else { return }
        for item in try await applier.provider.details(of: [sketch], in: folder) {
            await note(item, of: id)
        }
        let isSketch = try await applier.pool.engine {
            try self.catalog.read { try $0.sketch(of: id) != nil }
        }
        guard !isSketch else {
            throw CloudFSError(
                .offline,
                "the document's identity is not known yet; try again",
                item: id
            )
        }
    }

    /// Looks for a document among the items that were found last.
    ///
    /// One that another device moved looks like a new one where the cloud has no ids, and got an
    /// identity of its own if it was found before it was missed in its old place.
    func look(for document: DocumentID) async throws(CloudFSError) {
        let latest = try await applier.pool.engine {
            try self.catalog.read { reader in
                try reader.latestItems(limit: Self.mostLookedAt).compactMap { id in
                    try reader.remotePath(of: id).map { (id, $0) }
                }
            }
        }
        for (id, path) in latest {
            let remote: RemoteItem
            do throws(CloudFSError) {
                remote = try await applier.provider.item(at: path)
            } catch  where error.code == .notFound || error.code == .notDirectory {
                continue
            }
            guard remote.documentID == document else { continue }
            await note(remote, of: id)
            return try await applier.pool.engine {
                try self.catalog.write { writer in
                    guard try writer.reader.item(withDocument: document) == nil,
                        try writer.reader.base(of: id)?.remoteID == remote.id
                    else { return }
                    try writer.setDocument(document, of: id)
                }
            }
        }
    }

    private static let mostLookedAt = 64

    /// Looks closer, soon, at what a listing of these folders did not tell.
    func noteSketches(in folders: [ItemID]) {
        sketched.add(folders)
    }

    /// Runs until the task is cancelled, a folder at a time.
    func lookAtSketches() async {
        while let folder = await sketched.next() {
            guard connection.isOnline else { continue }
            do throws(CloudFSError) {
                if try await applier.lookAtSketches(of: folder) { hint([folder]) }
            } catch {
                connection.didFail(error)
                logger.debug(
                    "the items of a folder could not be looked at",
                    metadata: ["folder.id": "\(folder)", "error": "\(error)"]
                )
            }
        }
    }
}

/// Folders that wait for a look, each once.
final class FolderQueue: Sendable {
    private let folders = Mutex<Set<ItemID>>([])
    private let added = Signal()
    private let limit: Int

    /// - Parameter limit: How many wait at most; beyond, all are forgotten: they are found again
    ///   when somebody opens them.
    init(limit: Int) {
        self.limit = limit
    }

    func add(_ more: [ItemID]) {
        folders.withLock { folders in
            if folders.count + more.count > limit { folders = [] }
            folders.formUnion(more.prefix(limit))
        }
        added.raise()
    }

    /// Waits for a folder; `nil` once the task is cancelled.
    func next() async -> ItemID? {
        while !Task.isCancelled {
            if let folder = folders.withLock({ $0.popFirst() }) { return folder }
            await added.wait()
        }
        return nil
    }
}
