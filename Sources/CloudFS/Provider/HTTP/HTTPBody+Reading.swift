import Crypto
import Glibc
import NIOCore

extension HTTPBody {
    /// The SHA-256 of the whole body, in small hexadecimal digits.
    func digest(in pool: BlockingPool) async throws(CloudFSError) -> String {
        try await hash(SHA256(), in: pool)
    }

    /// The MD5 of the whole body, in small hexadecimal digits.
    func md5(in pool: BlockingPool) async throws(CloudFSError) -> String {
        if case .file(_, _, _, _, _, let witness?) = self, let md5 = witness.md5 { return md5 }
        return try await hash(Insecure.MD5(), in: pool)
    }

    /// Hashing so many takes a few dozen microseconds.
    private static let fewBytes = 64 << 10

    private func hash(
        _ empty: some HashFunction & Sendable,
        in pool: BlockingPool
    ) async throws(CloudFSError) -> String {
        let body = self
        // Most requests have none or a short one: no thread need be woken for them.
        switch self {
        case .none: return try hash(empty)
        case .bytes(let bytes) where bytes.count <= Self.fewBytes: return try hash(empty)
        default: break
        }
        do {
            return try await pool.run { try body.hash(empty) }
        } catch let error as CloudFSError {
            throw error
        } catch {
            throw CloudFSError(.internalFailure, "a file could not be read", cause: error)
        }
    }

    private func hash(_ empty: some HashFunction) throws(CloudFSError) -> String {
        var hash = empty
        switch self {
        case .none: break
        case .bytes(let bytes): hash.update(data: bytes)
        case .file(let descriptor, let offset, let byteCount, _, _, _):
            var done: Int64 = 0
            while done < byteCount {
                let count = Int(min(byteCount - done, 1 << 20))
                let piece = try Self.read(descriptor, at: offset + done, byteCount: count)
                piece.withUnsafeReadableBytes { hash.update(bufferPointer: $0) }
                done += Int64(count)
            }
        }
        return Hexadecimal.text(hash.finalize())
    }

    /// Reads exactly so many bytes of a file.
    ///
    /// - Throws: `cancelled` when the file ends before; it is no longer what it was.
    static func read(
        _ descriptor: Int32,
        at offset: Int64,
        byteCount: Int
    ) throws(CloudFSError) -> ByteBuffer {
        var buffer = ByteBufferAllocator().buffer(capacity: byteCount)
        var code: Int32 = 0
        while buffer.readableBytes < byteCount {
            let position = offset + Int64(buffer.readableBytes)
            let room = byteCount - buffer.readableBytes
            let count = buffer.writeWithUnsafeMutableBytes(minimumWritableBytes: room) { bytes in
                let count = pread(descriptor, bytes.baseAddress, room, off_t(position))
                code = count < 0 ? errno : 0
                return max(count, 0)
            }
            if code == EINTR { continue }
            guard code == 0 else {
                throw CloudFSError(.internalFailure, "a file to send cannot be read, error \(code)")
            }
            guard count > 0 else {
                throw CloudFSError(.cancelled, "a file became shorter while it was sent")
            }
        }
        return buffer
    }
}
