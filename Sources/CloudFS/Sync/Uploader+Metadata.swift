/// What is sent of an item beside its bytes.
extension Uploader {
    /// Takes over first what the cloud has beside an item's bytes, where what is sent would replace
    /// what this machine has never heard of: a sketch tells nothing of it, and a folder has no
    /// version that differs by it.
    ///
    /// - Returns: What is known of the item then.
    /// - Throws: `cancelled` if that is not what the cloud has, as something is being sent there.
    func learned(
        _ id: ItemID,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) -> OutboxFacts {
        guard let path = facts.remotePath, let base = facts.base,
            base.version.isSketch || facts.record.item.kind == .folder
        else { return facts }
        let remote = try await provider.item(at: path)
        if let folder = try await applier.learn(remote, of: id) { feed.hint([folder]) }
        let (learned, isKept) = try await pool.engine {
            try self.catalog.read { reader in
                let learned = try self.outboxFacts(of: id, reader)
                // Nothing is stored of what is in a folder that was removed here.
                return (learned ?? facts, try base.parent.map { try reader.isKept($0) } ?? true)
            }
        }
        if isKept, let known = learned.base?.version, known.content == remote.version.content,
            known.metadata != remote.knownVersion.metadata
        {
            throw CloudFSError(.cancelled, "what is written on it is not known yet", item: id)
        }
        return learned
    }

    /// Of two items that are one document in the cloud, one is a copy if the other is where it was:
    /// what is written on it is a document of its own.
    func toldApart(
        _ id: ItemID,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) -> OutboxFacts {
        var apart = facts
        apart.document = facts.record.item.documentID
        guard facts.document != apart.document else { return facts }
        let mark = mutations.beginListing()
        defer { mutations.endListing() }
        let known = try await pool.engine { () throws -> (ItemID, RemotePath?)? in
            try self.catalog.read { reader in
                try reader.holder(of: facts.document).map { ($0, try reader.remotePath(of: $0)) }
            }
        }
        guard let (holder, path) = known else { return facts }
        // It is not in the cloud, and is to be.
        guard let path else { return apart }
        if try await isDocument(facts.document, at: path) { return apart }
        let isUnmoved = try await pool.engine {
            try self.catalog.read { reader in
                try self.applier.isUnmoved(holder, at: path, since: mark, reader)
                    && reader.sent(of: holder) == nil
            }
        }
        guard isUnmoved else {
            throw CloudFSError(.cancelled, "what it may be a copy of moves", item: id)
        }
        await feed.hintParent(of: holder)
        return facts
    }

    /// Whether the cloud has a document in a place, as far as it tells.
    private func isDocument(
        _ document: DocumentID,
        at path: RemotePath
    ) async throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            return try await provider.item(at: path).documentID == document
        } catch {
            guard
                [.notFound, .notDirectory, .denied, .internalFailure, .corrupt].contains(error.code)
            else { throw error }
            logger.debug(
                "what is in the place of another item is not known",
                metadata: ["path": "\(path)", "error": "\(error)"]
            )
            return false
        }
    }

    func updateMetadata(
        _ id: ItemID,
        _ facts: OutboxFacts
    ) async throws(CloudFSError) -> Bool {
        let facts = try await learned(id, facts)
        let (path, base) = try remotePath(facts)
        guard let parent = base.parent else { return true }
        let update = MetadataUpdate(metadata: metadata(facts), attributes: facts.attributes)
        let changed = facts.record.item.changed
        defer { refreshBase(of: id) }
        let item = facts.record.item
        let sent = SentRecord(
            of: id,
            to: parent,
            base.name,
            from: base,
            .metadata,
            document: facts.document,
            size: base.size,
            modified: item.metadata.modified
        )
        try await pool.engine { try self.note(sent) }
        let isFolder = item.kind == .folder
        // In some clouds it is another version of the content, too.
        defer { applier.hub.publish([isFolder ? .attributes(id) : .state(id)]) }
        return try await sending(sent, .metadataSent) { () async throws(CloudFSError) in
            try await provider.setMetadata(update, at: path, base: base.version)
        } _: { remote in
            try self.catalog.write { writer in
                let isSame = try writer.recordBase(
                    BaseRecord(of: id, in: parent, remote),
                    replacing: base,
                    at: self.clocks.now()
                )
                if isSame {
                    try writer.clearMetadataChanged(id, unlessAfter: changed)
                    try writer.noteSent(facts.attributes, of: id)
                    // What a folder's answer tells may be of a moment later. A file's is what was
                    // sent, as far as the cloud can keep it.
                    if isFolder { try self.learn(remote, of: id, writer) }
                }
                return try self.goesOn(id, writer)
            }
        }
    }
}
