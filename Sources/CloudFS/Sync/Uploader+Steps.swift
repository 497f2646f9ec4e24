import Logging
import Synchronization

extension Uploader {
    /// Takes one step.
    ///
    /// - Returns: Whether to go on with the next one.
    func take(
        _ step: OutboxStep,
        _ id: ItemID,
        _ facts: OutboxFacts,
        chain: [ItemID]
    ) async throws(CloudFSError) -> Bool {
        switch step {
        case .done, .hold, .erase: return false
        case .waitFor(let other): return try await letGoFirst(other, before: id, chain: chain)
        case .createFolder, .createSymlink: return try await create(id, facts)
        case .move: return try await move(id, facts, to: try wantedPath(facts), inPlace: true)
        case .stepAside: return try await stepAside(id, facts)
        case .hydrate: return try await hydrate(id)
        case .upload: return try await upload(id, facts)
        case .updateMetadata: return try await updateMetadata(id, facts)
        case .delete: return try await delete(id, facts)
        case .keepHere:
            throw CloudFSError(
                .remoteChanged,
                "parts of this version are gone from the cloud: it stays on this machine",
                item: id
            )
        }
    }

    /// Runs a request that changes the item in the cloud, with listings held to be blurred.
    ///
    /// - Returns: Whether to go on with the next step.
    private func mutating(
        _ id: ItemID,
        at places: [RemoteMutations.Place],
        _ sent: FaultPoint,
        _ request: () async throws(CloudFSError) -> RemoteItem,
        _ record: @escaping @Sendable (CatalogWriter, RemoteItem) throws -> Void
    ) async throws(CloudFSError) -> Bool {
        mutations.begin(id, at: places)
        defer { mutations.end(id, at: places) }
        let remote = try await request()
        try await sent.passInTask()
        return try await pool.engine {
            try self.catalog.write { writer in
                try record(writer, remote)
                return try self.goesOn(id, writer)
            }
        }
    }

    private var mutations: RemoteMutations { applier.mutations }

    private func wantedPath(_ facts: OutboxFacts) throws(CloudFSError) -> RemotePath {
        guard let folder = facts.folderPath, let place = facts.facts.place else {
            throw CloudFSError(.notFound, "the folder is not in the cloud", item: facts.record.id)
        }
        return folder.appending(try ItemName(place.name))
    }

    private func remotePath(_ facts: OutboxFacts) throws(CloudFSError) -> (RemotePath, BaseRecord) {
        guard let path = facts.remotePath, let base = facts.base else {
            throw CloudFSError(.notFound, "the item is not in the cloud", item: facts.record.id)
        }
        return (path, base)
    }

    /// The metadata to send: owners only where the cloud's are shown here.
    private func metadata(_ facts: OutboxFacts) -> ItemMetadata {
        var metadata = facts.record.item.metadata
        if applier.options.owner != nil {
            metadata.userID = ItemMetadata.keptID
            metadata.groupID = ItemMetadata.keptID
        }
        return metadata
    }

    // MARK: - Folders, links, names

    private func create(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let path = try wantedPath(facts)
        guard let place = facts.facts.place else { return true }
        let item = facts.record.item
        let metadata = metadata(facts)
        let changed = item.changed
        return try await mutating(id, at: facts.places, .createSent) {
            () async throws(CloudFSError) in
            if let target = item.linkTarget {
                return try await provider.createSymlink(
                    at: path,
                    target: target,
                    documentID: item.documentID,
                    metadata: metadata
                )
            }
            return try await provider.createFolder(
                at: path,
                documentID: item.documentID,
                metadata: metadata
            )
        } _: { writer, remote in
            let isSame = try writer.recordBase(
                BaseRecord(of: id, in: place.parent, remote),
                replacing: facts.base,
                at: self.clocks.now()
            )
            guard isSame else { return }
            // A folder made here has no children that this machine does not know.
            try writer.setListed(true, of: id)
            if facts.attributes.isEmpty {
                try writer.clearMetadataChanged(id, unlessAfter: changed)
            }
        }
    }

    private func move(
        _ id: ItemID,
        _ facts: OutboxFacts,
        to target: RemotePath,
        inPlace: Bool
    ) async throws(CloudFSError) -> Bool {
        let (source, base) = try remotePath(facts)
        let parent = inPlace ? facts.facts.place?.parent : base.parent
        guard let parent else { return true }
        let goal = RemoteMutations.Place(parent: parent, name: target.name?.bytes ?? [])
        defer { refreshBase(of: id) }
        return try await mutating(id, at: facts.places + [goal], .moveSent) {
            () async throws(CloudFSError) in
            try await provider.move(from: source, to: target, base: base.version)
        } _: { writer, remote in
            try writer.recordBase(
                BaseRecord(of: id, in: parent, remote),
                replacing: base,
                at: self.clocks.now()
            )
        }
    }

    /// Two items want each other's place: one moves to a name of its own for a moment.
    private func stepAside(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let (path, _) = try remotePath(facts)
        let name = try ItemName(OutboxFacts.asidePrefix + facts.record.item.documentID.description)
        return try await move(id, facts, to: path.parent.appending(name), inPlace: false)
    }

