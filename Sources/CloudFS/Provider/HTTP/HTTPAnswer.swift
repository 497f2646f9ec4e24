import AsyncHTTPClient
import NIOCore

/// An answer: its head, and its body piece by piece.
///
/// Nothing more is read from the connection than was asked for here.
final class HTTPAnswer {
    let status: Int
    /// Names are in lower case.
    let headers: [(name: String, value: String)]

    private var pieces: HTTPClientResponse.Body.AsyncIterator
    private let expected: Int64?
    private var received: Int64 = 0
    private var failure: CloudFSError?
    private let meter: HTTPMeter
    private let errors: HTTPErrors

    /// How many bytes are gathered before they are handed on, unless they come slowly.
    private static let pieceByteCount = 256 << 10
    /// So many that came together are handed on as they came.
    private static let largeByteCount = 64 << 10

    init(
        _ response: HTTPClientResponse,
        method: String,
        meter: HTTPMeter,
        errors: HTTPErrors
    ) {
        status = Int(response.status.code)
        headers = response.headers.map { (name: $0.name.lowercased(), value: $0.value) }
        pieces = response.body.makeAsyncIterator()
        let hasBody = method != "HEAD" && status != 204 && status != 304
        expected = hasBody ? response.headers.first(name: "content-length").flatMap(Int64.init) : 0
        self.meter = meter
        self.errors = errors
    }

    /// The value of a header's first occurrence.
    ///
    /// - Parameter name: In lower case.
    func header(_ name: String) -> String? {
        headers.first { $0.name == name }?.value
    }

    /// Runs work of this machine whose time the server is not blamed for.
    func paused<Value>(
        _ work: () async throws(CloudFSError) -> Value
    ) async throws(CloudFSError) -> Value {
        meter.pause()
        defer { meter.resume() }
        return try await work()
    }

    /// The next bytes, at most 1 MiB of them; `nil` at the end.
    ///
    /// - Throws: `offline` when the connection breaks before the announced end.
    func next() async throws(CloudFSError) -> ContentPiece? {
        if let failure { throw failure }
        var gathered = ByteBuffer()
        let begin = ContinuousClock.now
        while gathered.readableBytes < Self.pieceByteCount {
            let buffer: ByteBuffer?
            do throws(CloudFSError) {
                buffer = try await nextBuffer()
            } catch {
                // What came before the connection broke is not asked for again.
                guard gathered.readableBytes > 0 else { throw error }
                failure = error
                break
            }
            guard var buffer else { break }
            if gathered.readableBytes == 0 {
                if buffer.readableBytes >= Self.largeByteCount { return ContentPiece(buffer) }
                gathered.reserveCapacity(capacity(for: buffer))
            }
            gathered.writeBuffer(&buffer)
            if ContinuousClock.now - begin > .milliseconds(50) { break }
        }
        return gathered.readableBytes > 0 ? ContentPiece(gathered) : nil
    }

    /// - Parameter buffer: The first part of the next piece.
    private func capacity(for buffer: ByteBuffer) -> Int {
        let most = Self.pieceByteCount * 5 / 4
        guard let expected else { return most }
        let rest = max(0, expected - received)
        return min(most, buffer.readableBytes + Int(min(rest, Int64(most))))
    }

    private func nextBuffer() async throws(CloudFSError) -> ByteBuffer? {
        do {
            while let buffer = try await pieces.next() {
                received += Int64(buffer.readableBytes)
                meter.move()
                if buffer.readableBytes > 0 { return buffer }
            }
        } catch {
            throw errors.error(for: error)
        }
        // A cancelled task sees an early end rather than an error.
        if Task.isCancelled { throw errors.error(for: CancellationError()) }
        if let expected, received != expected {
            throw errors.broken("it sent \(received) of \(expected) bytes")
        }
        return nil
    }

    /// The whole body.
    ///
    /// - Throws: `corrupt` when it is longer than `limit`.
    func wholeBody(atMost limit: Int) async throws(CloudFSError) -> [UInt8] {
        var body: [UInt8] = []
        while let piece = try await next() {
            guard body.count + piece.count <= limit else {
                throw CloudFSError(
                    .corrupt,
                    "the answer of \(errors.host) is longer than \(limit) bytes"
                )
            }
            piece.withBytes { body.append(contentsOf: $0) }
        }
        return body
    }

    /// The whole body if it is no longer than `kept`, else nothing of it.
    ///
    /// - Throws: `corrupt` when it is longer than `limit`.
    func shortBody(_ kept: Int, atMost limit: Int) async throws(CloudFSError) -> [UInt8] {
        var (body, count): ([UInt8], Int) = ([], 0)
        while let piece = try await next() {
            count += piece.count
            guard count <= limit else {
                throw CloudFSError(
                    .corrupt,
                    "the answer of \(errors.host) is longer than \(limit) bytes"
                )
            }
            if count <= kept { piece.withBytes { body.append(contentsOf: $0) } }
        }
        return count <= kept ? body : []
    }
}
