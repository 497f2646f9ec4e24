/// A provider that changes what passes to and from another one.
///
/// What it does not define is passed on as it is.
public protocol ProviderLayer: CloudProvider {
    var base: any CloudProvider { get }
}

extension ProviderLayer {
    public var capabilities: ProviderCapabilities { base.capabilities }

    public func connect(expecting: ContainerExpectation) async throws(CloudFSError) -> String {
        try await base.connect(expecting: expecting)
    }

    public func requireSameContainer() async throws(CloudFSError) {
        try await base.requireSameContainer()
    }

    public func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await base.item(at: path)
    }

    public func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        try await base.children(of: path, after: page)
    }

    public func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem] {
        try await base.details(of: items, in: folder)
    }

    public func requireName(_ name: ItemName, isInRoot: Bool) throws(CloudFSError) {
        try base.requireName(name, isInRoot: isInRoot)
    }

    public func plainName(of name: ItemName) -> ItemName { base.plainName(of: name) }

    public func noteUse() {
        base.noteUse()
    }

    public func announce(_ path: RemotePath) async {
        await base.announce(path)
    }

    public func isContent(
        of version: ItemVersion,
        _ descriptor: Int32,
        byteCount: Int64
    ) async throws(CloudFSError) -> Bool? {
        try await base.isContent(of: version, descriptor, byteCount: byteCount)
    }

    public func login(_ login: ProviderLogin) async throws(CloudFSError) {
        try await base.login(login)
    }

    public var attributeRoom: Int { base.attributeRoom }

    public var serverNotes: [String: String] { base.serverNotes }

    public var leases: (any LeaseStore)? { base.leases }

    public var sidecars: (any SidecarStore)? { base.sidecars }

    public func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        try await base.changes(after: anchor)
    }

    public func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        try await base.fetch(path, range: range, version: version, deliver: deliver)
    }

    public func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        try await self.base.upload(source, to: path, replacing: base)
    }

    public func provesOtherBytes(_ version: ItemVersion, than other: ItemVersion) -> Bool {
        base.provesOtherBytes(version, than: other)
    }

    public func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        try await base.digest(of: path, version: version)
    }

    public func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await base.createFolder(at: path, documentID: documentID, metadata: metadata)
    }

    public func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await base.createSymlink(
            at: path,
            target: target,
            documentID: documentID,
            metadata: metadata
        )
    }

    public func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await self.base.setMetadata(update, at: path, base: base)
    }

    public func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await self.base.move(from: source, to: destination, base: base)
    }

    public func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        try await self.base.delete(path, base: base)
    }

    public func quota() async throws(CloudFSError) -> Quota? {
        try await base.quota()
    }
}
