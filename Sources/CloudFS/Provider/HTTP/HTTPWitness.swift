import Crypto
import NIOCore
import Synchronization

/// Sees the bytes of a file as they are read to be sent, each time all of them in order.
///
/// The file may be another soon after: what the server was given is known here only.
final class HTTPWitness: Sendable {
    private struct State {
        var hash = Insecure.MD5()
        /// How many bytes of this try went into the hash.
        var seen: Int64 = 0
        var md5: String?
    }

    private let byteCount: Int64
    private let approve: @Sendable () throws(CloudFSError) -> Void
    private let state = Mutex(State())

    /// - Parameters:
    ///   - byteCount: The length of the body.
    ///   - approve: Asked once the last byte was read and before it is sent: when it throws the
    ///     body does not arrive whole.
    init(
        byteCount: Int64,
        approve: @escaping @Sendable () throws(CloudFSError) -> Void
    ) {
        self.byteCount = byteCount
        self.approve = approve
        guard byteCount == 0 else { return }
        state.withLock { $0.md5 = Hexadecimal.text($0.hash.finalize()) }
    }

    /// The MD5 of what may have arrived whole, in small hexadecimal digits; `nil` if nothing did.
    var md5: String? { state.withLock { $0.md5 } }

    /// Takes the next piece; one at 0 begins anew.
    func see(_ piece: ByteBuffer, at offset: Int64) throws(CloudFSError) {
        let digest: String? = state.withLock { state in
            if offset == 0 {
                state.hash = Insecure.MD5()
                state.seen = 0
            }
            // A try that was given up may read on for a moment.
            guard offset == state.seen else { return nil }
            piece.withUnsafeReadableBytes { state.hash.update(bufferPointer: $0) }
            state.seen += Int64(piece.readableBytes)
            return state.seen == byteCount ? Hexadecimal.text(state.hash.finalize()) : nil
        }
        guard offset + Int64(piece.readableBytes) == byteCount else { return }
        try approve()
        if let digest { state.withLock { $0.md5 = digest } }
    }
}
