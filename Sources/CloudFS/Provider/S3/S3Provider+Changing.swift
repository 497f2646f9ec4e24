import Glibc

/// Everything that writes to the bucket.
///
/// Each change ends when it is also in the journal, so that other devices hear of it.
extension S3Provider {
    // MARK: - Uploads

    func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
        try Self.requireFileName(path, place)
        try await requireFolder(path.parent)
        let kept = try await checkBeforeWriting(path, place, replacing: base)
        let upload = S3FileUpload(
            key: place.key,
            path: path,
            source: source,
            base: base,
            metadata: try S3Metadata.headers(
                source.metadata,
                kind: .file,
                documentID: source.documentID,
                attributes: source.attributes,
                kept: kept?.userMetadata ?? [:]
            ),
            contentType: kept?.contentType
        )
        let written: S3Written
        do throws(CloudFSError) {
            if source.byteCount <= settings.partByteCount {
                written = try await sendWhole(upload)
            } else {
                written = try await sendInParts(upload)
            }
        } catch  where error.code == .remoteChanged || error.code == .exists {
            try await abandonUpload(of: place.key)
            if error.code == .remoteChanged, try await !exists(place.key) {
                throw Self.notFound(path)
            }
            throw error
        }
        return try await finish(upload, written)
    }

    /// The item that was made of an upload, whatever another device did since.
    private func finish(
        _ upload: S3FileUpload,
        _ written: S3Written
    ) async throws(CloudFSError) -> RemoteItem {
        guard let name = upload.path.name else { throw Self.notFound(upload.path) }
        var head = try await client.head(upload.key)
        let isOurs =
            head.userMetadata == upload.metadata && head.object.size == upload.source.byteCount
            && (written.entityTag.isEmpty || written.entityTag == head.object.entityTag)
        if !isOurs {
            // Replaced already: the version we made is told, so that the other one is seen as new.
            head.object.entityTag = written.entityTag.isEmpty ? "replaced" : written.entityTag
            head.object.size = upload.source.byteCount
            head.userMetadata = upload.metadata
        }
        let item = try await describe(head, as: name)
        await journal.announce([.children(of: upload.path.parent)])
        return item
    }

    /// Looks at what is there, as far as the server does not do it in the request itself.
    ///
    /// - Returns: The object that will be replaced.
    private func checkBeforeWriting(
        _ path: RemotePath,
        _ place: Place,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> S3ObjectHead? {
        guard let base else {
            guard try await self.folder(place, as: ItemName("folder")) == nil else {
                throw CloudFSError(.exists, "\"\(path)\" is a folder in the bucket")
            }
            if !rules.create, try await exists(place.key) {
                throw CloudFSError(.exists, "\"\(path)\" is in the bucket already")
            }
            return nil
        }
        return try await meantFile(place, base, path)
    }

    private func sendWhole(_ upload: S3FileUpload) async throws(CloudFSError) -> S3Written {
        let (source, path) = (upload.source, upload.path)
        var bytes: [UInt8] = []
        while bytes.count < Int(source.byteCount) {
            let offset = bytes.count
            let count = min(1 << 20, Int(source.byteCount) - offset)
            try await source.willSend(count)
            bytes += try await read(source.descriptor, Int64(offset)..<Int64(offset + count), path)
        }
        guard source.isUnchanged() else { throw Self.changedWhileSent(path) }
        let written = try await client.put(
            upload.key,
            body: .bytes(bytes),
            metadata: upload.metadata,
            contentType: upload.contentType,
            condition: rules.condition(replacing: upload.base.map(Self.entityTag))
        )
        source.didSend(source.byteCount)
        return written
    }

    /// Reads a range of a file that is not to end before it.
    func read(
        _ descriptor: Int32,
        _ range: Range<Int64>,
        _ path: RemotePath
    ) async throws(CloudFSError) -> [UInt8] {
        let bytes = try await S3Provider.pool.engine { () throws -> [UInt8] in
            var bytes = [UInt8](repeating: 0, count: range.count)
            var filled = 0
            while filled < bytes.count {
                let count = bytes.withUnsafeMutableBytes { buffer in
                    pread(
                        descriptor,
                        buffer.baseAddress?.advanced(by: filled),
                        buffer.count - filled,
                        Int(range.lowerBound) + filled
                    )
                }
                if count < 0, errno == EINTR { continue }
                guard count > 0 else { throw Self.changedWhileSent(path) }
                filled += count
            }
            return bytes
        }
        return bytes
    }

    static func changedWhileSent(_ path: RemotePath) -> CloudFSError {
        CloudFSError(.cancelled, "\"\(path)\" was changed while it was sent")
    }

    /// Looks at what was made, and tells the other devices.
    private func finish(_ path: RemotePath, _ place: Place) async throws(CloudFSError) -> RemoteItem
    {
        guard let name = path.name else { throw Self.notFound(path) }
        let item = try await describe(try await client.head(place.key), as: name)
        await journal.announce([.children(of: path.parent)])
        return item
    }

    // MARK: - Folders and links

    func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
        guard let name = path.name else { throw Self.notFound(path) }
        try await requireFolder(path.parent)
        try await requireFree(path, place)
        let headers = try S3Metadata.headers(
            metadata,
            kind: .folder,
            documentID: documentID,
            attributes: [:]
        )
        _ = try await client.put(
            place.folderKey,
            body: .bytes([]),
            metadata: headers,
            contentType: S3Metadata.folderType,
            condition: rules.condition(replacing: nil)
        )
        noteFolder(place.folderKey, isMarked: true)
        let item = markedFolder(try await client.head(place.folderKey), as: name)
        await journal.announce([.children(of: path.parent)])
        return item
    }

    func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
        try Self.requireFileName(path, place)
        try await requireFolder(path.parent)
        try await requireFree(path, place)
        let headers = try S3Metadata.headers(
            metadata,
            kind: .symlink,
            documentID: documentID,
            attributes: [:]
        )
        _ = try await client.put(
            place.key,
            body: .bytes(target),
            metadata: headers,
            contentType: S3Metadata.symlinkType,
            condition: rules.condition(replacing: nil)
        )
        return try await finish(path, place)
    }

    private func requireFree(_ path: RemotePath, _ place: Place) async throws(CloudFSError) {
        let taken = CloudFSError(.exists, "\"\(path)\" is in the bucket already")
        if try await exists(place.key) { throw taken }
        if try await folder(place, as: ItemName("folder")) != nil { throw taken }
    }

    // MARK: - Metadata

    func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
        let item = try await self.item(at: path)
        let isFolder = item.kind == .folder
        if !isFolder { _ = try await meantFile(place, base, path) }
        let key = isFolder ? place.folderKey : place.key
        let kept = try await headIfPresent(key)
        let headers = try S3Metadata.headers(
            update.metadata ?? item.metadata,
            kind: item.kind,
            documentID: item.documentID,
            attributes: update.attributes ?? item.attributes,
            kept: kept?.userMetadata ?? [:],
            hasNewContent: false
        )
        if let kept, !isFolder || kept.object.size > 0 {
            try await copy(kept, to: key, metadata: headers)
        } else {
            _ = try await client.put(
                key,
                body: .bytes([]),
                metadata: headers,
                contentType: S3Metadata.folderType
            )
            noteFolder(key, isMarked: true)
        }
        let changed = try await self.item(at: path)
        await journal.announce([.children(of: path.parent)])
        return changed
    }

    func headIfPresent(_ key: [UInt8]) async throws(CloudFSError) -> S3ObjectHead? {
        do throws(CloudFSError) {
            return try await client.head(key)
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return nil
        }
    }

    // MARK: - Deleting

    func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        let place = try await placeToChange(path)
        if base.content == Self.folderToken {
            try await deleteFolder(path, place)
        } else {
            _ = try await meantFile(place, base, path)
            try await keepFolder(path.parent)
            do throws(CloudFSError) {
                try await client.delete(place.key, ifMatch: Self.entityTag(base))
            } catch  where error.code == .remoteChanged {
                // The answer may have been lost after the work was done.
                guard try await !exists(place.key) else { throw error }
            }
        }
        await journal.announce([.children(of: path.parent)])
    }

    private func deleteFolder(_ path: RemotePath, _ place: Place) async throws(CloudFSError) {
        let objects = try await firstObjects(in: place, limit: 2)
        guard let first = objects.first else { throw Self.notFound(path) }
        guard objects.count == 1, first.key == place.folderKey else {
            throw CloudFSError(.notEmpty, "\"\(path)\" holds something in the bucket")
        }
        try await keepFolder(path.parent)
        try await client.delete(place.folderKey)
        forgetFolder(place.folderKey)
    }

    // MARK: - Moving

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
        if base.content == Self.folderToken {
            let isUnfinished = try await isMoving(from.folderKey, to: target.folderKey)
            if !isUnfinished {
                guard try await folder(from, as: name) != nil else { throw Self.notFound(source) }
                try await requireFolder(destination.parent)
                try await requireFree(destination, target)
                try await identify(from.folderKey)
            }
            try await keepFolder(source.parent)
            try await moveFolder(from.folderKey, to: target.folderKey)
        } else {
            let head = try await meantFile(from, base, source)
            try await requireFolder(destination.parent)
            try Self.requireFileName(destination, target)
            let tag = Self.entityTag(base)
            // A copy that is there already was made before an interruption.
            if try await !isCopy(target.key, of: head) {
                try await requireFree(destination, target)
                try await copy(head, to: target.key)
            }
            try await keepFolder(source.parent)
            try await client.delete(from.key, ifMatch: tag)
        }
        let item = try await self.item(at: destination)
        var hints = [ChangeHint.children(of: source.parent), .children(of: destination.parent)]
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

    private func isCopy(_ key: [UInt8], of head: S3ObjectHead) async throws(CloudFSError) -> Bool {
        do throws(CloudFSError) {
            let other = try await client.head(key)
            return other.object.entityTag == head.object.entityTag
                && other.object.size == head.object.size
                && other.userMetadata == head.userMetadata && head.userMetadata["cloudfs-id"] != nil
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return false
        }
    }

    /// - Throws: `invalidName` for a name that only a folder can have.
    private static func requireFileName(
        _ path: RemotePath,
        _ place: Place
    ) throws(CloudFSError) {
        guard !place.isFolderOnly else {
            throw CloudFSError(.invalidName, "\"\(path)\" can only be the name of a folder")
        }
    }

    /// Copies one object at the server, with its metadata or with another.
    ///
    /// - Parameter source: In the version that is meant.
    func copy(
        _ source: S3ObjectHead,
        to key: [UInt8],
        metadata: [String: String]? = nil
    ) async throws(CloudFSError) {
        guard source.object.size > Self.longestCopy else {
            _ = try await client.copy(
                from: source.object.key,
                sourceIfMatch: source.object.entityTag,
                to: key,
                metadata: metadata,
                contentType: metadata == nil ? nil : source.contentType
            )
            return
        }
        try await copyInParts(source, to: key, metadata: metadata)
    }

    /// What a server copies in one request: 5 GiB.
    static let longestCopy: Int64 = 5 << 30
}

/// A file on its way to the bucket.
struct S3FileUpload: Sendable {
    var key: [UInt8]
    var path: RemotePath
    var source: UploadSource
    var base: ItemVersion?
    var metadata: [String: String]
    /// Of the object that is replaced.
    var contentType: String?
}
