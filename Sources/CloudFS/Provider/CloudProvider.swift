/// What a provider can do beyond the least that every one must.
public struct ProviderCapabilities: OptionSet, Sendable {
    public let rawValue: UInt32

    public init(rawValue: UInt32) {
        self.rawValue = rawValue
    }

    /// `changes(after:)` hears of changes by itself, without comparing everything.
    public static let changeFeed = ProviderCapabilities(rawValue: 1 << 0)
    /// Remote ids survive renames.
    public static let stableIDs = ProviderCapabilities(rawValue: 1 << 1)
    /// `digest(of:version:)` answers without sending the content to this machine.
    public static let digests = ProviderCapabilities(rawValue: 1 << 2)
    /// Uploads that name a base version fail atomically when another version is there.
    public static let conditionalUpload = ProviderCapabilities(rawValue: 1 << 3)
    public static let quota = ProviderCapabilities(rawValue: 1 << 4)
    /// `changes(after:)` hears of every change, whoever made it.
    public static let hearsAll = ProviderCapabilities(rawValue: 1 << 5)
    /// Page tokens can be kept: a listing goes on from one after a new connection.
    public static let lastingPages = ProviderCapabilities(rawValue: 1 << 6)
    /// Nothing may be changed; known once the container was reached, and may change with a login.
    public static let readOnly = ProviderCapabilities(rawValue: 1 << 7)
}

/// What the catalog knows of a container from earlier, so that a provider can tell whether it
/// is looking at the same one.
public struct ContainerExpectation: Sendable {
    /// The identity that `connect` returned the first time; `nil` when there was none.
    public var identity: String?
    /// Whether the container is known to hold something.
    public var hasItems: Bool

    public init(identity: String?, hasItems: Bool) {
        self.identity = identity
        self.hasItems = hasItems
    }
}

/// The bytes and metadata of one upload: a stable snapshot of a file.
public struct UploadSource: Sendable {
    /// A descriptor open for reading, owned by the caller; read it with `pread` only.
    public var descriptor: Int32
    public var byteCount: Int64
    public var documentID: DocumentID
    public var metadata: ItemMetadata
    public var attributes: [String: [UInt8]]
    /// Whether the snapshot still is what it was.
    ///
    /// Asked after the last byte was read and before
    /// the upload is made true; when it says no the provider must throw `cancelled`.
    public var isUnchanged: @Sendable () -> Bool
    /// Told how many bytes were sent so far.
    public var didSend: @Sendable (Int64) -> Void
    /// Awaited before each piece of at most 1 MiB is sent; a limit of bandwidth waits here.
    public var willSend: @Sendable (_ byteCount: Int) async throws(CloudFSError) -> Void = { _ in }

    public init(
        descriptor: Int32,
        byteCount: Int64,
        documentID: DocumentID,
        metadata: ItemMetadata,
        attributes: [String: [UInt8]],
        isUnchanged: @escaping @Sendable () -> Bool,
        didSend: @escaping @Sendable (Int64) -> Void
    ) {
        self.descriptor = descriptor
        self.byteCount = byteCount
        self.documentID = documentID
        self.metadata = metadata
        self.attributes = attributes
        self.isUnchanged = isUnchanged
        self.didSend = didSend
    }
}

/// Metadata to write on an item that exists in the cloud.
///
/// What is `nil` stays as it is.
public struct MetadataUpdate: Sendable, Equatable {
    public var metadata: ItemMetadata?
    /// All applications' attributes; those not named are removed.
    public var attributes: [String: [UInt8]]?

    public init(metadata: ItemMetadata? = nil, attributes: [String: [UInt8]]? = nil) {
        self.metadata = metadata
        self.attributes = attributes
    }
}

/// A cloud service as CloudFS sees it: items in folders, versions, and news of changes.
///
/// The written contract, which `ProviderContractTests` holds every provider to:
///
/// - Paths name where an item is *in the cloud*; a path that is gone throws `notFound`, and only
///   when the provider is certain of it. Whatever it cannot tell is `offline` or `timedOut`.
/// - `.cloudfs` at the root is the provider's own room: never listed, never addressed from outside.
/// - Names are compared byte by byte: an item is found under the name that listings tell, and under
///   no other. Where the cloud takes several names for one, all but that are refused with `exists`.
/// - Listings are complete or throw; folders never list themselves; names arrive as stored.
/// - A fetch delivers the asked range of exactly the asked version, in order and without gaps,
///   or throws `remoteChanged`. It never mixes two versions.
/// - An upload appears whole or not at all; with a `base` it replaces that version only, with
///   `nil` it creates only. Otherwise `remoteChanged` (replace) or `exists` (create), and what is
///   there is untouched.
/// - Deletions and moves name the version they mean; anything else there throws `remoteChanged`.
///   Folders are deleted only when empty (`notEmpty`).
/// - Every method can be cancelled, has an end whatever the network does, and may be called from
///   several tasks at once.
/// - Errors: `offline`, `timedOut`, `unauthenticated`, `denied`, `notFound`, `exists`, `notEmpty`,
///   `notDirectory`, `isDirectory`, `remoteChanged`, `quotaExceeded`, `readOnly`, `invalidName`,
///   `nameTooLong`, `tooLarge`, `attributesFull`, `invalidArgument`, `lockHeld`, `unsupported`,
///   `corrupt`, `cancelled`.
public protocol CloudProvider: Sendable {
    var capabilities: ProviderCapabilities { get }

