import Crypto
import NIOCore

/// The bytes of an object: kept, or made up again whenever they are asked for.
enum FakeS3Content: Sendable {
    case bytes(ByteBuffer)
    case synthetic(byteCount: Int64)

    static let empty = FakeS3Content.bytes(ByteBuffer())

    init(_ text: String) {
        self = .bytes(ByteBuffer(string: text))
    }

    var byteCount: Int64 {
        switch self {
        case .bytes(let buffer): Int64(buffer.readableBytes)
        case .synthetic(let byteCount): byteCount
        }
    }

    /// The bytes of `range`, which lies within the content.
    func piece(_ range: Range<Int64>) -> ByteBuffer {
        switch self {
        case .bytes(let buffer):
            return buffer.getSlice(
                at: buffer.readerIndex + Int(range.lowerBound),
                length: range.count
            ) ?? ByteBuffer()
        case .synthetic:
            return ByteBuffer(bytes: SyntheticContent.bytes(range))
        }
    }

    var allBytes: [UInt8] {
        Array(piece(0..<byteCount).readableBytesView)
    }
}

/// What objects of a synthetic bucket contain.
public enum SyntheticContent {
    /// Prime, so that no power of two is a period and bytes at a wrong offset are noticed.
    private static let period = 65_521
    private static let block: [UInt8] = {
        var random = SeededRandom(seed: 65_521)
        return (0..<period).map { _ in UInt8.random(in: 0...255, using: &random) }
    }()

    /// The bytes that every synthetic object has there.
    public static func bytes(_ range: Range<Int64>) -> [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(range.count)
        var offset = Int(range.lowerBound)
        while offset < Int(range.upperBound) {
            let start = offset % period
            let count = min(period - start, Int(range.upperBound) - offset)
            bytes.append(contentsOf: block[start..<(start + count)])
            offset += count
        }
        return bytes
    }
}

/// The digests that S3 makes of bytes.
enum FakeS3Digest {
    static func md5(_ buffer: ByteBuffer) -> [UInt8] {
        var hash = Insecure.MD5()
        buffer.withUnsafeReadableBytes { hash.update(bufferPointer: $0) }
        return Array(hash.finalize())
    }

    static func md5(_ bytes: [UInt8]) -> [UInt8] {
        Array(Insecure.MD5.hash(data: bytes))
    }

    static func sha256(_ buffer: ByteBuffer) -> String {
        var hash = SHA256()
        buffer.withUnsafeReadableBytes { hash.update(bufferPointer: $0) }
        return FakeS3Encoding.hex(hash.finalize())
    }
}
