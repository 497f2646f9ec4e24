import Testing

@testable import CloudFS

struct ThumbnailQueueTests {
    /// What passes by is looked at as what nobody has asked for: of that nothing is fetched.
    @Test func `what is asked for while it passes by is asked for all the same`() async throws {
        let drive = try await QuietDrive()
        let thumbnails = drive.filesystem.thumbnails
        thumbnails.notice([drive.file])
        thumbnails.ask(drive.file, wantsBig: false)
        thumbnails.ask(drive.file, wantsBig: false)
        #expect(thumbnails.state.withLock { $0.asked } == [drive.file])
    }
}
