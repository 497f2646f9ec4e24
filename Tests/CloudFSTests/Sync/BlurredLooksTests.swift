import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Who waits for what the cloud has now gets it, also if another device's change is heard of while
/// the cloud is asked.
struct BlurredLooksTests {
    private let drive: QuietDrive
    private let document: ItemID

    init() async throws {
        drive = try await QuietDrive(inCloud: ["folder/document", "folder/other"])
        let filesystem = drive.filesystem
        let folder = try #require(
            try filesystem.catalog.read { try $0.item(at: [Array("folder".utf8)])?.id }
        )
        try await filesystem.ensureListed(folder, within: .seconds(10))
        let names = ["folder", "document"].map { Array($0.utf8) }
        document = try #require(try filesystem.catalog.read { try $0.item(at: names)?.id })
        drive.cloud.resetCounts()
    }

    /// How many bytes the file has, as far as the drive knows.
    private var size: Int64 {
        get throws { try drive.filesystem.catalog.read { try $0.existing(document).item.size } }
    }

    /// Does `work` while the cloud is asked, and has it hear then that another device wrote.
    private func hearing(
        during operation: FaultyProvider.Operation,
        _ work: @escaping @Sendable () async throws -> Void
    ) async throws {
        try drive.writeInCloud("newer", to: "folder/document")
        drive.cloud.hang([operation])
        async let done: Void = work()
        await drive.cloud.waitForCall(of: operation)
        drive.filesystem.feed.applier.mutations.noteWrittenElsewhere(document)
        drive.cloud.release()
        try await done
    }

    @Test func `a look at a document is repeated until it is clear, and lists nothing`()
        async throws
    {
        let (feed, document) = (drive.filesystem.feed, document)
        try await hearing(during: .item) { try await feed.bringUpToDate(document) }
        #expect(try size == 5)
        #expect(drive.cloud.count(of: .item) == 2)
        #expect(drive.cloud.count(of: .children) == 0)
    }

    @Test func `a folder is listed until what is in it is clear`() async throws {
        let (filesystem, document) = (drive.filesystem, document)
        let folder = try #require(
            try filesystem.catalog.read { try $0.base(of: document)?.parent }
        )
        try await hearing(during: .children) { try await filesystem.feed.compare(folder) }
        #expect(try size == 5)
        #expect(drive.cloud.count(of: .children) == 2)
    }

    @Test func `a document that is elsewhere is looked for in its folder`() async throws {
        let (filesystem, document) = (drive.filesystem, document)
        drive.moveInCloud("folder/document", to: "folder/renamed")
        drive.moveInCloud("folder/other", to: "folder/document")
        try await filesystem.feed.bringUpToDate(document)
        let name = try filesystem.catalog.read { try $0.name(of: document)?.name }
        #expect(name == Array("renamed".utf8))
    }

    @Test func `a look that is answered late does not undo what a listing has shown since`()
        async throws
    {
        let (filesystem, document) = (drive.filesystem, document)
        let folder = try #require(
            try filesystem.catalog.read { try $0.base(of: document)?.parent }
        )
        try drive.writeInCloud("newer", to: "folder/document")
        drive.cloud.hang([.item], .after)
        async let done: Void = filesystem.feed.bringUpToDate(document)
        try await eventually("it is answered") { drive.cloud.hangingCount == 1 }
        try drive.writeInCloud("newest of all", to: "folder/document")
        try await filesystem.feed.refresh(folder)
        #expect(try size == 13)
        drive.cloud.release()
        try await done
        #expect(try size == 13)
        #expect(drive.cloud.count(of: .item) == 2)
    }

    @Test func `a cloud out of reach is told`() async throws {
        drive.cloud.isOffline = true
        await #expect(throws: CloudFSError.self) {
            try await drive.filesystem.feed.bringUpToDate(document)
        }
    }
}
