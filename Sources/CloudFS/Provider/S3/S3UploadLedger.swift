import Foundation
import Logging
import Synchronization

/// Which multipart uploads this drive has begun, so that a crash does not lose what was sent.
///
/// A small file in the state directory, written whole and put in place by a rename. All it does is
/// save work: on a full disk, where sending is what makes room, it is kept in memory until it can
/// be written again.
final class S3UploadLedger: Sendable {
    struct Upload: Codable, Sendable, Equatable {
        var id: String
        var partByteCount: Int64
        var metadata: [String: String]
        /// When it was begun or gone on with last, in seconds since 1970; `nil`: long ago.
        var touched: Int64?
    }

    private struct State {
        /// `nil` until the file was read.
        var entries: [String: Upload]?
        /// Whether the file lacks something, as it could not be written.
        var isUnstored = false
    }

    private let path: String?
    private let pool: BlockingPool
    private let logger: Logger
    /// Locked on threads of the pool only.
    private let state = Mutex(State())
    /// Keys whose upload is going on, and how often.
    private let active = Mutex<[[UInt8]: Int]>([:])

    /// - Parameters:
    ///   - path: Of the file; `nil`: nothing is kept.
    ///   - pool: Where the file is read and written.
    ///   - logger: Hears when it cannot be written.
    init(path: String?, pool: BlockingPool, logger: Logger) {
        self.path = path
        self.pool = pool
        self.logger = logger
    }

    func upload(of key: [UInt8]) async throws(CloudFSError) -> Upload? {
        try await change { $0[Self.name(key)] }
    }

    func note(_ key: [UInt8], _ entry: Upload) async throws(CloudFSError) {
        try await change { $0[Self.name(key)] = entry }
    }

    /// Forgets an upload unless another one was begun meanwhile.
    func forget(_ key: [UInt8], _ upload: Upload) async throws(CloudFSError) {
        try await change { entries in
            if entries[Self.name(key)] == upload { entries[Self.name(key)] = nil }
        }
    }

    /// The keys of all uploads that were begun and not ended.
    func keys() async throws(CloudFSError) -> [[UInt8]] {
        try await change { $0.keys.compactMap { URIEncoding.decode($0.utf8) } }
    }

    // MARK: - Uploads that nobody goes on with

    /// The upload of this key goes on from now on, or does no longer.
    func setActive(_ isActive: Bool, _ key: [UInt8]) {
        active.withLock { active in
            let count = active[key, default: 0] + (isActive ? 1 : -1)
            active[key] = count > 0 ? count : nil
        }
    }

    func isActive(_ key: [UInt8]) -> Bool { active.withLock { $0[key] != nil } }

    /// The uploads that nobody has gone on with since a moment.
    func abandoned(since moment: Timestamp) async throws(CloudFSError) -> [[UInt8]: Upload] {
        let all = try await change { $0 }
        var abandoned: [[UInt8]: Upload] = [:]
        for (name, upload) in all where (upload.touched ?? 0) < moment.seconds {
            guard let key = URIEncoding.decode(name.utf8) else { continue }
            if active.withLock({ $0[key] == nil }) { abandoned[key] = upload }
        }
        return abandoned
    }

    private static func name(_ key: [UInt8]) -> String {
        URIEncoding.encode(key, keepingSlash: true)
    }

    // MARK: - The file

    private func change<Value: Sendable>(
        _ body: @escaping @Sendable (inout [String: Upload]) -> Value
    ) async throws(CloudFSError) -> Value {
        do {
            return try await pool.run { [self] in
                let (value, failure) = try state.withLock { try apply(body, to: &$0) }
                if let failure { tell(failure) }
                return value
            }
        } catch {
            throw CloudFSError(
                .internalFailure,
                "the list of uploads under way cannot be read",
                cause: error
            )
        }
    }

    /// - Returns: With why the list could not be stored, if it could before.
    private func apply<Value: Sendable>(
        _ body: (inout [String: Upload]) -> Value,
        to state: inout State
    ) throws -> (value: Value, failure: (any Error)?) {
        var entries = try state.entries ?? load()
        let before = entries
        let value = body(&entries)
        state.entries = entries
        guard entries != before || state.isUnstored else { return (value, nil) }
        let wasUnstored = state.isUnstored
        do {
            try store(entries)
            state.isUnstored = false
            return (value, nil)
        } catch {
            state.isUnstored = true
            return (value, wasUnstored ? nil : error)
        }
    }

    private func tell(_ failure: any Error) {
        logger.warning(
            "the list of uploads under way cannot be written; until it can, a crash loses it",
            metadata: ["error": "\(failure)"]
        )
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

    func append(_ piece: ContentPiece) {
        bytes.withLock { $0 += piece.bytes }
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
