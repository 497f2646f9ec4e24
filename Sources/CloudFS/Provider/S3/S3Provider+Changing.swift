/// Everything that writes to the bucket.
///
/// Each change ends when it is also in the journal, so that other devices hear of it.
extension S3Provider {
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
        let headers = try S3Metadata.headers(
            metadata,
            kind: .folder,
            documentID: documentID,
            attributes: [:]
        )
        try await make(headers, at: place.folderKey) { () async throws(CloudFSError) in
            try await requireFree(path, place)
            _ = try await client.put(
                place.folderKey,
                body: .bytes([]),
                metadata: headers,
                contentType: S3Metadata.folderType,
                condition: rules.condition(replacing: nil)
            )
        }
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
        let headers = try S3Metadata.headers(
            metadata,
            kind: .symlink,
            documentID: documentID,
            attributes: [:]
        )
        try await make(headers, at: place.key) { () async throws(CloudFSError) in
            try await requireFree(path, place)
            _ = try await client.put(
                place.key,
                body: .bytes(target),
                metadata: headers,
                contentType: S3Metadata.symlinkType,
                condition: rules.condition(replacing: nil)
            )
        }
        return try await finish(path, place)
    }

    /// Makes something new, unless an earlier try did whose answer was lost: the metadata has the
    /// document's own identity.
    private func make(
        _ metadata: [String: String],
        at key: [UInt8],
        _ request: () async throws(CloudFSError) -> Void
    ) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await request()
        } catch  where error.code == .exists {
            guard try await headIfPresent(key)?.userMetadata == metadata else { throw error }
        }
    }

    func requireFree(_ path: RemotePath, _ place: Place) async throws(CloudFSError) {
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
            try await deleteMeant(place.key, base)
        }
        await journal.announce([.children(of: path.parent)])
    }

    func deleteMeant(_ key: [UInt8], _ base: ItemVersion) async throws(CloudFSError) {
        do throws(CloudFSError) {
            try await client.delete(key, ifMatch: Self.entityTag(base))
        } catch  where error.code == .remoteChanged {
            // The answer may have been lost after the work was done.
            guard try await !exists(key) else { throw error }
        }
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

    /// - Throws: `invalidName` for a name that only a folder can have.
    static func requireFileName(
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
                contentHeaders: metadata == nil ? [:] : source.contentHeaders
            )
            return
        }
        try await copyInParts(source, to: key, metadata: metadata)
    }

    /// What a server copies in one request: 5 GiB.
    static let longestCopy: Int64 = 5 << 30
}
