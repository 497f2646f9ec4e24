import Foundation
import Synchronization

/// Which multipart uploads this drive has begun, so that a crash does not lose what was sent.
///
/// A small file in the state directory, written whole and put in place by a rename.
final class S3UploadLedger: Sendable {
    struct Upload: Codable, Sendable, Equatable {
        var id: String
        var partByteCount: Int64
        var metadata: [String: String]
    }

    private let path: String?
    private let entries = Mutex<[String: Upload]?>(nil)

    init(path: String?) {
        self.path = path
    }

    func upload(of key: [UInt8]) throws(CloudFSError) -> Upload? {
        try change { $0[Self.name(key)] }
    }

    func note(_ key: [UInt8], _ entry: Upload) throws(CloudFSError) {
        try change { $0[Self.name(key)] = entry }
    }

    func forget(_ key: [UInt8]) throws(CloudFSError) {
        try change { $0[Self.name(key)] = nil }
    }

    /// The keys of all uploads that were begun and not ended.
    func keys() throws(CloudFSError) -> [[UInt8]] {
        try change { $0.keys.compactMap { URIEncoding.decode($0.utf8) } }
    }

    private static func name(_ key: [UInt8]) -> String {
        URIEncoding.encode(key, keepingSlash: true)
    }

    private func change<Value: Sendable>(
        _ body: (inout [String: Upload]) -> Value
    ) throws(CloudFSError) -> Value {
        do {
            return try entries.withLock { entries in
                var current = try entries ?? load()
                let before = current
                let value = body(&current)
                if current != before { try store(current) }
                entries = current
                return value
            }
        } catch {
            throw CloudFSError(
                .internalFailure,
                "the list of uploads under way cannot be read or written",
                cause: error
            )
        }
    }

    private func load() throws -> [String: Upload] {
        guard let path, FileManager.default.fileExists(atPath: path) else { return [:] }
        let bytes = try Data(contentsOf: URL(filePath: path))
        // Unreadable after a power failure: the uploads are begun again, nothing more.
        return (try? JSONDecoder().decode([String: Upload].self, from: bytes)) ?? [:]
    }

    private func store(_ entries: [String: Upload]) throws {
        guard let path else { return }
        try JSONEncoder().encode(entries).write(to: URL(filePath: path), options: .atomic)
    }
}

/// Bytes that arrive in pieces.
final class S3Bytes: Sendable {
    private let bytes = Mutex<[UInt8]>([])

    func append(_ piece: [UInt8]) {
        bytes.withLock { $0 += piece }
    }

    var all: [UInt8] { bytes.withLock { $0 } }
}

/// How much of all parts of an upload was sent.
final class S3Progress: Sendable {
    private let sent = Mutex<[Int: Int64]>([:])
    private let report: @Sendable (Int64) -> Void

    init(_ report: @escaping @Sendable (Int64) -> Void) {
        self.report = report
    }

    /// Notes how much of one part was sent so far.
    func add(_ part: Int, _ byteCount: Int64) {
        let total = sent.withLock { sent in
            sent[part] = byteCount
            return sent.values.reduce(0, +)
        }
        report(total)
    }
}
