import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

@Suite struct S3UploadLedgerTests {
    private static let entry = S3UploadLedger.Upload(
        id: "upload",
        partByteCount: 5 << 20,
        metadata: ["mtime": "1"]
    )

    @Test func `what was noted is known to the next`() throws {
        let directory = try TemporaryDirectory()
        let key: [UInt8] = [0x61, 0, 0xff, 0x2f, 0x25]
        let ledger = S3UploadLedger(path: directory.path("uploads"))
        try ledger.note(key, Self.entry)
        try ledger.note([1], Self.entry)
        try ledger.forget([1])
        let next = S3UploadLedger(path: directory.path("uploads"))
        #expect(try next.upload(of: key) == Self.entry)
        #expect(try next.keys() == [key])
        #expect(try next.upload(of: [1]) == nil)
    }

    @Test(arguments: ["", "{", "[]", "{\"a\":1}", "\u{0}\u{0}", "{\"%zz\":null}"])
    func `a damaged file counts as empty`(text: String) throws {
        let directory = try TemporaryDirectory()
        try directory.write(Array(text.utf8), to: "uploads")
        let ledger = S3UploadLedger(path: directory.path("uploads"))
        #expect(try ledger.keys().isEmpty)
        try ledger.note([1], Self.entry)
        #expect(try S3UploadLedger(path: directory.path("uploads")).keys() == [[1]])
    }

    @Test func `a folder that is gone is an error, not a loss`() throws {
        let directory = try TemporaryDirectory()
        let ledger = S3UploadLedger(path: directory.path("none/uploads"))
        let error = #expect(throws: CloudFSError.self) { try ledger.note([1], Self.entry) }
        #expect(error?.code == .internalFailure)
        #expect(try ledger.upload(of: [1]) == nil)
    }

    @Test func `without a file it remembers while it lives`() throws {
        let ledger = S3UploadLedger(path: nil)
        try ledger.note([1], Self.entry)
        #expect(try ledger.upload(of: [1]) == Self.entry)
    }

    @Test func `many at once lose nothing`() async throws {
        let directory = try TemporaryDirectory()
        let ledger = S3UploadLedger(path: directory.path("uploads"))
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<50 as Range<UInt8> {
                group.addTask { try ledger.note([number], Self.entry) }
            }
            try await group.waitForAll()
        }
        #expect(try S3UploadLedger(path: directory.path("uploads")).keys().count == 50)
    }
}
