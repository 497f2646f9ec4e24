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
        case .done, .hold, .waitForPlace, .erase: return false
        case .ask:
            try await hear(id)
            return true
        case .waitFor(let other):
            return try await letGoFirst(other, before: id, facts, chain: chain)
        case .createFolder, .createSymlink: return try await create(id, facts)
        case .move:
            try await requireUnclaimed(id, facts)
            return try await move(id, facts, to: try wantedPath(facts), inPlace: true)
        case .stepAside:
            try await requireUnclaimed(id, facts)
            return try await stepAside(id, facts)
        case .hydrate: return try await hydrate(id)
        case .pack: return try await applier.packages.pack(id)
        case .upload: return try await upload(id, facts)
        case .updateMetadata: return try await updateMetadata(id, facts)
        case .delete:
            try await requireUnclaimed(id, facts)
            return try await delete(id, facts)
        case .forget: return try await leaveToCloud(id, facts)
        case .keepHere:
            throw CloudFSError(
                .remoteChanged,
                "parts of this version are gone from the cloud: it stays on this machine until "
                    + "they are written anew, or cut off",
                item: id
            )
        }
    }

    /// Sees to it that what a program moves or removes while it has claimed it is sent afterwards.
    ///
    /// It may be saving the document by way of other names; other devices would miss it meanwhile.
    ///
    /// - Throws: `claimed`, after which it is soon tried again.
    private func requireUnclaimed(
        _ id: ItemID,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) {
        guard facts.record.item.kind == .file else { return }
        try await pool.engine {
            let intent = AccessIntent.reading(id, .forUploading)
            try self.coordinator.tryClaim([intent], by: .besidePlain, isYielding: true).end()
        }
    }

    var mutations: RemoteMutations { applier.mutations }

    private func wantedPath(_ facts: OutboxFacts) throws(CloudFSError) -> RemotePath {
        guard let folder = facts.folderPath, let place = facts.facts.place else {
            throw CloudFSError(.notFound, "the folder is not in the cloud", item: facts.record.id)
        }
        return folder.appending(try ItemName(place.name))
    }

    func remotePath(_ facts: OutboxFacts) throws(CloudFSError) -> (RemotePath, BaseRecord) {
        guard let path = facts.remotePath, let base = facts.base else {
            throw CloudFSError(.notFound, "the item is not in the cloud", item: facts.record.id)
        }
        return (path, base)
    }

    /// The metadata to send.
    ///
    /// Owners go along where they were set here, or nothing is there yet: of the others the cloud
    /// knows better.
    func metadata(_ facts: OutboxFacts) -> ItemMetadata {
        var metadata = facts.record.item.metadata
        if facts.base != nil, !facts.record.unsentFields.contains(.owner) { metadata.hideOwner() }
        return metadata
    }

    // MARK: - Folders, links, names

    private func create(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let path = try wantedPath(facts)
        guard let place = facts.facts.place else { return true }
        let item = facts.record.item
        let metadata = facts.record.item.metadata
        let changed = item.changed
        let sent = SentRecord(
            of: id,
            to: place.parent,
            place.name,
            from: facts.base,
            document: facts.document
        )
        try await pool.engine {
            // Attributes are sent next, also of what was in the cloud before and is made anew.
            if !facts.attributes.isEmpty {
                try self.catalog.write { try $0.markAllAttributesEdited(id) }
            }
            try self.note(sent)
        }
        let (goesOn, isNews) = try await sending(sent, .createSent) {
            () async throws(CloudFSError) in
            if let target = item.linkTarget {
                return try await provider.createSymlink(
                    at: path,
                    target: target,
                    documentID: facts.document,
                    metadata: metadata
                )
            }
            return try await provider.createFolder(
                at: path,
                documentID: facts.document,
                metadata: metadata
            )
        } _: { remote in
            try self.catalog.write { writer in
                let isSame = try writer.recordBase(
                    BaseRecord(of: id, in: place.parent, remote),
                    replacing: facts.base,
                    at: self.clocks.now()
                )
                var isNews = false
                if isSame {
                    try writer.forgetHeir(id)
                    // A folder made here has no children that this machine does not know.
                    try writer.setListed(true, of: id)
                    // What is to be in it has failed with it.
                    try writer.lookAgainAtRefused(below: id)
                    if facts.attributes.isEmpty {
                        try writer.clearMetadataChanged(id, unlessAfter: changed)
                    }
                    try writer.noteSent([:], of: id)
                    // The answer may be of a moment later.
                    isNews =
                        item.kind == .folder
                        ? try self.learn(remote, of: id, writer)
                        : try writer.mergeAttributes(of: remote, for: id)
                }
                return (try self.goesOn(id, writer), isNews)
            }
        }
        if isNews { applier.hub.publish([.attributes(id)]) }
        return goesOn
    }

    private func move(
        _ id: ItemID,
        _ facts: OutboxFacts,
        to target: RemotePath,
        inPlace: Bool
    ) async throws(CloudFSError) -> Bool {
        let (source, base) = try remotePath(facts)
        let parent = inPlace ? facts.facts.place?.parent : base.parent
        guard let parent, let name = target.name else { return true }
        let sent = SentRecord(
            of: id,
            to: parent,
            name.bytes,
            from: base,
            .move,
            document: facts.document
        )
        defer { refreshBase(of: id) }
        try await pool.engine { try self.note(sent) }
        defer { applier.hub.publish([.attributes(id)]) }
        return try await sending(sent, .moveSent) { () async throws(CloudFSError) in
            try await provider.move(from: source, to: target, base: base.version)
        } _: { remote in
            self.noteLeft(base, facts)
            return try self.catalog.write { writer in
                let isSame = try writer.recordBase(
                    BaseRecord(of: id, in: parent, remote),
                    replacing: base,
                    at: self.clocks.now()
                )
                if isSame { try self.learn(remote, of: id, writer) }
                return try self.goesOn(id, writer)
            }
        }
    }

    /// Notes that the cloud has an item no longer where it was.
    func noteLeft(_ base: BaseRecord?, _ facts: OutboxFacts) {
        guard let base else { return }
        let now = clocks.elapsed()
        applier.whereabouts.noteLeft(base, by: facts.record.item.kind, at: now)
    }

    /// Takes over what an answer tells beside what was sent: somebody else may have changed it, and
    /// with the version that is known now no listing tells it any more.
    ///
    /// - Returns: Whether anything is shown that was not before.
    @discardableResult
    func learn(_ remote: RemoteItem, of id: ItemID, _ writer: CatalogWriter) throws -> Bool {
        // What a sketch leaves out is asked for later.
        guard !remote.isSketch else { return false }
        return try writer.takeOverMetadata(of: remote, for: id, at: clocks.now())
    }

    /// Items want each other's places: one moves to a name of its own for a moment.
    ///
    /// - Returns: `false`: those who waited for its place go first.
    private func stepAside(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let (path, _) = try remotePath(facts)
        let name = try ItemName(OutboxFacts.asidePrefix + facts.record.item.documentID.description)
        _ = try await move(id, facts, to: path.parent.appending(name), inPlace: false)
        return false
    }

    // MARK: - Content

    private func hydrate(_ id: ItemID) async throws(CloudFSError) -> Bool {
        let file = try await pool.engine { try self.files.acquire(id) }
        defer { releaseLater(file) }
        let hydrator = applier.hydrator
        try await hydrator.complete(file) { () throws(CloudFSError) in
            let missing = file.state.withLock { $0.missingByteCount }
            try hydrator.evictor.requireRoom(for: missing, of: id, .sending)
        }
        return true
    }

    /// - Returns: Whether to go on with the next step.
    private func upload(_ id: ItemID, _ facts: OutboxFacts) async throws(CloudFSError) -> Bool {
        let facts = try await toldApart(id, try await learned(id, facts))
        // A file that moved meanwhile is sent to where it was, and moved with the next step.
        let target = if let path = facts.remotePath { path } else { try wantedPath(facts) }
        if files.hasReplaced.load(ordering: .relaxed) {
            for old in try await pool.engine({ self.files.replacedFiles(by: id) }) {
                try await completeForReaders(old)
            }
        }
        let prepared = try await pool.engine { try self.prepareUpload(of: id, facts, to: target) }
        guard let upload = prepared else { return false }
        let (file, snapshot, sent) = (upload.file, upload.snapshot, upload.sent)
        defer {
            upload.claim.end()
            releaseLater(file)
        }
        let source = UploadSource(
            descriptor: snapshot.content.descriptor,
            byteCount: snapshot.byteCount,
            documentID: facts.document,
            metadata: snapshot.metadata(metadata(facts)),
            attributes: facts.attributes,
            isUnchanged: { snapshot.isTrue(of: file) },
            didSend: { sent in file.state.withLock { $0.sentBytes = sent } }
        )
        file.state.withLock { $0.sentBytes = 0 }
        defer { file.state.withLock { $0.sentBytes = nil } }
        try await FaultPoint.uploadSnapshot.passInTask()
        return try await sending(sent, .uploadSent) { () async throws(CloudFSError) in
            try await untilPaused(id) { [provider] () async throws(CloudFSError) in
                try await provider.upload(source, to: target, replacing: facts.base?.version)
            }
        } _: { remote in
            try self.finishUpload(
                of: file,
                SentContent(changeCount: snapshot.changeCount, facts: snapshot.facts),
                BaseRecord(of: id, in: sent.parent, remote),
                replacing: facts.base,
                document: facts.document,
                changed: facts.record.item.changed,
                attributes: facts.attributes
            )
        }
    }

    /// A file that is ready to be sent, and noted as such.
    private struct PreparedUpload: Sendable {
        var file: OpenFile
        var snapshot: UploadSnapshot
        var claim: Claim
        var sent: SentRecord
    }

    /// Takes a snapshot of a file that is to be sent, and notes that; blocks on the disk.
    ///
    /// - Returns: `nil` if it was postponed because somebody writes it.
    private func prepareUpload(
        of id: ItemID,
        _ facts: OutboxFacts,
        to target: RemotePath
    ) throws(CloudFSError) -> PreparedUpload? {
        guard let parent = facts.base?.parent ?? facts.facts.place?.parent else { return nil }
        let file = try files.acquire(id)
        do throws(CloudFSError) {
            if try postponeWhileBusy(file) {
                releaseLater(file)
                return nil
            }
            try files.flushReplacing(whatCloudHasOf: id)
            // A writer of this mount that paused for long holds its claim still: it has no say.
            let isHeldOpen = file.state.withLock { $0.isBeingWritten }
            let claim = try coordinator.tryClaim(
                [.reading(id, .forUploading)],
                by: isHeldOpen ? .besidePlain : .sync,
                isYielding: true
            )
            do throws(CloudFSError) {
                let snapshot = try UploadSnapshot(of: file, in: files)
                let sent = SentRecord(
                    of: id,
                    to: parent,
                    target.name?.bytes ?? [],
                    from: facts.base,
                    document: facts.document,
                    size: snapshot.byteCount,
                    modified: snapshot.metadata(facts.record.item.metadata).modified
                )
                try note(sent)
                return PreparedUpload(file: file, snapshot: snapshot, claim: claim, sent: sent)
            } catch {
                claim.end()
                throw error
            }
        } catch {
            releaseLater(file)
            throw error
        }
    }

    /// For how many quiet times a file must not change to be sent although a program may write it:
    /// 30 s by default.
    static let quietTimesOfOpenFiles = 15

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

    /// Which state of a file's content the cloud has.
    struct SentContent: Sendable {
        /// The count of local changes at which the content was that.
        var changeCount: UInt64
        /// How the disk described it; `nil` for as it was last looked at.
        var facts: ContentFile.Facts?
    }

    /// Stores that the cloud has a version of a file that was sent from here.
    ///
    /// - Parameters:
    ///   - sent: The content it is known to have; `nil` if it is not certain to be that of any
    ///     moment.
    ///   - document: The identity that it has there.
    ///   - changed: When the metadata that it has were last changed here.
    ///   - remote: What it has, where that may be more than was sent.
    /// - Returns: Whether to go on with the next step.
    func finishUpload(
        of file: OpenFile,
        _ sent: SentContent?,
        _ base: BaseRecord,
        replacing expected: BaseRecord?,
        document: DocumentID,
        changed: Timestamp,
        attributes: [String: [UInt8]]? = nil,
        learning remote: RemoteItem? = nil
    ) throws(CloudFSError) -> Bool {
        let (goesOn, isNews) = try file.state.withLock {
            state throws(CloudFSError) -> (Bool, Bool) in
            try files.observe(&state, file.id)
            let isTrue = state.changeCount == sent?.changeCount && state.writesInFlight == 0
            // While a program may write, a crash must find the item dirty.
            let isFinal = isTrue && state.direct == nil
            let length = state.length
            let (isSame, goesOn, newBase, isNews) = try catalog.write { writer in
                var isNews = false
                let isSame = try writer.recordBase(
                    base,
                    replacing: expected,
                    at: self.clocks.now()
                )
                if isSame {
                    // The cloud has its own identity now.
                    if try document == writer.reader.existing(file.id).item.documentID {
                        try writer.forgetHeir(file.id)
                    }
                    if isFinal {
                        try writer.markClean(file.id)
                        if let length { try writer.setSize(length, of: file.id) }
                    }
                    try writer.clearMetadataChanged(file.id, unlessAfter: changed)
                    if let attributes { try writer.noteSent(attributes, of: file.id) }
                    if let remote { isNews = try self.learn(remote, of: file.id, writer) }
                }
                return (
                    isSame,
                    try self.goesOn(file.id, hasNothingToSend: isSame && isTrue, writer),
                    try writer.reader.base(of: file.id),
                    isNews
                )
            }
            state.base = newBase
            if isSame, isTrue {
                let seen = state.direct?.seen
                state.direct?.sent = sent?.facts ?? seen
                state.direct?.agreed = newBase?.version.content
            }
            if isSame, isFinal { state.isDirty = false }
            return (goesOn, isNews)
        }
        applier.hub.publish([isNews ? .attributes(file.id) : .state(file.id)])
        try FaultPoint.uploadStored.pass()
        return goesOn
    }

    /// Lets a file in use know that its version in the cloud has new tokens.
    func refreshBase(of id: ItemID) {
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
}
