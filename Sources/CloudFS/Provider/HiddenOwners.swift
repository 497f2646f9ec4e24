/// A provider that leaves out whom items belong to, in both directions: users are numbered
/// differently on other machines.
///
/// What comes from the cloud then is whoever's mounts the drive, and what is sent leaves the owners
/// there as they are.
final class HiddenOwners: ProviderLayer {
    let base: any CloudProvider

    init(_ base: any CloudProvider) {
        self.base = base
    }

    // MARK: - From the cloud

    func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await base.item(at: path).ownerless
    }

    func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        var page = try await base.children(of: path, after: page)
        for index in page.items.indices { page.items[index].metadata.hideOwner() }
        return page
    }

    func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem] {
        try await base.details(of: items, in: folder).map(\.ownerless)
    }

    func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        try await base.fetch(path, range: range, version: version, deliver: deliver)?.ownerless
    }

    func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await self.base.move(from: source, to: destination, base: base).ownerless
    }

    // MARK: - To the cloud

    func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        var source = source
        source.metadata.hideOwner()
        return try await self.base.upload(source, to: path, replacing: base).ownerless
    }

    func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await base.createFolder(
            at: path,
            documentID: documentID,
            metadata: metadata.ownerless
        ).ownerless
    }

    func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await base.createSymlink(
            at: path,
            target: target,
            documentID: documentID,
            metadata: metadata.ownerless
        ).ownerless
    }

    func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        var update = update
        update.metadata = update.metadata?.ownerless
        return try await self.base.setMetadata(update, at: path, base: base).ownerless
    }
}

extension ItemMetadata {
    fileprivate var ownerless: ItemMetadata {
        var metadata = self
        metadata.hideOwner()
        return metadata
    }
}

extension RemoteItem {
    fileprivate var ownerless: RemoteItem {
        var item = self
        item.metadata.hideOwner()
        return item
    }
}
