/// Moving what is in the bucket: for files a copy and a deletion, for folders many of both.
extension S3Provider {
    func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let from = try await placeToChange(source)
        let target = try await placeToChange(destination)
        guard let name = destination.name else { throw Self.notFound(destination) }
        guard !target.folderKey.starts(with: from.folderKey) else {
            throw CloudFSError(.invalidArgument, "\"\(source)\" cannot be moved into itself")
        }
        var hints = [ChangeHint.children(of: source.parent), .children(of: destination.parent)]
        if base.content == Self.folderToken {
            let isUnfinished = try await isMoving(from.folderKey, to: target.folderKey)
            if !isUnfinished {
                guard try await folder(from, as: name) != nil else { throw Self.notFound(source) }
                try await requireFolder(destination.parent)
                try await requireFree(destination, target)
                try await identify(from.folderKey)
            }
            try await keepFolder(source.parent)
            try await moveFolder(from.folderKey, to: target.folderKey, telling: hints)
        } else {
            try Self.requireFileName(destination, target)
            try await moveFile(source, from, to: destination, target, base)
        }
        let item = try await self.item(at: destination)
        if item.kind == .folder { hints.append(.subtree(destination)) }
        await journal.announce(hints)
        return item
    }

    /// Gives a folder's marker the identity that the folder has been shown with: it is known by it
    /// again in its new place.
    private func identify(_ folderKey: [UInt8]) async throws(CloudFSError) {
        let head = try await headIfPresent(folderKey)
        guard head?.userMetadata["cloudfs-id"] == nil, (head?.object.size ?? 0) == 0 else { return }
        let id = S3Metadata.documentID([:], key: folderKey, container: identity)
        var metadata = head?.userMetadata ?? [:]
        metadata["cloudfs-id"] = id.description
        _ = try await client.put(
            folderKey,
            body: .bytes([]),
            metadata: metadata,
            contentType: S3Metadata.folderType
        )
    }

    // MARK: - Files

    private func moveFile(
        _ source: RemotePath,
        _ from: Place,
        to destination: RemotePath,
        _ target: Place,
        _ base: ItemVersion
    ) async throws(CloudFSError) {
        let head: S3ObjectHead
        do throws(CloudFSError) {
            head = try await meantFile(from, base, source)
        } catch  where error.code == .notFound {
            // Moved by an earlier try whose last answer was lost, if what is meant has arrived.
            guard let copy = try await headIfPresent(target.key), Self.isCopy(copy, of: base)
            else { throw error }
            return
        }
        try await requireFolder(destination.parent)
        // A copy that is there already was made before an interruption.
        let present = try await headIfPresent(target.key)
        if let present, present.userMetadata["cloudfs-id"] != nil,
            Self.isCopy(present, of: Self.version(of: head))
        {
            logger.debug("a copy is there already")
        } else {
            try await requireFree(destination, target)
            try await copy(head, to: target.key)
        }
        try await keepFolder(source.parent)
        try await deleteMeant(from.key, base)
    }

    /// Whether an object has the bytes and the metadata that a version means.
    ///
    /// What was uploaded in parts has another tag after a copy: then the document's identity must
    /// be among the metadata.
    private static func isCopy(_ head: S3ObjectHead, of version: ItemVersion) -> Bool {
        guard hasSameBytes(head, as: version) else { return false }
        guard let known = metadataDigest(version) else {
            return !entityTag(version).contains("-")
        }
        guard metadataDigest(Self.version(of: head)) == known else { return false }
        return head.userMetadata["cloudfs-id"] != nil || !entityTag(version).contains("-")
    }
}
