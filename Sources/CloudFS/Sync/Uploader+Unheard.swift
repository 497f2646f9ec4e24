import Logging

/// Requests whose answer this machine did not hear: it ended, or the connection did.
///
/// Each is noted in the catalog before it is sent (`SentRecord`). As long as its outcome is not
/// known, listings leave the item out, as while the request runs; and the cloud is asked what
/// became of it before anything else is sent.
extension Uploader {
    /// Takes up the requests that the last process left unanswered; before listings begin.
    func takeUpUnheard() throws(CloudFSError) {
        let all = try catalog.read { try $0.allSent() }
        guard !all.isEmpty else { return }
        try catalog.write { writer in
            for sent in all where try writer.reader.outboxEntry(of: sent.item) == nil {
                try writer.enqueue(sent.item, notBefore: clocks.now())
            }
        }
        for sent in all { mutations.begin(sent) }
    }

    /// Notes a request that is about to be sent; blocks on the disk.
    ///
    /// From now on listings tell nothing of its places: what they have stored before is known here,
    /// and what they store later would be half of what the request does.
    func note(_ sent: SentRecord) throws(CloudFSError) {
        mutations.begin(sent)
        do throws(CloudFSError) {
            try catalog.write { writer in
                try writer.reader.requireStill(sent)
                try writer.note(sent)
                // Removed since the decision, it has no row any more: somebody has to ask all the
                // same.
                if try writer.reader.outboxEntry(of: sent.item) == nil {
                    try writer.enqueue(sent.item, notBefore: clocks.now())
                }
            }
        } catch {
            mutations.end(sent)
            throw error
        }
        // What a power failure made unknown here would be somebody else's doing.
        try catalog.makeDurable()
    }

    /// Sends a request that makes something in the cloud, and stores its answer.
    ///
    /// - Parameters:
    ///   - sent: What is known of the outcome beforehand; noted already.
    ///   - point: Where a test can end all, between the answer and the note of it.
    func sending<Value: Sendable>(
        _ sent: SentRecord,
        _ point: FaultPoint,
        _ request: () async throws(CloudFSError) -> RemoteItem,
        _ record: @escaping @Sendable (RemoteItem) throws -> Value
    ) async throws(CloudFSError) -> Value {
        let remote: RemoteItem
        do throws(CloudFSError) {
            remote = try await request()
        } catch {
            // A refused move may have gone half of its way.
            if error.isRefusal, !sent.isMove { try await forget(sent) }
            throw error
        }
        try await point.passInTask()
        let value = try await pool.engine { try record(remote) }
        mutations.end(sent)
        return value
    }

    /// Asks the cloud what became of a request for the item, if its answer was not heard.
    func hear(_ id: ItemID) async throws(CloudFSError) {
        let facts = try await pool.engine {
            try self.catalog.read { try self.outboxFacts(of: id, $0) }
        }
        guard let facts, let sent = facts.sent else { return }
        guard let path = facts.sentPath, let outcome = try await outcome(of: sent, facts, at: path)
        else { return try await forget(sent) }
        logger.info(
            "the cloud has what was sent before",
            metadata: ["item.id": "\(id)", "path": "\(path)"]
        )
        let isOpen = files.live(id) != nil
        let isBehind =
            if facts.lacks(sent, isOpen: isOpen) {
                true
            } else {
                try await hasOtherBytes(outcome.item, than: sent, facts)
            }
        if isBehind {
            try await forget(sent)
            feed.hint([sent.parent])
        } else {
            try await take(outcome, of: sent, facts)
            mutations.end(sent)
        }
        await provider.announce(path)
    }

    private func forget(_ sent: SentRecord) async throws(CloudFSError) {
        try await pool.engine { try self.catalog.write { try $0.forgetSent(of: sent.item) } }
        mutations.end(sent)
    }

    /// What a request made.
    private struct Outcome {
        var item: RemoteItem
        /// Whether a move was ended just now, and not only found to be: nobody but the move has
        /// changed its version, as it does in some clouds.
        var isAnswer = false
    }

    /// - Returns: What the request made; `nil` if it was not carried out, or is undone.
    private func outcome(
        of sent: SentRecord,
        _ facts: OutboxFacts,
        at path: RemotePath
    ) async throws(CloudFSError) -> Outcome? {
        do throws(CloudFSError) {
            if sent.isMove, let base = facts.base, sent.isFrom(base),
                let source = facts.remotePath
            {
                // Begun, it must be ended: in some clouds a move is many steps.
                let item = try await provider.move(from: source, to: path, base: base.version)
                return Outcome(item: item, isAnswer: true)
            }
        } catch  where error.code == .exists {
            return nil
        } catch
            where [.notFound, .notDirectory, .remoteChanged].contains(error.code)
        {
            logger.debug("not in its old place", metadata: ["item.id": "\(sent.item)"])
        } catch  where error.isRefusal && facts.hasTakenBack(sent) {
            // Of a file that is not there, no half of the way was gone either.
            guard try await find(path) == nil else { throw error }
            return nil
        }
        guard let remote = try await find(path), facts.isOutcome(remote, of: sent)
        else { return nil }
        return Outcome(item: remote)
    }

    /// - Returns: What the cloud has there; `nil` for nothing.
    private func find(_ path: RemotePath) async throws(CloudFSError) -> RemoteItem? {
        do throws(CloudFSError) {
            return try await look(at: path)
        } catch  where error.code == .notFound || error.code == .notDirectory {
            return nil
        }
    }

    /// How long to wait before a look that failed is repeated: it costs little, and a row that has
    /// failed waits for longer each time.
    private static let lookPauses = [Duration.milliseconds(100), .milliseconds(400)]

