import AsyncHTTPClient
import NIOCore
import Synchronization

/// A request's body on its way out, in pieces that wait for the connection.
///
/// Each piece that the connection takes is a movement: a body may take as long as it likes while
/// it moves. Of a file no more is in memory than was read for the next pieces.
final class HTTPOutgoing: Sendable {
    /// Small enough to come often, also where many bodies share a slow link or a limit.
    static let pieceByteCount: Int64 = 32 << 10

    /// What is read of a file at once.
    private static let readByteCount: Int64 = 256 << 10

    /// What a connection has to pass on before it takes the next piece.
    private static let waitingByteCount: Int64 = 64 << 10

    /// What may still be on its way of a body that was taken whole, here and on the link.
    private static let heldByteCount: Int64 = 256 << 10

    /// The slowest pace that is waited for, in bytes per second: a link of 50 kB/s that two dozen
    /// bodies share.
    private static let slowestRate: Int64 = 2_000

    private struct State {
        /// `nil` once nobody waits for the answer any more.
        var body: HTTPBody?
        /// What was read and not sent.
        var unsent = ByteBuffer()
        var failure: CloudFSError?
    }

    private let byteCount: Int64
    private let meter: HTTPMeter
    private let pool: BlockingPool
    private let state: Mutex<State>

    init(_ body: HTTPBody, meter: HTTPMeter, pool: BlockingPool) {
        byteCount = body.byteCount
        state = Mutex(State(body: body))
        self.meter = meter
        self.pool = pool
        if body.byteCount > 0 { meter.send(allowing: answerAllowance) }
    }

    /// Why the body could not be read; the HTTP client reports it as a failure of its own.
    var failure: CloudFSError? { state.withLock { $0.failure } }

    /// Lets go of the body.
    ///
    /// The HTTP client keeps who sends one for ever where the answer came before the body was sent.
    func end() {
        state.withLock { state in
            state.body = nil
            state.unsent = ByteBuffer()
        }
    }

    private func currentBody() throws -> HTTPBody {
        guard let body = state.withLock({ $0.body }) else { throw CancellationError() }
        return body
    }

    /// The time for the answer's first byte, during which the last of the body still travels.
    private var answerAllowance: Duration {
        meter.limits.firstByte + Self.time(for: min(byteCount, Self.heldByteCount))
    }

    private static func time(for byteCount: Int64) -> Duration {
        .milliseconds(byteCount * 1_000 / slowestRate)
    }

    /// What the HTTP client is given; a small body as a whole, which costs it less.
    func wireBody() async throws -> HTTPClientRequest.Body? {
        let body = try currentBody()
        if case .none = body { return nil }
        guard byteCount <= Self.pieceByteCount else {
            return .stream(Pieces(outgoing: self), length: .known(byteCount))
        }
        let count = try await nextByteCount(after: 0)
        guard count > 0 else { return .bytes(ByteBuffer()) }
        let bytes = try await read(at: 0)
        _ = try await nextByteCount(after: byteCount)
        return .bytes(bytes)
    }

    private struct Pieces: AsyncSequence, Sendable {
        typealias Element = ByteBuffer

        let outgoing: HTTPOutgoing

        func makeAsyncIterator() -> Iterator { Iterator(outgoing: outgoing) }

        struct Iterator: AsyncIteratorProtocol {
            let outgoing: HTTPOutgoing
            var sent: Int64 = 0

            mutating func next() async throws -> ByteBuffer? {
                guard let piece = try await outgoing.piece(after: sent) else { return nil }
                sent += Int64(piece.readableBytes)
                return piece
            }
        }
    }

    /// The piece after `sent` bytes, once it may be sent; `nil` at the end.
    private func piece(after sent: Int64) async throws -> ByteBuffer? {
        let count = try await nextByteCount(after: sent)
        guard count > 0 else { return nil }
        if state.withLock({ $0.unsent.readableBytes == 0 }) {
            let bytes = try await read(at: sent)
            state.withLock { $0.unsent = bytes }
        }
        // A copy: a slice would keep all that was read at once.
        return state.withLock { state in
            let length = min(count, state.unsent.readableBytes)
            return state.unsent.readBytes(length: length).map { ByteBuffer(bytes: $0) }
        }
    }

    /// How long the piece after `sent` bytes is, once it may be sent; 0 at the end.
    private func nextByteCount(after sent: Int64) async throws -> Int {
        let body = try currentBody()
        if case .file(_, _, _, _, let didSend, _) = body, sent > 0 { didSend(sent) }
        let left = byteCount - sent
        guard left > 0 else {
            meter.send(allowing: answerAllowance)
            return 0
        }
        meter.send(allowing: meter.limits.idle + Self.time(for: min(left, Self.waitingByteCount)))
        let count = Int(min(left, Self.pieceByteCount))
        guard case .file(_, _, _, let willSend, _, _) = body else { return count }
        try await offTheNetwork { try await willSend(count) }
        return count
    }

    /// The bytes that come after the first `sent`, as many as are read at once.
    private func read(at sent: Int64) async throws -> ByteBuffer {
        switch try currentBody() {
        case .none: return ByteBuffer()
        case .bytes(let bytes):
            return ByteBuffer(bytes: bytes[Int(sent)...].prefix(Int(Self.pieceByteCount)))
        case .file(let descriptor, let offset, let byteCount, _, _, let witness):
            let count = Int(min(byteCount - sent, Self.readByteCount))
            return try await offTheNetwork { [pool] in
                try await pool.run {
                    let bytes = try HTTPBody.read(descriptor, at: offset + sent, byteCount: count)
                    try witness?.see(bytes, at: sent)
                    return bytes
                }
            }
        }
    }

    /// Does work of this machine whose time the server is not blamed for, and keeps its failure.
    private func offTheNetwork<Value: Sendable>(
        _ work: () async throws -> Value
    ) async throws -> Value {
        meter.pause()
        defer { meter.resume() }
        do {
            return try await work()
        } catch {
            let failure =
                error as? CloudFSError
                ?? CloudFSError(.internalFailure, "a file could not be read", cause: error)
            state.withLock { $0.failure = $0.failure ?? failure }
            throw failure
        }
    }
}
