import Synchronization

/// What a network is like: for demonstrations and tests on one machine.
public struct LinkConditions: Sendable, Equatable {
    /// From a request to the first byte of its answer.
    public var latency: Duration
    /// Of each connection, which is each request; `nil` for no limit.
    public var bytesPerSecond: Int64?
    /// Which part of all requests fails, 0 to 1.
    public var failureRate: Double

    public init(
        latency: Duration = .zero,
        bytesPerSecond: Int64? = nil,
        failureRate: Double = 0
    ) {
        precondition((0...1).contains(failureRate), "a rate of failures is between 0 and 1")
        self.latency = latency
        self.bytesPerSecond = bytesPerSecond
        self.failureRate = failureRate
    }
}

/// A provider behind a simulated network.
///
/// A failing transfer fails on its way, after some of its bytes: what is hard about networks is not
/// that they are down but that they stop in the middle.
public final class SimulatedLink: ProviderLayer {
    public let base: any CloudProvider
    private let conditions: LinkConditions
    private let clock: any Clock<Duration>
    private let random: Mutex<LinkRandom>

    /// How many bytes arrive at once.
    private static let pieceByteCount = 65_536

    /// - Parameters:
    ///   - base: The provider behind the link.
    ///   - conditions: What the link is like.
    ///   - seed: Decides which requests fail.
    ///   - clock: What time is waited with.
    public init(
        _ base: any CloudProvider,
        conditions: LinkConditions,
        seed: UInt64,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        self.base = base
        self.conditions = conditions
        self.clock = clock
        random = Mutex(LinkRandom(seed: seed))
    }

    public func fetch(
        _ path: RemotePath,
        range: Range<Int64>,
        version: ItemVersion,
        deliver:
            @escaping @Sendable (_ offset: Int64, _ piece: ContentPiece) async throws(CloudFSError)
            -> Void
    ) async throws(CloudFSError) -> RemoteItem? {
        let connection = try await open(byteCount: Int64(range.count))
        let item = try await base.fetch(path, range: range, version: version) {
            offset,
            bytes async throws(CloudFSError) in
            var (offset, bytes) = (offset, bytes)
            while let piece = bytes.takeFirst(Self.pieceByteCount) {
                try await connection.pass(piece.count)
                try await deliver(offset, piece)
                offset += Int64(piece.count)
            }
        }
        try connection.finish()
        return item
    }

    public func upload(
        _ source: UploadSource,
        to path: RemotePath,
        replacing base: ItemVersion?
    ) async throws(CloudFSError) -> RemoteItem {
        let connection = try await open(byteCount: source.byteCount)
        var source = source
        let willSend = source.willSend
        source.willSend = { byteCount async throws(CloudFSError) in
            try await connection.pass(byteCount)
            try await willSend(byteCount)
        }
        return try await self.base.upload(source, to: path, replacing: base)
    }

    /// Waits for the answer to begin, or fails as the link decides.
    private func open(byteCount: Int64) async throws(CloudFSError) -> LinkConnection {
        let failsAfter = random.withLock { random -> Int64? in
            guard random.fraction() < conditions.failureRate else { return nil }
            return Int64(Double(byteCount) * random.fraction())
        }
        do {
            try Task.checkCancellation()
            if conditions.latency > .zero { try await clock.sleep(for: conditions.latency) }
        } catch {
            throw CloudFSError(.cancelled, "a request was cancelled")
        }
        let connection = LinkConnection(
            limiter: conditions.bytesPerSecond.map {
                BandwidthLimiter(bytesPerSecond: $0, clock: clock)
            },
            failsAfter: failsAfter
        )
        if byteCount == 0 { try connection.finish() }
        return connection
    }

    /// A request without content: it fails or it waits.
    fileprivate func request() async throws(CloudFSError) {
        _ = try await open(byteCount: 0)
    }
}

/// One request's way over the link.
private final class LinkConnection: Sendable {
    private let limiter: BandwidthLimiter?
    private let failsAfter: Int64?
    private let passed = Mutex<Int64>(0)

    init(limiter: BandwidthLimiter?, failsAfter: Int64?) {
        self.limiter = limiter
        self.failsAfter = failsAfter
    }

    /// Lets `byteCount` bytes pass, in the time that takes.
    func pass(_ byteCount: Int) async throws(CloudFSError) {
        let total = passed.withLock { passed in
            passed += Int64(byteCount)
            return passed
        }
        if let failsAfter, total > failsAfter { throw Self.broken }
        try await limiter?.take(byteCount)
    }

    func finish() throws(CloudFSError) {
        if failsAfter != nil { throw Self.broken }
    }

