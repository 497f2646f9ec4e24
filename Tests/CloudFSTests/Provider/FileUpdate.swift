import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

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

/// Foreign programs' work, on threads that may block: tests share two with everything else.
enum ForeignWork {
    private static let pool = BlockingPool(name: "foreign", width: 4)

    static func run<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await pool.run(work)
    }

    /// Makes empty files named by their numbers in a folder, which is made too.
    static func makeFiles(
        _ count: Int,
        in folder: String,
        of directory: TemporaryDirectory
    )
        async throws
    {
        try await run {
            if !directory.exists(folder) { try directory.makeFolder(folder) }
            for number in 0..<count {
                let file = creat(directory.path("\(folder)/\(number)"), 0o600)
                try #require(file >= 0)
                close(file)
            }
        }
    }
}