    private func updateMetadata(
        _ id: ItemID,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) -> Bool {
        let (path, base) = try remotePath(facts)
        guard let parent = base.parent else { return true }
        let update = MetadataUpdate(metadata: metadata(facts), attributes: facts.attributes)
        let changed = facts.record.item.changed
        defer { refreshBase(of: id) }
        return try await mutating(id, at: facts.places, .metadataSent) {
            () async throws(CloudFSError) in
            try await provider.setMetadata(update, at: path, base: base.version)
        } _: { writer, remote in
            let isSame = try writer.recordBase(
                BaseRecord(of: id, in: parent, remote),
                replacing: base,
                at: self.clocks.now()
            )
            guard isSame else { return }
            try writer.clearMetadataChanged(id, unlessAfter: changed)
        }
    }

    /// - Returns: Whether to go on with the next step.
    private func delete(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let (path, base) = try remotePath(facts)
        mutations.begin(id, at: facts.places)
        defer { mutations.end(id, at: facts.places) }
        var isEdited = false
        do throws(CloudFSError) {
            try await provider.delete(path, base: base.version)
        } catch  where error.code == .notFound {
            logger.debug("deleted on both sides", metadata: ["item.id": "\(id)"])
        } catch  where error.code == .remoteChanged || error.code == .notEmpty {
            isEdited = true
            logger.notice(
                "the cloud has an edit of what was deleted here; it comes back",
                metadata: ["item.id": "\(id)", "error": "\(error)"]
            )
        }
        try await FaultPoint.deleteSent.passInTask()
        try await pool.engine { try self.catalog.write { try $0.removeBase(of: id) } }
        // The edit wins: what is there comes back as an item of its own.
        if isEdited, let parent = base.parent { feed.hint([parent]) }
        return true
    }

    // MARK: - Content

    private func hydrate(_ id: ItemID) async throws(CloudFSError) -> Bool {
        let file = try await pool.engine { try self.files.acquire(id) }
        defer { releaseLater(file) }
        try await applier.hydrator.complete(file)
        return true
    }

    /// - Returns: Whether to go on with the next step.
    private func upload(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        // A file that moved meanwhile is sent to where it was, and moved with the next step.
        let target = if let path = facts.remotePath { path } else { try wantedPath(facts) }
        guard let parent = facts.base?.parent ?? facts.facts.place?.parent,
            let (file, snapshot, claim) = try await pool.engine({ try self.prepareUpload(of: id) })
        else { return false }
        defer {
            claim?.end()
            releaseLater(file)
        }
        let source = UploadSource(
            descriptor: snapshot.content.descriptor,
            byteCount: snapshot.byteCount,
            documentID: facts.record.item.documentID,
            metadata: snapshot.metadata(metadata(facts)),
            attributes: facts.attributes,
            isUnchanged: { snapshot.isTrue(of: file) },
            didSend: { sent in file.state.withLock { $0.sentBytes = sent } }
        )
        mutations.begin(id, at: facts.places)
        defer {
            mutations.end(id, at: facts.places)
            file.state.withLock { $0.sentBytes = nil }
        }
        try await FaultPoint.uploadSnapshot.passInTask()
        let remote = try await provider.upload(
            source,
            to: target,
            replacing: facts.base?.version
        )
        try await FaultPoint.uploadSent.passInTask()
        let changed = facts.record.item.changed
        return try await pool.engine {
            try self.finishUpload(
                of: file,
                snapshot,
                BaseRecord(of: id, in: parent, remote),
                replacing: facts.base,
                changed: changed
            )
        }
    }

    /// Takes a snapshot of a file that is to be sent; blocks on the disk.
    ///
    /// - Returns: `nil` if it was postponed because somebody writes it.
    private func prepareUpload(
        of id: ItemID
    ) throws(CloudFSError) -> (OpenFile, UploadSnapshot, Claim?)? {
        let file = try files.acquire(id)
        do throws(CloudFSError) {
            if try postponeWhileBusy(file) {
                releaseLater(file)
                return nil
            }
            // A writer of this mount that paused for long holds its claim still: it has no say.
            let isHeldOpen = file.state.withLock { $0.isBeingWritten }
            let claim =
                isHeldOpen
                ? nil
                : try coordinator.tryClaim(
                    [.reading(id, .forUploading)],
                    purpose: .sync,
                    isYielding: true
                )
            do throws(CloudFSError) {
                return (file, try UploadSnapshot(of: file, in: files), claim)
            } catch {
                claim?.end()
                throw error
            }
        } catch {
            releaseLater(file)
            throw error
        }
    }

    /// For how many quiet times a file must not change to be sent although a program may write it:
    /// 30 s by default.
    private static let quietTimesOfOpenFiles = 15

