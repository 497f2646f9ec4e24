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
            guard try await client.headIfPresent(key)?.userMetadata == metadata else { throw error }
        }
    }

    func requireFree(_ path: RemotePath, _ place: Place) async throws(CloudFSError) {
        let taken = CloudFSError(.exists, "\"\(path)\" is in the bucket already")
        if try await folder(place, as: ItemName("folder")) != nil { throw taken }
        // Last: it is this that would be overwritten.
        if try await exists(place.key) { throw taken }
    }

    // MARK: - Metadata

    func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        let place = try await placeToChange(path)
        let changed =
            base.content == Self.folderToken
            ? try await setFolderMetadata(update, at: path, place, base)
            : try await setFileMetadata(update, at: path, place, base)
        await journal.announce([.item(path)])
        return changed
    }

    private func setFileMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        _ place: Place,
        _ base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        guard let name = path.name else { throw Self.notFound(path) }
        // The version that is copied is the one that was compared.
        let kept = try await meantFile(place, base, path)
        let item = try await describe(kept, as: name)
        let headers = try Self.headers(update, of: item, kept: kept.userMetadata)
        let copied = try await copy(kept, to: place.key, over: kept.object, metadata: headers)
        guard mayBe(copied, kept.object) else { throw Self.changed(path) }
        return try await describe(copied, of: kept, at: place.key, headers, as: name)
    }

    private func setFolderMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        _ place: Place,
        _ base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        guard let name = path.name else { throw Self.notFound(path) }
        let item = try await self.item(at: path)
        guard item.kind == .folder else { throw Self.changed(path) }
        let key = place.folderKey
        let kept = try await client.headIfPresent(key)
        // No tag tells what is written on a marker.
        guard Self.isKnown(kept, as: base) else { throw Self.changed(path) }
        let headers = try Self.headers(update, of: item, kept: kept?.userMetadata ?? [:])
        if let kept, kept.object.size > 0 {
            try await copy(kept, to: key, over: kept.object, metadata: headers)
        } else {
            try await putMarker(key, headers, over: kept, path)
            noteFolder(key, isMarked: true)
        }
        // A file may have come beside it meanwhile.
        guard let changed = try await folder(place, as: name) else { throw Self.notFound(path) }
        return changed
    }

    /// Whether on a folder is written what was known, as far as that tells.
    ///
    /// A marker without metadata only says that there is a folder.
    private static func isKnown(_ marker: S3ObjectHead?, as base: ItemVersion) -> Bool {
        guard let known = metadataDigest(base) else {
            return !base.metadata.hasSuffix(unmarkedToken) || marker?.userMetadata.isEmpty != false
        }
        return marker.map { metadataDigest(version(of: $0)) == known } ?? false
    }

    /// Writes a folder's marker in the place of the one that was looked at, or of none.
    func putMarker(
        _ key: [UInt8],
        _ metadata: [String: String],
        over present: S3ObjectHead?,
        _ path: RemotePath
    ) async throws(CloudFSError) {
        do throws(CloudFSError) {
            _ = try await client.put(
                key,
                body: .bytes([]),
                metadata: metadata,
                contentType: S3Metadata.folderType,
                condition: rules.condition(replacing: present?.object.entityTag),
                over: present
            )
        } catch  where Self.isConflict(error) {
            throw Self.changed(path)
        }
    }

    private static func headers(
        _ update: MetadataUpdate,
        of item: RemoteItem,
        kept: [String: String]
    ) throws(CloudFSError) -> [String: String] {
        try S3Metadata.headers(
            update.metadata ?? item.metadata,
            kind: item.kind,
            documentID: item.documentID,
            attributes: update.attributes ?? item.attributes,
            kept: kept,
            hasNewContent: false
        )
    }

    // MARK: - Deleting

    func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        let place = try await placeToChange(path)
        if base.content == Self.folderToken {
            try await deleteFolder(path, place)
        } else {
            var head = try await meantFile(place, base, path)
            // Some servers delete whatever is there.
            if try await keepFolder(path.parent) { head = try await meantFile(place, base, path) }
            try await delete(head.object)
        }
        await journal.announce([.children(of: path.parent)])
    }

    private func deleteFolder(_ path: RemotePath, _ place: Place) async throws(CloudFSError) {
        let objects = try await firstObjects(in: place, limit: 2)
        guard let first = objects.first else { throw Self.notFound(path) }
        guard objects.count == 1, first.key == place.folderKey else {
            throw CloudFSError(.notEmpty, "\"\(path)\" holds something in the bucket")
        }
        // Shown as a folder, but another tool has stored something under its name.
        guard first.size == 0 else {
            throw CloudFSError(.notEmpty, "\"\(path)\" is an object with bytes in the bucket")
        }
        try await keepFolder(path.parent)
        try await delete(first)
        forgetEmptyFolder(place.folderKey)
    }

    /// Deletes an object that was looked at just now.
    ///
    /// - Throws: As `S3Client.delete`.
    func delete(_ object: S3Object) async throws(CloudFSError) {
        try await client.delete(object, condition: rules.conditionOfDeletion(of: object))
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
}
