import AsyncHTTPClient
import Foundation
import NIOHTTP1

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
        /// Whose slots it takes; `nil`: GET and HEAD change nothing, all else does.
        var lane: HTTPSlots.Lane?
    }

    private let wire: any HTTPWire
    private let slots: HTTPSlots
    private let alarms = AlarmClock()
    private let pool: BlockingPool
    private let clocks: Clocks

    /// - Parameters:
    ///   - wire: What carries the requests.
    ///   - maximumConnections: How many exchanges run at once, half of them for changes; the
    ///     others wait in order.
    ///   - pool: Where files are read.
    ///   - clocks: What time is measured with.
    init(
        over wire: any HTTPWire,
        maximumConnections: Int = 16,
        pool: BlockingPool,
        clocks: Clocks = .system
    ) {
        self.wire = wire
        slots = HTTPSlots(count: maximumConnections)
        self.pool = pool
        self.clocks = clocks
    }

    /// Over connections of its own.
    ///
    /// - Parameter caFile: Certificates in PEM form to trust instead of the system's.
    convenience init(
        maximumConnections: Int = 16,
        caFile: String? = nil,
        pool: BlockingPool
    ) throws(CloudFSError) {
        let connections = try HTTPConnections(mostPerHost: maximumConnections, caFile: caFile)
        self.init(over: connections, maximumConnections: maximumConnections, pool: pool)
    }

    /// Ends every connection; requests still running fail.
    func shutdown() async { await wire.shutdown() }

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
        let lane = Self.lane(of: request)
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
        if request.body.byteCount > 0 { noteSpeed(of: result, meter) }
        return try result.get()
    }

    /// A copy at the server has no body, and may keep its slot longer than any upload.
    private static func lane(of request: Request) -> HTTPSlots.Lane {
        request.lane ?? (["GET", "HEAD"].contains(request.method) ? .receiving : .sending)
    }

    /// Has fewer send at once while they are too many for the link, or for the server.
    private func noteSpeed<Value>(of result: Result<Value, CloudFSError>, _ meter: HTTPMeter) {
        switch (result, meter.status) {
        case (_, 408?), (_, 429?), (_, 503?): slots.narrow()
        case (.failure, _) where meter.hasExpired: slots.narrow()
        case (.success, let status?) where (200..<300).contains(status): slots.widen()
        default: break
        }
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
        var message = HTTPClientRequest(url: request.url)
        message.method = HTTPMethod(rawValue: request.method)
        message.headers = HTTPHeaders(request.headers)
        defer { outgoing.end() }
        let response: HTTPClientResponse
        do {
            message.body = try await outgoing.wireBody()
            response = try await wire.send(message)
        } catch {
            throw outgoing.failure ?? errors.error(for: error)
        }
        meter.move()
        meter.note(status: Int(response.status.code))
        let answer = HTTPAnswer(response, method: request.method, meter: meter, errors: errors)
        return try await consume(answer)
    }
}
