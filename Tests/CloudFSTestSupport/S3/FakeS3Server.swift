import CloudFS
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// An S3 server in this process, on a port of the loopback interface, with its objects in memory.
///
/// It behaves as AWS documents it, differs from that where `settings` say so, and misbehaves
/// where faults were added. Every request is recorded. Signatures are not checked.
public final class FakeS3Server: Sendable {
    public let port: Int
    private let core: FakeS3Core
    /// `nil` while the server is down.
    private let listener: Mutex<(any Channel)?>
    /// `nil` for plain HTTP.
    private let tls: NIOSSLContext?

    private init(core: FakeS3Core, listener: any Channel, port: Int, tls: NIOSSLContext?) {
        self.core = core
        self.tls = tls
        self.listener = Mutex(listener)
        self.port = port
    }

    deinit {
        for channel in takeChannels() { channel.hangUp() }
    }

    /// Starts a server with one empty bucket; it ends with the last reference to it.
    public static func start(
        bucket: String = "bucket",
        settings: FakeS3Settings = FakeS3Settings(),
        certificate: FakeS3Certificate? = nil
    ) async throws -> FakeS3Server {
        let tls = try certificate.map { try NIOSSLContext(configuration: $0.configuration()) }
        let core = FakeS3Core()
        core.state.withLock { state in
            state.store.settings = settings
            state.store.buckets[bucket] = FakeS3Bucket()
        }
        let listener = try await listen(core, port: 0, tls)
        guard let port = listener.localAddress?.port else { throw ChannelError.unknownLocalAddress }
        return FakeS3Server(core: core, listener: listener, port: port, tls: tls)
    }

    private static func listen(
        _ core: FakeS3Core,
        port: Int,
        _ tls: NIOSSLContext?
    ) async throws -> any Channel {
        try await ServerBootstrap(group: MultiThreadedEventLoopGroup.singleton)
            .serverChannelOption(.backlog, value: 256)
            .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
            .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
            .childChannelOption(
                .writeBufferWaterMark,
                value: .init(low: 256 << 10, high: 1 << 20)
            )
            .childChannelInitializer { channel in
                channel.eventLoop.makeCompletedFuture {
                    let pipeline = channel.pipeline.syncOperations
                    if let tls { try pipeline.addHandler(NIOSSLServerHandler(context: tls)) }
                    try pipeline.addHandler(ByteToMessageHandler(HTTPRequestDecoder()))
                    try pipeline.addHandler(FakeS3Connection(core: core))
                }
            }
            .bind(host: "127.0.0.1", port: port)
            .get()
    }

    /// `http://127.0.0.1:port`, for path style.
    public var endpoint: String { "\(tls == nil ? "http" : "https")://127.0.0.1:\(port)" }

    public var settings: FakeS3Settings {
        get { core.settings }
        set { core.state.withLock { $0.store.settings = newValue } }
    }

    public func change(_ body: (inout FakeS3Settings) -> Void) {
        core.state.withLock { body(&$0.store.settings) }
    }

    // MARK: - Going away

    /// Breaks all connections and refuses new ones; the objects stay.
    public func goDown() async throws {
        for channel in takeChannels() { try await channel.hangUp().get() }
    }

    /// Listens again on the same port.
    public func goUp() async throws {
        let channel = try await Self.listen(core, port: port, tls)
        listener.withLock { $0 = channel }
    }

    /// Breaks all connections; new ones are accepted.
    public func breakConnections() {
        for channel in core.state.withLock({ Array($0.connections.values) }) {
            channel.hangUp()
        }
    }

    private func takeChannels() -> [any Channel] {
        let own = listener.withLock { listener in
            defer { listener = nil }
            return listener.map { [$0] } ?? []
        }
        return own + core.state.withLock { Array($0.connections.values) }
    }
}

// MARK: - Faults and records

extension FakeS3Server {
    /// Adds a fault; of several that hit a request, all apply in the order in which they came.
    public func add(_ fault: FakeS3Fault) {
        core.state.withLock { $0.faults.append(fault) }
    }

    public func removeFaults() {
        core.state.withLock { $0.faults = [] }
    }

    /// The faults that have not hit as often as they are to.
    public var faultsLeft: Int { core.state.withLock { $0.faults.count } }

    /// All requests whose heads came, in their order.
    public var requests: [FakeS3Request] { core.state.withLock { $0.requests } }

