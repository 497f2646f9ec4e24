import AsyncHTTPClient
import Foundation
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Synchronization

/// Sends requests over HTTP/1.1 and streams their answers.
///
/// It follows no redirect, unpacks nothing, asks no proxy and repeats nothing: all that is decided
/// by who knows what was asked. Every exchange is bounded in time.
final class HTTPTransport: Sendable {
    /// One request; its target is used as it stands.
    struct Request: Sendable {
        var method: String
        /// With scheme, host and an encoded path.
        var url: String
        /// The `Content-Length` is added.
        var headers: [(name: String, value: String)]
        var body = HTTPBody.none
    }

    private let client: HTTPClient
    private let slots: HTTPSlots
    private let alarms = AlarmClock()
    private let pool: BlockingPool
    private let clocks: Clocks
    private let isShutDown = Mutex(false)

    /// - Parameters:
    ///   - maximumConnections: How many exchanges run at once, half of them to send something; the
    ///     others wait in order.
    ///   - connectTimeout: For a connection with its TLS handshake.
    ///   - caFile: Certificates in PEM form to trust instead of the system's.
    ///   - pool: Where files are read.
    ///   - clocks: What time is measured with.
    init(
        maximumConnections: Int = 16,
        connectTimeout: Duration = .seconds(10),
        caFile: String? = nil,
        pool: BlockingPool,
        clocks: Clocks = .system
    ) throws(CloudFSError) {
        var tls = TLSConfiguration.makeClientConfiguration()
        tls.minimumTLSVersion = .tlsv12
        if let caFile {
            do {
                tls.trustRoots = .certificates(try NIOSSLCertificate.fromPEMFile(caFile))
            } catch {
                throw CloudFSError(
                    .invalidArgument,
                    "the certificates in \(caFile) cannot be read; it must be a file in PEM form",
                    cause: error
                )
            }
        }
        let connect = TimeAmount.nanoseconds(connectTimeout.wholeNanoseconds)
        var configuration = HTTPClient.Configuration(
            tlsConfiguration: tls,
            redirectConfiguration: .disallow,
            timeout: .init(connect: connect),
            connectionPool: .init(
                idleTimeout: .seconds(30),
                concurrentHTTP1ConnectionsPerHostSoftLimit: maximumConnections
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
        slots = HTTPSlots(count: maximumConnections)
        self.pool = pool
        self.clocks = clocks
    }

    deinit {
        // The client insists on being shut down; whoever forgot has no use for its error.
        if !isShutDown.withLock({ $0 }) { client.shutdown { _ in } }
    }

    /// Ends every connection; requests still running fail.
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

    /// Has content come in few large buffers instead of many of 64 KiB, each a wake-up.
    ///
    /// One buffer is handed on before the next is filled, which is what keeps memory small.
    private static func prepare(_ channel: any Channel) -> EventLoopFuture<Void> {
        let buffers = AdaptiveRecvByteBufferAllocator(
            minimum: 2_048,
            initial: 8_192,
            maximum: 262_144
        )
        return channel.setOption(.recvAllocator, value: buffers).flatMap {
            channel.setOption(.maxMessagesPerRead, value: 1)
        }
    }

    /// Measures one exchange; it stands still until the exchange has a connection to itself.
    func meter(_ limits: HTTPLimits) -> HTTPMeter {
        HTTPMeter(limits: limits, elapsed: clocks.elapsed)
    }

    /// The SHA-256 of a body, in small hexadecimal digits.
    func digest(of body: HTTPBody) async throws(CloudFSError) -> String {
        try await body.digest(in: pool)
    }

    /// The MD5 of a body, in small hexadecimal digits: what most servers use as a tag.
    func md5(of body: HTTPBody) async throws(CloudFSError) -> String {
        try await body.md5(in: pool)
    }

    /// Sends a request and hands its answer to `consume`.
    ///
    /// The exchange ends with `consume`: an answer not read to its end costs its connection.
    ///
    /// - Throws: `offline`, `timedOut`, `corrupt` with an `HTTPFailure` as cause; `cancelled`; what
    ///   `consume` and the body's `willSend` throw.
    func send<Value: Sendable>(
        _ request: Request,
        meter: HTTPMeter,
        consume: @escaping @Sendable (HTTPAnswer) async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        let lane: HTTPSlots.Lane = request.body.byteCount > 0 ? .sending : .receiving
        guard await slots.take(lane) else {
            throw CloudFSError(.cancelled, "the request was given up")
        }
        defer { slots.give(lane) }
        meter.resume()
        defer { meter.pause() }
        let result = await withTaskGroup(of: Result<Value, CloudFSError>?.self) { group in
            group.addTask {
                do throws(CloudFSError) {
                    return .success(try await self.exchange(request, meter, consume))
                } catch {
                    return .failure(error)
                }
            }
            group.addTask {
                await meter.waitUntilExpired(by: self.alarms)
                return nil
            }
            var result: Result<Value, CloudFSError>?
            for await ended in group {
                group.cancelAll()
                if let ended { result = ended }
            }
            return result
        }
        guard let result else { throw CloudFSError(.cancelled, "the request was given up") }
        return try result.get()
    }

    /// Whether the HTTP client will ask for just this target.
    ///
    /// It takes the URL apart with Foundation, for which a path that is no UTF-8 is empty: the
    /// request would go to the root, and a deletion with it.
    private static func isSentAsItStands(_ text: String) -> Bool {
        guard let url = URL(string: text),
            let parts = URLComponents(url: url, resolvingAgainstBaseURL: true),
            let host = text.firstRange(of: "://")?.upperBound
        else { return false }
        let target = text[host...].drop { $0 != "/" && $0 != "?" }
        let path = url.path.isEmpty ? "/" : parts.percentEncodedPath
        return path + (url.query.map { "?\($0)" } ?? "") == target
    }

    private func exchange<Value: Sendable>(
        _ request: Request,
        _ meter: HTTPMeter,
        _ consume: @Sendable (HTTPAnswer) async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        let errors = HTTPErrors(url: request.url, meter: meter)
        guard Self.isSentAsItStands(request.url) else {
            throw CloudFSError(.invalidName, "a name that is no UTF-8 cannot be asked for")
        }
        let outgoing = HTTPOutgoing(request.body, meter: meter, pool: pool)
        var wire = HTTPClientRequest(url: request.url)
        wire.method = HTTPMethod(rawValue: request.method)
        wire.headers = HTTPHeaders(request.headers)
        wire.body = outgoing.wireBody
        let response: HTTPClientResponse
        do {
            // Bounded by the meter; this one only must not come first.
            response = try await client.execute(wire, timeout: .hours(24 * 365))
        } catch {
            throw outgoing.failure ?? errors.error(for: error)
        }
        meter.move()
        let answer = HTTPAnswer(response, method: request.method, meter: meter, errors: errors)
        return try await consume(answer)
    }
}

extension Duration {
    /// For libraries that count nanoseconds.
    fileprivate var wholeNanoseconds: Int64 {
        let (seconds, attoseconds) = components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