    private static let broken = CloudFSError(.offline, "the simulated link failed")
}

/// SplitMix64: small, seeded, the same everywhere.
private struct LinkRandom: Sendable {
    private var state: UInt64

    init(seed: UInt64) {
        state = seed
    }

    /// A number from 0 up to but not 1.
    mutating func fraction() -> Double {
        state &+= 0x9e37_79b9_7f4a_7c15
        var mixed = state
        mixed = (mixed ^ (mixed >> 30)) &* 0xbf58_476d_1ce4_e5b9
        mixed = (mixed ^ (mixed >> 27)) &* 0x94d0_49bb_1331_11eb
        mixed ^= mixed >> 31
        return Double(mixed >> 11) / Double(UInt64(1) << 53)
    }
}

// MARK: - Requests without content

extension SimulatedLink {
    public func connect(expecting: ContainerExpectation) async throws(CloudFSError) -> String {
        try await request()
        return try await base.connect(expecting: expecting)
    }

    public func requireSameContainer() async throws(CloudFSError) {
        try await request()
        try await base.requireSameContainer()
    }

    public func item(at path: RemotePath) async throws(CloudFSError) -> RemoteItem {
        try await request()
        return try await base.item(at: path)
    }

    public func children(
        of path: RemotePath,
        after page: PageToken?
    ) async throws(CloudFSError) -> ListingPage {
        try await request()
        return try await base.children(of: path, after: page)
    }

    public func details(
        of items: [RemoteItem],
        in folder: RemotePath
    ) async throws(CloudFSError) -> [RemoteItem] {
        if items.contains(where: \.isSketch) { try await request() }
        return try await base.details(of: items, in: folder)
    }

    public var leases: (any LeaseStore)? { base.leases.map { LinkedLeases($0, over: self) } }

    public var sidecars: (any SidecarStore)? {
        base.sidecars.map { LinkedSidecars(base: $0, link: self) }
    }

    public func changes(after anchor: SyncAnchor?) async throws(CloudFSError) -> ChangePage {
        try await request()
        return try await base.changes(after: anchor)
    }

    public func digest(
        of path: RemotePath,
        version: ItemVersion
    ) async throws(CloudFSError) -> ContentDigest? {
        try await request()
        return try await base.digest(of: path, version: version)
    }

    public func createFolder(
        at path: RemotePath,
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await request()
        return try await base.createFolder(at: path, documentID: documentID, metadata: metadata)
    }

    public func createSymlink(
        at path: RemotePath,
        target: [UInt8],
        documentID: DocumentID,
        metadata: ItemMetadata
    ) async throws(CloudFSError) -> RemoteItem {
        try await request()
        return try await base.createSymlink(
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
        try await request()
        return try await self.base.setMetadata(update, at: path, base: base)
    }

    public func move(
        from source: RemotePath,
        to destination: RemotePath,
        base: ItemVersion
    ) async throws(CloudFSError) -> RemoteItem {
        try await request()
        return try await self.base.move(from: source, to: destination, base: base)
    }

    public func delete(_ path: RemotePath, base: ItemVersion) async throws(CloudFSError) {
        try await request()
        try await self.base.delete(path, base: base)
    }

    public func quota() async throws(CloudFSError) -> Quota? {
        try await request()
        return try await base.quota()
    }
}

/// Leases behind the same network.
private struct LinkedLeases: LeaseStore {
    private let base: any LeaseStore
    private let link: SimulatedLink

    init(_ base: any LeaseStore, over link: SimulatedLink) {
        self.base = base
        self.link = link
    }

    func latest(of document: DocumentID) async throws(CloudFSError) -> LeaseRecord? {
        try await link.request()
        return try await base.latest(of: document)
    }

    func append(_ record: LeaseRecord) async throws(CloudFSError) -> Bool {
        try await link.request()
        return try await base.append(record)
    }

    func all(atMost limit: Int) async throws(CloudFSError) -> [LeaseRecord] {
        try await link.request()
        return try await base.all(atMost: limit)
    }
}

/// Small files on the other side of the link.
private struct LinkedSidecars: SidecarStore {
    let base: any SidecarStore
    let link: SimulatedLink

    func read(_ name: SidecarName, atMost limit: Int) async throws(CloudFSError) -> [UInt8]? {
        try await link.request()
        return try await base.read(name, atMost: limit)
    }

    func write(_ bytes: [UInt8], to name: SidecarName) async throws(CloudFSError) {
        try await link.request()
        try await base.write(bytes, to: name)
    }

    func remove(_ name: SidecarName) async throws(CloudFSError) {
        try await link.request()
        try await base.remove(name)
    }
}