    public func requests(_ kind: FakeS3RequestKind) -> [FakeS3Request] {
        requests.filter { $0.kind == kind }
    }

    /// How many requests of these kinds came; of all kinds if none is named.
    public func requestCount(_ kinds: FakeS3RequestKind...) -> Int {
        core.state.withLock { state in
            kinds.isEmpty
                ? state.requests.count : state.requests.count { kinds.contains($0.kind) }
        }
    }

    /// Forgets the requests that were answered, and the counts.
    public func forgetRequests() {
        core.state.withLock { state in
            let active = state.active
            state.requests.removeAll { !active.contains($0.number) }
            state.mostActive = active.count
            state.mostConnections = state.connections.count
            state.sentByteCount = 0
        }
    }

    /// Requests that are not answered yet.
    public var activeRequestCount: Int { core.state.withLock { $0.active.count } }
    public var mostActiveRequests: Int { core.state.withLock { $0.mostActive } }
    public var connectionCount: Int { core.state.withLock { $0.connections.count } }
    public var mostConnections: Int { core.state.withLock { $0.mostConnections } }
    /// The bytes of bodies of answers.
    public var sentByteCount: Int64 { core.state.withLock { $0.sentByteCount } }
}

// MARK: - Behind the protocol's back

extension FakeS3Server {
    /// Makes a bucket; it replaces one of that name.
    public func makeBucket(_ name: String, synthetic: SyntheticBucket? = nil) {
        core.state.withLock { $0.store.buckets[name] = FakeS3Bucket(synthetic: synthetic) }
    }

    public func removeBucket(_ name: String) {
        core.state.withLock { $0.store.buckets[name] = nil }
    }

    /// Stores an object as a foreign client would; returns its entity tag.
    @discardableResult
    public func put(
        _ key: FakeS3Key,
        _ bytes: [UInt8],
        metadata: [String: String] = [:],
        contentType: String = "binary/octet-stream",
        inParts partCount: Int? = nil,
        in bucket: String = "bucket"
    ) -> String {
        let buffer = ByteBuffer(bytes: bytes)
        let digest = FakeS3Encoding.hex(FakeS3Digest.md5(buffer))
        let tag = partCount.map { "\(digest)-\($0)" } ?? digest
        core.state.withLock { state in
            let object = FakeS3StoredObject(
                content: .bytes(buffer),
                entityTag: tag,
                lastModified: state.store.now,
                headers: [("content-type", contentType)]
                    + metadata.sorted { $0.key < $1.key }.map { ("x-amz-meta-\($0)", $1) }
            )
            state.store.buckets[bucket]?[key] = object
        }
        return tag
    }

    @discardableResult
    public func put(
        _ key: FakeS3Key,
        _ text: String,
        metadata: [String: String] = [:],
        in bucket: String = "bucket"
    ) -> String {
        put(key, Array(text.utf8), metadata: metadata, in: bucket)
    }

    /// Stores an object of `SyntheticContent`, which takes no memory.
    public func putSynthetic(_ key: FakeS3Key, byteCount: Int64, in bucket: String = "bucket") {
        core.state.withLock { state in
            let object = FakeS3StoredObject(
                content: .synthetic(byteCount: byteCount),
                entityTag: FakeS3Encoding.hex(FakeS3Digest.md5(Array("\(byteCount)".utf8))),
                lastModified: state.store.now,
                headers: [("content-type", "application/octet-stream")]
            )
            state.store.buckets[bucket]?[key] = object
        }
    }

    public func remove(_ key: FakeS3Key, in bucket: String = "bucket") {
        core.state.withLock { $0.store.buckets[bucket]?[key] = nil }
    }

    public func object(_ key: FakeS3Key, in bucket: String = "bucket") -> FakeS3Object? {
        core.state.withLock { $0.store.buckets[bucket]?[key] }.map { FakeS3Object($0) }
    }

    /// The keys with this prefix, in their order.
    public func keys(_ prefix: FakeS3Key = "", in bucket: String = "bucket") -> [FakeS3Key] {
        core.state.withLock { $0.store.buckets[bucket]?.keys(prefix) ?? [] }
    }

    /// The keys of the multipart uploads that are neither completed nor aborted.
    public func uploads(in bucket: String = "bucket") -> [FakeS3Key] {
        core.state.withLock { state in
            (state.store.buckets[bucket]?.uploads.values.map(\.key) ?? []).sorted()
        }
    }
}
