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
        let isFolder = base.content == Self.folderToken
        if isFolder, target.folderKey == from.folderKey {
            return try await renameInPlace(source, to: destination, target, as: name)
        }
        // A file may move into a folder that is beside it.
        guard !isFolder || !target.folderKey.starts(with: from.folderKey) else {
            throw CloudFSError(.invalidArgument, "\"\(source)\" cannot be moved into itself")
        }
        var hints = [ChangeHint.children(of: source.parent), .children(of: destination.parent)]
        let item: RemoteItem
        if isFolder {
            let isUnfinished = try await isMoving(from.folderKey, to: target.folderKey)
            if !isUnfinished {
                noteEnded(from.folderKey, target.folderKey, telling: hints)
                guard try await folder(from, as: name) != nil else { throw Self.notFound(source) }
                try await requireFolder(destination.parent)
                try await requireFree(destination, target)
                try await identify(from.folderKey, source)
            }
            try await keepFolder(source.parent)
            try await moveFolder(from.folderKey, to: target.folderKey, telling: hints)
            item = try await movedFolder(target, as: name, destination)
            hints.append(.subtree(destination))
        } else {
            try Self.requireFileName(destination, target)
            item = try await moveFile(source, from, to: destination, target, as: name, base)
        }
        await journal.announce(hints)
        return item
    }

    /// Gives a folder beside which a file was its plain name, which it has as soon as there is no
    /// such file: both names stand for one key.
    private func renameInPlace(
        _ source: RemotePath,
        to destination: RemotePath,
        _ target: Place,
        as name: ItemName
    ) async throws(CloudFSError) -> RemoteItem {
        guard try await exists(target.key) == target.isFolderOnly else {
            guard !target.isFolderOnly else {
                throw CloudFSError(.invalidName, "no file is beside \"\(source)\"")
            }
            throw CloudFSError(.exists, "\"\(destination)\" is in the bucket already")
        }
        let item = try await movedFolder(target, as: name, destination)
        await journal.announce([.children(of: destination.parent)])
        return item
    }

    /// The folder that was moved, also if a file has come beside it meanwhile.
    private func movedFolder(
        _ target: Place,
        as name: ItemName,
        _ path: RemotePath
    ) async throws(CloudFSError) -> RemoteItem {
        guard let folder = try await folder(target, as: name) else { throw Self.notFound(path) }
        return folder
    }

    /// Gives a folder's marker the identity that the folder has been shown with: it is known by it
    /// again in its new place.
    private func identify(
        _ folderKey: [UInt8],
        _ path: RemotePath
    ) async throws(CloudFSError) {
        let head = try await client.headIfPresent(folderKey)
        guard head?.userMetadata["cloudfs-id"] == nil, (head?.object.size ?? 0) == 0 else { return }
        let id = S3Metadata.documentID([:], key: folderKey, container: identity)
        var metadata = head?.userMetadata ?? [:]
        metadata["cloudfs-id"] = id.description
        try await putMarker(folderKey, metadata, over: head, path)
    }

    // MARK: - Files

    private func moveFile(
        _ source: RemotePath,
        _ from: Place,
        to destination: RemotePath,
        _ target: Place,
        as name: ItemName,
        _ base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let head: S3ObjectHead
        do throws(CloudFSError) {
            head = try await meantFile(from, base, source)
        } catch  where error.code == .notFound {
            // Moved by an earlier try whose last answer was lost, if what is meant has arrived.
            guard let copy = try await client.headIfPresent(target.key), Self.isCopy(copy, of: base)
            else { throw error }
            return try await describe(copy, as: name)
        }
        try await requireFolder(destination.parent)
        let copied: S3Copied
        var isOurs = false
        // A copy that is there already was made before an interruption.
        if let present = try await client.headIfPresent(target.key),
            present.userMetadata["cloudfs-id"] != nil,
            Self.isCopy(present, of: Self.version(of: head))
        {
            logger.debug("a copy is there already")
            let object = present.object
            copied = S3Copied(entityTag: object.entityTag, lastModified: object.lastModified)
        } else {
            try await requireFree(destination, target)
            do throws(CloudFSError) {
                copied = try await copy(head, to: target.key, over: nil)
            } catch  where Self.isConflict(error) {
                // A condition that failed does not say whether it was that of the source.
                _ = try await meantFile(from, base, source)
                throw error
            }
            isOurs = true
        }
        try await keepFolder(source.parent)
        do throws(CloudFSError) {
            // Copying took its time, and some servers delete whatever is there.
            try await delete(try await meantFile(from, base, source).object)
        } catch  where error.code == .notFound {
            logger.debug("the old place is empty already")
        } catch  where error.code == .remoteChanged && S3Client.isUnheard(error) {
            // The copy may be all that is left of what was moved: it is taken for moved, and the
            // other for a file of its own.
            logger.debug("the old place has another file")
        } catch  where error.code == .remoteChanged {
            // Both versions would stay: what was written is to be moved instead.
            if isOurs { await takeBack(copied, of: head, at: target.key, destination) }
            throw error
        }
        return try await describe(copied, of: head, at: target.key, head.userMetadata, as: name)
    }

    /// Deletes a copy that was made just now, unless somebody has changed it.
    private func takeBack(
        _ copied: S3Copied,
        of source: S3ObjectHead,
        at key: [UInt8],
        _ path: RemotePath
    ) async {
        do throws(CloudFSError) {
            guard let head = try await client.headIfPresent(key),
                head.object.entityTag == copied.entityTag,
                head.userMetadata == source.userMetadata,
                // Somebody who made the same move may have taken this copy for their own.
                try await exists(source.object.key)
            else { return }
            try await delete(head.object)
            await journal.announce([.children(of: path.parent)])
        } catch {
            logger.notice(
                "the copy of a move that failed stays",
                metadata: ["path": "\(path)", "error": "\(error)"]
            )
        }
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
