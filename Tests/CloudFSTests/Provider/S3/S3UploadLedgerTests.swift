import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

@Suite struct S3UploadLedgerTests {
    private static let pool = BlockingPool(name: "ledger-tests", width: 2)
    private static let entry = S3UploadLedger.Upload(
        id: "upload",
        partByteCount: 5 << 20,
        metadata: ["mtime": "1"]
    )

    @Test func `what was noted is known to the next`() async throws {
        let directory = try TemporaryDirectory()
        let key: [UInt8] = [0x61, 0, 0xff, 0x2f, 0x25]
        let ledger = S3UploadLedger(path: directory.path("uploads"), pool: Self.pool)
        try await ledger.note(key, Self.entry)
        try await ledger.note([1], Self.entry)
        try await ledger.forget([1])
        let next = S3UploadLedger(path: directory.path("uploads"), pool: Self.pool)
        #expect(try await next.upload(of: key) == Self.entry)
        #expect(try await next.keys() == [key])
        #expect(try await next.upload(of: [1]) == nil)
    }

    @Test(arguments: ["", "{", "[]", "{\"a\":1}", "\u{0}\u{0}", "{\"%zz\":null}"])
    func `a damaged file counts as empty`(text: String) async throws {
        let directory = try TemporaryDirectory()
        try directory.write(Array(text.utf8), to: "uploads")
        let ledger = S3UploadLedger(path: directory.path("uploads"), pool: Self.pool)
        #expect(try await ledger.keys().isEmpty)
        try await ledger.note([1], Self.entry)
        #expect(
            try await S3UploadLedger(path: directory.path("uploads"), pool: Self.pool).keys() == [
                [1]
            ]
        )
    }

    @Test func `a folder that is gone is an error, not a loss`() async throws {
        let directory = try TemporaryDirectory()
        let ledger = S3UploadLedger(path: directory.path("none/uploads"), pool: Self.pool)
        let error = await #expect(throws: CloudFSError.self) {
            try await ledger.note([1], Self.entry)
        }
        #expect(error?.code == .internalFailure)
        #expect(try await ledger.upload(of: [1]) == nil)
    }

    @Test func `without a file it remembers while it lives`() async throws {
        let ledger = S3UploadLedger(path: nil, pool: Self.pool)
        try await ledger.note([1], Self.entry)
        #expect(try await ledger.upload(of: [1]) == Self.entry)
    }

    @Test func `many at once lose nothing`() async throws {
        let directory = try TemporaryDirectory()
        let ledger = S3UploadLedger(path: directory.path("uploads"), pool: Self.pool)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 as Range<UInt8> {
                group.addTask { try await ledger.note([number], Self.entry) }
            }
            try await group.waitForAll()
        }
        #expect(
            try await S3UploadLedger(path: directory.path("uploads"), pool: Self.pool).keys().count
                == 50
        )
    }
}
