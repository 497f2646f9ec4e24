import CloudFSControlAPI
import Foundation
import Synchronization
import Testing

@testable import CloudFS
@testable import CloudFSClient

/// What presenters of this process hear when a drive gets another daemon.
@Suite(.timeLimit(.minutes(10))) struct PresenterRegistryTests {
    /// A presenter that tells what it hears.
    private final class Editor: FilePresenter {
        let heard: AsyncStream<String>
        private let inbox: AsyncStream<String>.Continuation
        private let place = Mutex(URL(filePath: "/mnt/drive/doc"))
        /// Where it moves its item when it is to save.
        private let target: URL?

        init(movingTo target: URL? = nil) {
            (heard, inbox) = AsyncStream.makeStream(of: String.self)
            self.target = target
        }

        var presentedItemURL: URL { place.withLock { $0 } }

        func relinquishPresentedItem(to access: FileAccess) async throws {
            inbox.yield("relinquish")
        }

        func reacquirePresentedItem() async { inbox.yield("reacquire") }
        func savePresentedItemChanges() async throws {
            if let target { place.withLock { $0 = target } }
            inbox.yield("save")
        }

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

    @Test(arguments: [(true, "moved"), (false, "doc")])
    func `regression: a presenter that has moved its item is there with another daemon`(
        isFound: Bool,
        expected: String
    ) async throws {
        let folder = try SocketFolder()
        let drive = FakeDrive()
        drive.state.withLock { $0.presentations = [[.saveChanges]] }
        let editor = Editor(movingTo: URL(filePath: "/mnt/drive/moved"))
        try await withServer(drive, in: folder) { client, _ in
            let address = client.drive
            let registry = PresenterRegistry { path in
                guard isFound, path == "/mnt/drive/moved" else {
                    throw DriveClientError.notInDrive(path: path)
                }
                return DriveLocator.Location(drive: address, path: try drivePath("moved"))
            }
            let place = DriveLocator.Location(drive: address, path: try drivePath("doc"))
            try await registry.add(editor, at: place)
            defer { registry.remove(editor) }
            for await word in editor.heard where word == "changed" { break }
        }
        #expect(drive.calls == ["present doc", "present \(expected)"])
    }
}
