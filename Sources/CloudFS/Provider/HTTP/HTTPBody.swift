/// What a request carries.
///
/// A body can be sent more than once: a request that failed is sent again from the beginning.
enum HTTPBody: Sendable {
    case none
    case bytes([UInt8])
    /// A part of an open file, read with `pread`.
    ///
    /// - `willSend` is awaited before each piece of at most 1 MiB; a limit of bandwidth waits here.
    /// - `didSend` hears how many bytes of this body were sent so far; less than before when the
    ///   request is sent again.
    /// - `witness` sees what is read to be sent; the body's MD5 is then that of what was sent.
    case file(
        descriptor: Int32,
        offset: Int64,
        byteCount: Int64,
        willSend: @Sendable (_ byteCount: Int) async throws(CloudFSError) -> Void = { _ in },
        didSend: @Sendable (_ byteCount: Int64) -> Void = { _ in },
        witness: HTTPWitness? = nil
    )

    var byteCount: Int64 {
        switch self {
        case .none: 0
        case .bytes(let bytes): Int64(bytes.count)
        case .file(_, _, let byteCount, _, _, _): byteCount
        }
    }
}
