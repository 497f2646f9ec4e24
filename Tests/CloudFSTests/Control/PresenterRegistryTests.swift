import CloudFSControlAPI
import Foundation
import Synchronization
import Testing

@testable import CloudFS
@testable import CloudFSClient

/// What presenters of this process hear when a drive gets another daemon.
@Suite(.timeLimit(.minutes(5))) struct PresenterRegistryTests {
    /// A presenter that tells what it hears.
    private final class Editor: FilePresenter {
        let presentedItemURL = URL(filePath: "/mnt/drive/doc")
        let heard: AsyncStream<String>
        private let inbox: AsyncStream<String>.Continuation

        init() {
            (heard, inbox) = AsyncStream.makeStream(of: String.self)
        }

        func relinquishPresentedItem(to access: FileAccess) async throws {
            inbox.yield("relinquish")
        }

        func reacquirePresentedItem() async { inbox.yield("reacquire") }
        func savePresentedItemChanges() async throws { inbox.yield("save") }
        func presentedItemDidChange() async { inbox.yield("changed") }
    }

    @Test(
        arguments: [
            ([.relinquishToWriter], ["relinquish", "reacquire", "changed"]),
            ([.relinquishToReader, .saveChanges], ["relinquish", "save", "reacquire", "changed"]),
            ([.relinquishToReader, .reacquire], ["relinquish", "reacquire", "changed"]),
            ([.saveChanges], ["save", "changed"]),
        ] as [([PresenterEvent.Kind], [String])]
    )
    func `a presenter that let go of its item has it again with another daemon`(
        told: [PresenterEvent.Kind],
        expected: [String]
    ) async throws {
        let folder = try SocketFolder()
        let drive = FakeDrive()
        drive.state.withLock { $0.presentations = [told] }
        let editor = Editor()
        let registry = PresenterRegistry()
        try await withServer(drive, in: folder) { client, _ in
            let place = DriveLocator.Location(drive: client.drive, path: try drivePath("doc"))
            try await registry.add(editor, at: place)
            defer { registry.remove(editor) }
            var heard: [String] = []
            for await word in editor.heard {
                heard.append(word)
                if word == "changed" { break }
            }
            #expect(heard == expected)
        }
    }
}
