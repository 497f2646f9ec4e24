import CloudFSTestSupport
import Foundation
import Logging
import Testing

@testable import CloudFS

@Suite struct S3UploadLedgerTests {
    private static let pool = BlockingPool(name: "ledger-tests", width: 2)
    private static let entry = S3UploadLedger.Upload(
        id: "upload",
        partByteCount: 5 << 20,
        metadata: ["mtime": "1"]
    )

    private static func ledger(
        _ path: String?,
        _ log: RecordingLog = RecordingLog()
    ) -> S3UploadLedger {
        S3UploadLedger(path: path, pool: pool, logger: Logger(label: "ledger-tests") { _ in log })
    }

    @Test func `what was noted is known to the next`() async throws {
        let directory = try TemporaryDirectory()
        let key: [UInt8] = [0x61, 0, 0xff, 0x2f, 0x25]
        let ledger = Self.ledger(directory.path("uploads"))
        try await ledger.note(key, Self.entry)
        try await ledger.note([1], Self.entry)
        try await ledger.forget([1], Self.entry)
        let next = Self.ledger(directory.path("uploads"))
        #expect(try await next.upload(of: key) == Self.entry)
        #expect(try await next.keys() == [key])
        #expect(try await next.upload(of: [1]) == nil)
    }

    @Test(arguments: ["", "{", "[]", "{\"a\":1}", "\u{0}\u{0}", "{\"%zz\":null}"])
    func `a damaged file counts as empty`(text: String) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Array(text.utf8), to: "uploads")
        let ledger = Self.ledger(directory.path("uploads"))
        #expect(try await ledger.keys().isEmpty)
        try await ledger.note([1], Self.entry)
        #expect(try await Self.ledger(directory.path("uploads")).keys() == [[1]])
    }

    /// On a full disk sending is what makes room.
    @Test func `what cannot be stored is kept, and stored with the next change that can be`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let path = directory.path("folder/uploads")
        let log = RecordingLog(from: .warning)
        let ledger = Self.ledger(path, log)
        try await ledger.note([1], Self.entry)
        try await ledger.note([2], Self.entry)
        #expect(try await ledger.upload(of: [1]) == Self.entry)
        #expect(log.messages.count == 1)
        try directory.makeFolder("folder")
        try await ledger.note([3], Self.entry)
        #expect(try await Self.ledger(path).keys().count == 3)
        try directory.remove("folder")
        try await ledger.forget([1], Self.entry)
        #expect(try await ledger.keys().count == 2)
        #expect(log.messages.count == 2)
    }

    @Test func `a list that cannot be read is an error, not a loss`() async throws {
        let directory = try TemporaryDirectory()
        try directory.makeFolder("uploads")
        let ledger = Self.ledger(directory.path("uploads"))
        let error = await #expect(throws: CloudFSError.self) {
            try await ledger.note([1], Self.entry)
        }
        #expect(error?.code == .internalFailure)
    }

    @Test func `without a file it remembers while it lives`() async throws {
        let ledger = Self.ledger(nil)
        try await ledger.note([1], Self.entry)
        #expect(try await ledger.upload(of: [1]) == Self.entry)
    }

    @Test func `many at once lose nothing`() async throws {
        let directory = try TemporaryDirectory()
        let ledger = Self.ledger(directory.path("uploads"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 as Range<UInt8> {
                group.addTask { try await ledger.note([number], Self.entry) }
            }
            try await group.waitForAll()
        }
        #expect(try await Self.ledger(directory.path("uploads")).keys().count == 50)
    }
}
