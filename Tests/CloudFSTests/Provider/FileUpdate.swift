import Glibc
import Testing

/// A file that a foreign program has open for writing, and rewrites in place.
final class FileUpdate: Sendable {
    let descriptor: Int32

    init(_ path: String) throws {
        descriptor = open(path, O_WRONLY | O_CLOEXEC)
        try #require(descriptor >= 0, "cannot open \(path)")
    }

    func write(_ bytes: [UInt8], at offset: Int64 = 0) throws {
        let count = pwrite(descriptor, bytes, bytes.count, off_t(offset))
        try #require(count == bytes.count)
    }

    deinit {
        close(descriptor)
    }
}
