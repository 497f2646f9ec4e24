import CloudFSControlAPI
import Testing

@testable import CloudFS

/// What watchers of a drive hear where not all can be told.
@Suite struct DriveNewsTests {
    private static func story(_ path: String?) -> DriveNews.Story {
        DriveNews.Story(
            event: DriveEvent(.vanished, path: path.flatMap { DrivePath(text: $0) }),
            item: ItemID(7),
            folders: []
        )
    }

    @Test func `what vanished with its folder is one overflow, however many pieces it comes in`() {
        var telling = DriveNews.Telling()
        let (lost, known) = (Self.story(nil), Self.story("a"))
        #expect(telling.events(of: [known]).map(\.kind) == [.vanished])
        #expect(telling.events(of: [lost, known]).map(\.kind) == [.vanished, .overflow])
        #expect(telling.events(of: [lost, lost]).isEmpty)
        #expect(telling.events(of: []).isEmpty)
        #expect(telling.events(of: [lost]).isEmpty)
        #expect(telling.events(of: [known]).map(\.kind) == [.vanished])
        #expect(telling.events(of: [lost]).map(\.kind) == [.overflow])
    }

    /// Whoever looked after the first one has not seen what came then.
    @Test func `each time that too much happens at once is told`() {
        var telling = DriveNews.Telling()
        let much = Array(repeating: Self.story("a"), count: DriveNews.mostAtOnce + 1)
        for _ in 0..<3 { #expect(telling.events(of: much).map(\.kind) == [.overflow]) }
        #expect(telling.events(of: [Self.story(nil)]).isEmpty)
        #expect(telling.events(of: much).map(\.kind) == [.overflow])
    }
}