    /// Reaches the container and makes sure that it is the expected one.
    ///
    /// Comes first: a provider may answer everything else with `offline` until it succeeded once.
    ///
    /// - Returns: The container's identity, to be expected from now on; at most 256 bytes.
    /// - Throws: `offline` when it is missing, another one, or empty where it was not.
    func connect(expecting: ContainerExpectation) async throws(CloudFSError) -> String

    /// Makes sure that the container is still the one that was connected to: asked before what is
    /// missing in it is taken for deleted.
    ///
    /// - Throws: `offline` when it is not, or cannot be told.
    func requireSameContainer() async throws(CloudFSError)

    /// The item at `path`; the root's name is the provider's own choice and means nothing.
    func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem

    /// One page of the children of the folder at `path`, at most 1,000 items.
    func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage

    /// The same children of a folder with everything that is known of them; those that are gone
    /// are left out.
    ///
    /// For items of a listing that are sketches; others are returned as they are, and so are those
    /// that the cloud lists and does not let anybody look at.
    func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem]

    /// Refuses a name that nothing new can have in the cloud.
    ///
    /// - Throws: `invalidName`.
    func requireName(_ name: ItemName, isInRoot: Bool) throws(CloudFSError)

    /// How something new may be called after what has a name that perhaps nothing new can have.
    func plainName(of name: ItemName) -> ItemName

    /// Told when somebody uses the drive: news is wanted soon.
    func noteUse()

    /// Takes what a user entered to prove who asks, and keeps it for this drive.
    ///
    /// What the provider does not accept is not kept, and what was known before stays.
    ///
    /// - Throws: `unsupported` where nobody has to prove anything; `unauthenticated`.
    func login(_ login: ProviderLogin) async throws(CloudFSError)

    /// What is worth knowing about the server, for people: short texts by short names.
    var serverNotes: [String: String] { get }

    /// How many bytes of names and values of attributes may be tried to store with an item, where a
    /// failure could leave half of them there.
    ///
    /// More are kept in a sidecar, and so is what turns out not to fit (`attributesFull`).
    var attributeRoom: Int { get }

    /// Where devices take turns at documents; `nil` where nothing atomic lets them.
    ///
    /// Asked again for every use: what the cloud can do may turn out only when it is reached.
    var leases: (any LeaseStore)? { get }

    /// Where what belongs to items but is none lies; `nil` where there is no such place.
    var sidecars: (any SidecarStore)? { get }

    /// Waits until something changed after `anchor`, and tells where.
    ///
    /// `nil` means from now on and returns at once. An anchor that is no longer known gives one
    /// hint, `.subtree(.root)`.
    func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage

    /// Delivers `range` of the file at `path` in pieces of at most 1 MiB, in order.
    ///
    /// - Returns: For a version known from a listing only, the item as the answer describes it, if
    ///   there is more to it than the listing said; it may turn out to be no file.
    @discardableResult
    func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem?

    /// Whether two versions of one file are known to differ in their bytes.
    ///
    /// Else their content tokens may differ all the same: in some clouds these change with what is
    /// written on a file, too.
    func provesOtherBytes(_ version: ItemVersion, than other: ItemVersion) -> Bool

    /// The digest of one version's content, or `nil` if the provider has none.
    func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest?

    /// Whether a file here has the content of a version, as far as its tokens tell without asking
    /// the cloud; `nil` where they do not.
    ///
    /// For providers without `digests`.
    func isContent(
        of version: ItemVersion,
        _ descriptor: Int32,
        byteCount: Int64
    ) async throws(CloudFSError) -> Bool?

    /// Makes `source` the content of `path`.
    ///
    /// `base` is the version it replaces, `nil` for a new file.
    func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem

    func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem

    func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem

    /// Writes metadata and attributes; the bytes stay. Either token of the version may change.
    func setMetadata(
        _ update: MetadataUpdate,
        at path: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem

    /// Moves the item at `source` to `destination`, which must be free (`exists`).
    func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem

    /// Deletes the item at `path` if it still is `base`. For folders only existence is compared.
    func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError)

    /// Tells other devices of something that this one made at `path` earlier, and whose answer was
    /// lost; where nobody has to be told, nothing happens.
    func announce(_ path: RemotePath) async

    /// Space at the provider; `nil` when it has no limit that it tells.
    func quota() async throws(CloudFSError) -> Quota?
}

extension CloudProvider {
    /// Where every answer comes from the container that was connected to, or there is none.
    public func requireSameContainer() async throws(CloudFSError) {}

    public func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem] { items }

    public func requireName(_ name: ItemName, isInRoot: Bool) throws(CloudFSError) {}

    public func plainName(of name: ItemName) -> ItemName { name }

    public func noteUse() {}

    public func provesOtherBytes(_ version: ItemVersion, than other: ItemVersion) -> Bool {
        false
    }

    public func announce(_ path: RemotePath) async {}

    public func isContent(
        of version: ItemVersion,
        _ descriptor: Int32,
        byteCount: Int64
    ) async throws(CloudFSError) -> Bool? { nil }

    public func login(_ login: ProviderLogin) async throws(CloudFSError) {
        throw CloudFSError(.unsupported, "this drive needs no login")
    }

    public var serverNotes: [String: String] { [:] }

    public var attributeRoom: Int { .max }

    public var leases: (any LeaseStore)? { nil }

    public var sidecars: (any SidecarStore)? { nil }
}
