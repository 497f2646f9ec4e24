import AsyncHTTPClient
import NIOCore
import NIOPosix
import NIOSSL
import Synchronization

/// Connections to servers, kept open between requests.
final class HTTPConnections: HTTPWire {
    private let client: HTTPClient
    private let isShutDown = Mutex(false)

    /// For a connection with its TLS handshake.
    private static let connectTimeout = TimeAmount.seconds(10)

    /// - Parameters:
    ///   - mostPerHost: How many are kept to one host.
    ///   - caFile: Certificates in PEM form to trust instead of the system's.
    init(mostPerHost: Int, caFile: String?) throws(CloudFSError) {
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: try Self.tls(caFile),
            redirectConfiguration: .disallow,
            timeout: .init(connect: Self.connectTimeout),
            connectionPool: .init(
                idleTimeout: .seconds(30),
                concurrentHTTP1ConnectionsPerHostSoftLimit: mostPerHost
            ),
            proxy: nil,
            ignoreUncleanSSLShutdown: false,
            decompression: .disabled
        )
        configuration.httpVersion = .http1Only
        configuration.connectionPool.retryConnectionEstablishment = false
        // The client has no other way to a connection's options.
        configuration.http1_1ConnectionDebugInitializer = Self.prepare
        client = HTTPClient(
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            configuration: configuration
        )
    }

    deinit {
        // The client insists on being shut down; whoever forgot has no use for its error.
        if !isShutDown.withLock({ $0 }) { client.shutdown { _ in } }
    }

    func send(_ request: HTTPClientRequest) async throws -> HTTPClientResponse {
        // Bounded by whoever sends; this one only must not come first.
        try await client.execute(request, timeout: .hours(24 * 365))
    }

    func shutdown() async {
        let isFirst = isShutDown.withLock { isShutDown in
            defer { isShutDown = true }
            return !isShutDown
        }
        guard isFirst else { return }
        await withCheckedContinuation { continuation in
            client.shutdown { _ in continuation.resume() }
        }
    }

    private static func tls(_ caFile: String?) throws(CloudFSError) -> TLSConfiguration {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        guard let caFile else { return tls }
        do {
            tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(caFile))
        } catch {
            throw CloudFSError(
                .invalidArgument,
                "the certificates in \(caFile) cannot be read; it must be a file in PEM form",
                cause: error
            )
        }
        return tls
    }

    /// `TCP_NOTSENT_LOWAT` of Linux: how much the system takes that is not under way yet.
    private static let unsentLimit = NIOBSDSocket.Option(rawValue: 25)
    private static let unsentByteCount: Int = 64 << 10

    /// Has content come in few large buffers instead of many of 64 KiB, each a wake-up, and go
    /// out as the network takes it.
    ///
    /// One buffer is handed on before the next is filled, which is what keeps memory small. The
    /// system would take megabytes to send, and then nothing for minutes on a slow link: nobody
    /// could tell whether anything moves.
    private static func prepare(_ channel: any Channel) -> EventLoopFuture<Void> {
        let buffers = AdaptiveRecvByteBufferAllocator(
            minimum: 2_048,
            initial: 8_192,
            maximum: 262_144
        )
        return channel.setOption(.recvAllocator, value: buffers).flatMap {
            channel.setOption(.maxMessagesPerRead, value: 1)
        }.flatMap {
            // Not every system knows it, and all goes on without.
            channel.setOption(.tcpOption(Self.unsentLimit), value: Self.unsentByteCount)
                .flatMapErrorThrowing { _ in }
        }
    }
}
