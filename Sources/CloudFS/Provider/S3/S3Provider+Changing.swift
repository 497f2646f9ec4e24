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
        try await requireFolder(path.parent)
        let kept = try await checkBeforeWriting(path, place, replacing: base)
        let metadata = try S3Metadata.headers(
            source.metadata,
            kind: .file,
            documentID: source.documentID,
            attributes: source.attributes,
            kept: kept
        )
        do throws(CloudFSError) {
            if source.byteCount <= settings.partByteCount {
                try await uploadWhole(source, place.key, metadata, base, path)
            } else {
                try await uploadInParts(source, place.key, metadata, base, path)
            }
        } catch  where error.code == .remoteChanged {
            guard try await exists(place.key) else { throw Self.notFound(path) }
            throw error
        }
        return try await finish(path, place)
    }

    /// Looks at what is there, as far as the server does not do it in the request itself.
    ///
    /// - Returns: What is written on the object that will be replaced.
    private func checkBeforeWriting(
        _ path: RemotePath,
        _ place: Place,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> [String: String] {
        guard let base else {
            guard try await self.folder(place, as: ItemName("folder")) == nil else {
                throw CloudFSError(.exists, "\"\(path)\" is a folder in the bucket")
            }
            if !rules.create, try await exists(place.key) {
                throw CloudFSError(.exists, "\"\(path)\" is in the bucket already")
            }
            return [:]
        }
        return try await meantFile(place, base, path).userMetadata
    }

    private func uploadWhole(
        _ source: UploadSource,
        _ key: [UInt8],
        _ metadata: [String: String],
        _ base: ItemVersion?,
        _ path: RemotePath
    ) async throws(CloudFSError) {
        var bytes: [UInt8] = []
        while bytes.count < Int(source.byteCount) {
            let offset = bytes.count
            let count = min(1 << 20, Int(source.byteCount) - offset)
            try await source.willSend(count)
            bytes += try await read(source.descriptor, Int64(offset)..<Int64(offset + count), path)
        }
        guard source.isUnchanged() else { throw Self.changedWhileSent(path) }
        _ = try await client.put(
            key,
            body: .bytes(bytes),
            metadata: metadata,
            condition: rules.condition(replacing: base.map(Self.entityTag))
        )
        source.didSend(source.byteCount)
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

    /// Looks at what was written, and tells the other devices.
    private func finish(_ path: RemotePath, _ place: Place) async throws(CloudFSError) -> RemoteItem
    {
        guard let name = path.name else { throw Self.notFound(path) }
        let item = try await describe(try await client.head(place.key), as: name)
        try await journal.record([.children(of: path.parent)])
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
        try await journal.record([.children(of: path.parent)])
        return item
    }

    func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
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
        let kept = try await keptMetadata(key)
        let headers = try S3Metadata.headers(
            update.metadata ?? item.metadata,
            kind: item.kind,
            documentID: item.documentID,
            attributes: update.attributes ?? item.attributes,
            kept: kept
        )
        if isFolder {
            _ = try await client.put(
                key,
                body: .bytes([]),
                metadata: headers,
                contentType: S3Metadata.folderType
            )
            noteFolder(key, isMarked: true)
        } else {
            try await copy(key, item.size, tag: Self.entityTag(base), to: key, metadata: headers)
        }
        let changed = try await self.item(at: path)
        try await journal.record([.children(of: path.parent)])
        return changed
    }

    private func keptMetadata(_ key: [UInt8]) async throws(CloudFSError) -> [String: String] {
        do throws(CloudFSError) {
            return try await client.head(key).userMetadata
        } catch  where error.code == .notFound && Self.isAbsence(error) {
            return [:]
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
            try await client.delete(place.key, ifMatch: Self.entityTag(base))
        }
        try await journal.record([.children(of: path.parent)])
    }

    private func deleteFolder(_ path: RemotePath, _ place: Place) async throws(CloudFSError) {
        let page = try await client.list(prefix: place.folderKey, delimiter: false, limit: 2)
        guard let first = page.objects.first else { throw Self.notFound(path) }
        guard page.objects.count == 1, first.key == place.folderKey else {
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
        guard !destination.names.starts(with: source.names) else {
            throw CloudFSError(.invalidArgument, "\"\(source)\" cannot be moved into itself")
        }
        if base.content == Self.folderToken {
            let isUnfinished = try await isMoving(from.folderKey, to: target.folderKey)
            if !isUnfinished {
                guard try await folder(from, as: name) != nil else { throw Self.notFound(source) }
                try await requireFolder(destination.parent)
                try await requireFree(destination, target)
            }
            try await keepFolder(source.parent)
            try await moveFolder(from.folderKey, to: target.folderKey)
        } else {
            let head = try await meantFile(from, base, source)
            try await requireFolder(destination.parent)
            try await requireFree(destination, target)
            let tag = Self.entityTag(base)
            try await copy(from.key, head.object.size, tag: tag, to: target.key, metadata: nil)
            try await keepFolder(source.parent)
            try await client.delete(from.key, ifMatch: tag)
        }
        let item = try await self.item(at: destination)
        var hints = [ChangeHint.children(of: source.parent), .children(of: destination.parent)]
        if item.kind == .folder { hints.append(.subtree(destination)) }
        try await journal.record(hints)
        return item
    }

    /// Copies one object at the server, with its metadata or with another.
    ///
    /// - Parameter tag: Of the version that is meant.
    func copy(
        _ source: [UInt8],
        _ byteCount: Int64,
        tag: String,
        to key: [UInt8],
        metadata: [String: String]?
    ) async throws(CloudFSError) {
        guard byteCount > Self.longestCopy else {
            _ = try await client.copy(
                from: source,
                sourceIfMatch: tag,
                to: key,
                metadata: metadata
            )
            return
        }
        try await copyInParts(source, byteCount, tag: tag, to: key, metadata: metadata)
    }

    /// What a server copies in one request: 5 GiB.
    private static let longestCopy: Int64 = 5 << 30
}