    /// A file that somebody is writing is sent when they stopped, or paused for long.
    ///
    /// Decided and stored under one lock: whoever closes the file brings it forward afterwards.
    private func postponeWhileBusy(_ file: OpenFile) throws(CloudFSError) -> Bool {
        try file.state.withLock { state throws(CloudFSError) in
            guard state.isBeingWritten else { return false }
            try files.observe(&state, file.id)
            let quiet = state.changed + files.quietTime * Self.quietTimesOfOpenFiles
            guard quiet > clocks.now() else { return false }
            try catalog.write { try $0.postpone(file.id, until: quiet) }
            state.queuedFor = nil
            return true
        }
    }

    /// - Returns: Whether to go on with the next step.
    private func finishUpload(
        of file: OpenFile,
        _ snapshot: UploadSnapshot,
        _ base: BaseRecord,
        replacing expected: BaseRecord?,
        changed: Timestamp
    ) throws(CloudFSError) -> Bool {
        let goesOn = try file.state.withLock { state throws(CloudFSError) -> Bool in
            try files.observe(&state, file.id)
            let isTrue =
                state.changeCount == snapshot.changeCount && state.writesInFlight == 0
            // While a program may write, a crash must find the item dirty.
            let isFinal = isTrue && state.direct == nil
            let (isSame, goesOn, newBase) = try catalog.write { writer in
                let isSame = try writer.recordBase(
                    base,
                    replacing: expected,
                    at: self.clocks.now()
                )
                if isSame {
                    if isFinal { try writer.markClean(file.id) }
                    try writer.clearMetadataChanged(file.id, unlessAfter: changed)
                }
                return (
                    isSame,
                    try self.goesOn(file.id, hasNothingToSend: isSame && isTrue, writer),
                    try writer.reader.base(of: file.id)
                )
            }
            state.base = newBase
            if isSame, isTrue {
                state.direct?.sent = snapshot.facts
                state.direct?.agreed = newBase?.version.content
            }
            if isSame, isFinal { state.isDirty = false }
            return goesOn
        }
        applier.hub.publish([.attributes(file.id)])
        try FaultPoint.uploadStored.pass()
        return goesOn
    }

    /// Lets a file in use know that its version in the cloud has new tokens.
    private func refreshBase(of id: ItemID) {
        guard let file = files.live(id) else { return }
        do {
            let base = try catalog.read { try $0.base(of: id) }
            file.state.withLock { state in
                // The bytes are the same under another name, or with other metadata.
                if let agreed = state.direct?.agreed, agreed == state.base?.version.content {
                    state.direct?.agreed = base?.version.content
                }
                state.base = base
            }
        } catch {
            logger.error("the base of a file is unknown", metadata: ["error": "\(error)"])
        }
    }

    private func releaseLater(_ file: OpenFile) {
        Task {
            do {
                try await pool.engine { try self.files.release(file) }
            } catch {
                logger.error(
                    "the state of a file could not be stored",
                    metadata: ["item.id": "\(file.id)", "error": "\(error)"]
                )
            }
        }
    }
}

/// A state of a file's content that an upload reads, and how to tell whether it still holds.
struct UploadSnapshot: Sendable {
    /// What to read: a private copy, or the content file itself.
    let content: ContentFile
    let byteCount: Int64
    let changeCount: UInt64
    /// How the disk described the file.
    let facts: ContentFile.Facts
    private let modified: Timestamp
    private let isPrivate: Bool

    /// Files up to this length are copied where the disk cannot share blocks; 64 MiB.
    private static let copyLimit: Int64 = 64 << 20

    /// Takes a snapshot that no write is halfway through; blocks on the disk.
    ///
    /// - Throws: `cancelled` when the file changes meanwhile.
    init(of file: OpenFile, in files: OpenFiles) throws(CloudFSError) {
        let (original, count, modified) = try file.state.withLock {
            state throws(CloudFSError) -> (ContentFile, UInt64, Timestamp) in
            try files.observe(&state, file.id)
            try files.save(&state, file.id)
            guard state.writesInFlight == 0, state.residency == .resident else {
                throw CloudFSError(.cancelled, "the file is being written", item: file.id)
            }
            return (try files.content(of: &state, file.id), state.changeCount, state.modified)
        }
        try original.synchronize()
        facts = try original.facts()
        let copy = try files.store.snapshot(of: original, copyLimit: Self.copyLimit)
        content = copy ?? original
        isPrivate = copy != nil
        byteCount = facts.size
        changeCount = count
        self.modified = modified
        let isSame = file.state.withLock { $0.changeCount == count && $0.writesInFlight == 0 }
        guard isSame, try original.facts() == facts else {
            throw CloudFSError(.cancelled, "the file changed while it was copied", item: file.id)
        }
    }

    func metadata(_ metadata: ItemMetadata) -> ItemMetadata {
        var metadata = metadata
        metadata.modified = modified
        return metadata
    }

    /// Whether what was read is one state of the file: a copy always is.
    func isTrue(of file: OpenFile) -> Bool {
        if isPrivate { return true }
        let isSame = file.state.withLock { $0.changeCount == changeCount && $0.writesInFlight == 0 }
        return isSame && (try? content.facts()) == facts
    }
}
