import AsyncHTTPClient
import CloudFSTestSupport
import NIOCore
import NIOHTTP1
import Synchronization

@testable import CloudFS

/// The requests of one running device to a bucket's server, over its link.
final class SimulatedWire: HTTPWire {
    private let device: String
    private let cloud: BucketCloud
    private let link: NetworkLink
    private let hasEnded = Atomic(false)
    private let trace: @Sendable (@autoclosure () -> String) -> Void

    init(
        of device: String,
        to cloud: BucketCloud,
        over link: NetworkLink,
        trace: @escaping @Sendable (@autoclosure () -> String) -> Void
    ) {
        self.device = device
        self.cloud = cloud
        self.link = link
        self.trace = trace
    }

    /// Nothing that the device asks from now on reaches the server: it is no more.
    func end() { hasEnded.store(true, ordering: .relaxed) }

    func shutdown() async { end() }

    /// A request as it travels.
    private struct Message: Sendable {
        var method: String
        var target: String
        var headers: [(name: String, value: String)]
        var body: [UInt8] = []
        var sending: BucketCloud.Sending

        var text: String { "\(method) \(target)" }
    }

    // MARK: - The way there and back

    func send(_ request: HTTPClientRequest) async throws -> HTTPClientResponse {
        var message = Message(
            method: request.method.rawValue,
            target: Self.target(of: request.url),
            headers: [("host", "127.0.0.1:9")] + request.headers.map { ($0.name, $0.value) },
            sending: cloud.beginSending(by: device)
        )
        try await connect(message)
        message.body = try await body(of: request, message)
        let fate = link.fate()
        try await travel(message)
        switch fate {
        case .requestLost:
            try await breakOff("\(message.text): the request is lost")
        case .requestLate:
            link.drift(after: .milliseconds(500 + link.draw(20_000))) { [self, message] in
                let status = perform(message).answer.status
                trace("\(message.text): arrives late, \(status)")
            }
            try await breakOff("\(message.text): the request is late")
        case .answerLost:
            let status = perform(message).answer.status
            try await breakOff("\(message.text): \(status), and the answer is lost")
        case .requestTwice:
            // No connection carries a request twice; a server that has trouble may do what it
            // was asked, or not, and say that it failed.
            let isDone = link.draw(2) == 0
            if isDone { _ = perform(message) }
            trace("\(message.text): a fault of the server, \(isDone ? "" : "not ")done")
            try await travel(message)
            return HTTPClientResponse(
                status: .serviceUnavailable,
                headers: ["Content-Length": "0"]
            )
        case .delivered: break
        }
        let told = perform(message)
        let answer = told.answer
        trace("\(message.text): \(answer.status)")
        try await travel(message)
        cloud.note(told, by: device)
        return HTTPClientResponse(
            status: HTTPResponseStatus(statusCode: answer.status),
            headers: HTTPHeaders(answer.headers.map { ($0.name, $0.value) }),
            body: .stream(Pieces(bytes: answer.body, link: link))
        )
    }

    private func perform(_ message: Message) -> BucketCloud.Told {
        cloud.perform(
            message.method,
            message.target,
            headers: message.headers,
            body: message.body,
            message.sending
        )
    }

    /// Path and query, as they stand.
    private static func target(of url: String) -> String {
        let rest = url.drop { $0 != ":" }.dropFirst(3)
        return String(rest.drop { $0 != "/" })
    }

    /// - Throws: What tells that there was no connection, so that nothing was sent.
    private func connect(_ message: Message) async throws {
        try requireAlive()
        try await Task.sleep(for: link.latency())
        try requireAlive()
        guard link.isPartitioned else { return }
        trace("\(message.text): there is no way through")
        try await Task.sleep(for: .milliseconds(100 + link.draw(3_000)))
        throw HTTPClientError.connectTimeout
    }

    /// One way; in a partition nothing comes any more.
    private func travel(_ message: Message) async throws {
        try requireAlive()
        try await Task.sleep(for: link.latency())
        try requireAlive()
        guard link.isPartitioned else { return }
        try await breakOff("\(message.text): cut off on its way")
    }

    private func body(of request: HTTPClientRequest, _ message: Message) async throws -> [UInt8] {
        guard let body = request.body else { return [] }
        var bytes: [UInt8] = []
        for try await buffer in body {
            if link.cutsStream() {
                try await breakOff("\(message.text): cut in its body")
            }
            bytes.append(contentsOf: buffer.readableBytesView)
        }
        return bytes
    }

    private func requireAlive() throws {
        guard !hasEnded.load(ordering: .relaxed) else { throw HTTPClientError.connectTimeout }
    }

    /// A connection breaks, or nothing is heard of it until the device gives up.
    private func breakOff(_ what: String) async throws -> Never {
        trace(what)
        if link.draw(3) == 0 { try await Task.sleep(for: .seconds(86_400)) }
        try await Task.sleep(for: .milliseconds(100 + link.draw(3_000)))
        throw HTTPClientError.remoteConnectionClosed
    }

    /// An answer's body, which may break off after each piece.
    private struct Pieces: AsyncSequence, Sendable {
        typealias Element = ByteBuffer

        let bytes: [UInt8]
        let link: NetworkLink

        func makeAsyncIterator() -> Iterator {
            Iterator(rest: bytes[...], link: link, byteCount: [16, 64, 4_096][link.draw(3)])
        }

        struct Iterator: AsyncIteratorProtocol {
            var rest: ArraySlice<UInt8>
            let link: NetworkLink
            let byteCount: Int
            var hasBegun = false

            mutating func next() async throws -> ByteBuffer? {
                guard !rest.isEmpty else { return nil }
                if hasBegun, link.cutsStream() { throw HTTPClientError.remoteConnectionClosed }
                hasBegun = true
                let piece = rest.prefix(byteCount)
                rest = rest.dropFirst(byteCount)
                return ByteBuffer(bytes: piece)
            }
        }
    }
}