    private func look(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        for pause in Self.lookPauses {
            do throws(CloudFSError) {
                return try await provider.item(at: path)
            } catch  where error.isTransient && !Task.isCancelled {
                logger.debug("a look failed", metadata: ["path": "\(path)", "error": "\(error)"])
                // Cancelled early, the next look ends at once.
                try? await Task.sleep(for: pause)
            }
        }
        return try await provider.item(at: path)
    }

    /// Stores what a request turned out to have made, as its answer would have been.
    private func take(
        _ outcome: Outcome,
        of sent: SentRecord,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) {
        let remote = outcome.item
        var base = BaseRecord(of: sent.item, in: sent.parent, remote)
        var isKnown = true
        if sent.isMove, !outcome.isAnswer, facts.facts.kind == .file, let moved = facts.base,
            moved.version.content != base.version.content
        {
            // Somebody has written it in its new place: what is here is the version that was moved,
            // and a listing compares the two.
            isKnown = false
            (base.version, base.size, base.modified) = (moved.version, moved.size, moved.modified)
            feed.hint([sent.parent])
        }
        let (known, learned) = (base, isKnown ? remote : nil)
        guard facts.facts.kind == .file, facts.facts.place != nil, facts.facts.isResident,
            !sent.isMove
        else {
            return try await pool.engine {
                if sent.isMove { self.noteLeft(facts.base, facts) }
                try self.catalog.write { writer in
                    let isSame = try writer.recordBase(
                        known,
                        replacing: sent.base(of: known),
                        at: self.clocks.now()
                    )
                    if isSame, let learned { try self.learn(learned, of: sent.item, writer) }
                    if isSame, !sent.isMove { try self.follow(known, writer) }
                }
                self.applier.hub.publish([.attributes(sent.item)])
                self.refreshBase(of: sent.item)
            }
        }
        try await applier.using(sent.item) { () async throws(CloudFSError) in
            let sameAt = try await applier.countOfSameBytes(sent.item, as: remote, in: sent.parent)
            try await pool.engine {
                let file = try self.files.acquire(sent.item)
                defer { self.releaseLater(file) }
                _ = try self.finishUpload(
                    of: file,
                    sameAt.map { SentContent(changeCount: $0) },
                    known,
                    replacing: sent.base(of: known),
                    document: sent.document,
                    // What was sent with the bytes is not known; it is sent again if it changed.
                    changed: Timestamp(nanoseconds: .min),
                    learning: remote
                )
            }
        }
    }
}

extension Uploader {
    /// Whether somebody has written a file since a request wrote on it, which sent no bytes: a
    /// listing compares the two versions.
    private func hasOtherBytes(
        _ remote: RemoteItem,
        than sent: SentRecord,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) -> Bool {
        guard sent.kind == .metadata, facts.facts.kind == .file else { return false }
        let known = try await pool.engine {
            // A save may have the place by now.
            try self.catalog.read { try facts.base ?? $0.base(named: sent.name, in: sent.parent) }
        }
        guard let known else { return true }
        return provider.provesOtherBytes(remote.version, than: known.version)
    }

    /// A file whose bytes a power failure took after they were sent is as long as the cloud's.
    private func follow(_ base: BaseRecord, _ writer: CatalogWriter) throws {
        let item = try writer.reader.existing(base.item).item
        guard item.kind == .file, item.content.generation == 0 else { return }
        try writer.setSize(base.size, of: base.item)
    }
}

extension OutboxFacts {
    /// Whether a power failure took the bytes of a file after they were sent, and somebody has
    /// opened what is left: what the cloud has is a version newer than that.
    func lacks(_ sent: SentRecord, isOpen: Bool) -> Bool {
        let item = record.item
        return facts.kind == .file && !sent.isMove && facts.place != nil && base != nil
            && (isOpen || item.content.generation != 0) && !facts.isResident && !facts.isDirty
            && !facts.hasChangedMetadata
            && (item.size != sent.size || item.metadata.modified != sent.modified)
    }

    /// Whether a file is not to be where a request was to move it: whoever was told that the cloud
    /// refuses that has moved it elsewhere, or removed it.
    func hasTakenBack(_ sent: SentRecord) -> Bool {
        facts.kind == .file
            && facts.place != NamePlace(parent: sent.parent, name: sent.name)
    }

    /// Whether something in the cloud is what a request for the item made.
    func isOutcome(_ remote: RemoteItem, of sent: SentRecord) -> Bool {
        guard remote.kind == facts.kind else { return false }
        if facts.kind == .file, !sent.isMove {
            return remote.documentID == sent.document && remote.size == sent.size
                && remote.metadata.modified == sent.modified
        }
        // A link has nothing but its target in some clouds; what was moved may be known by its id.
        return remote.documentID == sent.document || remote.id == base?.remoteID
            || (remote.linkTarget != nil && remote.linkTarget == record.item.linkTarget)
    }
}

extension SentRecord {
    /// What a listing taken meanwhile cannot tell.
    var places: [NamePlace] {
        var places = [NamePlace(parent: parent, name: name)]
        if let baseParent, let baseName {
            places.append(NamePlace(parent: baseParent, name: baseName))
        }
        return places
    }

    /// A base in the place that the item had when the request was sent.
    func base(of outcome: BaseRecord) -> BaseRecord? {
        guard let baseParent, let baseName else { return nil }
        var base = outcome
        base.parent = baseParent
        base.name = baseName
        return base
    }
}

extension CloudFSError {
    /// Whether a provider that says so of something new has changed nothing, however often it
    /// tried.
    var isRefusal: Bool {
        switch code {
        case .denied, .unauthenticated, .readOnly, .quotaExceeded, .invalidName, .nameTooLong,
            .tooLarge, .attributesFull, .lockHeld, .unsupported:
            true
        default: false
        }
    }
}
