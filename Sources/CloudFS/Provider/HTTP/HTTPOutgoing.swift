import AsyncHTTPClient
import NIOCore
import Synchronization

/// A request's body on its way out, in pieces that wait for the connection.
final class HTTPOutgoing: Sendable {
    /// Small enough for a slow link to take one before it counts as idle.
    static let pieceByteCount: Int64 = 256 << 10

    /// What the system may hold of a body that the network has not taken yet.
    private static let heldByteCount: Int64 = 4 << 20

    /// The slowest link that is waited for, in bytes per second.
    private static let slowestRate: Int64 = 50_000

    let body: HTTPBody
    private let meter: HTTPMeter
    private let pool: BlockingPool
    private let state = Mutex<CloudFSError?>(nil)

    init(_ body: HTTPBody, meter: HTTPMeter, pool: BlockingPool) {
        self.body = body
        self.meter = meter
        self.pool = pool
        meter.move(allowing: firstByteAllowance)
    }

    /// Why the body could not be read; the HTTP client reports it as a failure of its own.
    var failure: CloudFSError? { state.withLock { $0 } }

    /// The time for the answer's first byte, during which the last of the body still travels.
    private var firstByteAllowance: Duration {
        let held = min(body.byteCount, Self.heldByteCount)
        return meter.limits.firstByte + .milliseconds(held * 1_000 / Self.slowestRate)
    }

    var wireBody: HTTPClientRequest.Body? {
        switch body {
        case .none: nil
        case .bytes(let bytes): .bytes(ByteBuffer(bytes: bytes))
        case .file(_, _, let byteCount, _, _):
            .stream(Pieces(outgoing: self), length: .known(byteCount))
        }
    }

    private struct Pieces: AsyncSequence, Sendable {
        typealias Element = ByteBuffer

        let outgoing: HTTPOutgoing

        func makeAsyncIterator() -> Iterator { Iterator(outgoing: outgoing) }

        struct Iterator: AsyncIteratorProtocol {
            let outgoing: HTTPOutgoing
            var sent: Int64 = 0

            mutating func next() async throws -> ByteBuffer? {
                guard let buffer = try await outgoing.piece(at: sent) else { return nil }
                sent += Int64(buffer.readableBytes)
                return buffer
            }
        }
    }

    /// The piece that begins after `sent` bytes; `nil` at the end.
    private func piece(at sent: Int64) async throws -> ByteBuffer? {
        guard
            case .file(let descriptor, let offset, let byteCount, let willSend, let didSend) = body
        else { return nil }
        if sent > 0 { didSend(sent) }
        meter.move(allowing: firstByteAllowance)
        let count = Int(min(byteCount - sent, Self.pieceByteCount))
        guard count > 0 else { return nil }
        meter.pause()
        defer { meter.resume() }
        do {
            try await willSend(count)
            return try await pool.run {
                try HTTPBody.read(descriptor, at: offset + sent, byteCount: count)
            }
        } catch {
            let failure =
                error as? CloudFSError
                ?? CloudFSError(.internalFailure, "a file could not be read", cause: error)
            state.withLock { $0 = $0 ?? failure }
            throw failure
        }
    }
}
