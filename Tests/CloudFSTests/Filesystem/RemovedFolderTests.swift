import Glibc
import Testing

@testable import CloudFS

/// What comes to a folder that is gone, before the kernel has heard of that.
struct RemovedFolderTests {
    private let drive: QuietDrive
    private var filesystem: Filesystem { drive.filesystem }

    init() async throws {
        drive = try await QuietDrive()
    }

    @Test(arguments: [RenameMode.replacing, .noReplace])
    func `nothing is moved into it, and stays where it was`(mode: RenameMode) throws {
        let caller = QuietDrive.caller
        let (folder, file) = (try ItemName("folder"), try ItemName("file"))
        let gone = try filesystem.makeFolder(
            folder,
            in: .root,
            permissions: 0o755,
            caller: caller
        ).attributes.id
        let (_, opened) = try filesystem.createFile(
            file,
            in: .root,
            permissions: 0o644,
            flags: O_WRONLY | O_CREAT,
            caller: caller
        )
        filesystem.release(opened.handle)
        // The cloud has it: its row stays until the removal was sent.
        try filesystem.catalog.write { writer in
            try writer.setBase(
                BaseRecord(
                    item: gone,
                    parent: .root,
                    name: folder.bytes,
                    remoteID: RemoteID("folder"),
                    version: ItemVersion(content: "1", metadata: "1"),
                    size: 0,
                    modified: Timestamp(nanoseconds: 0)
                )
            )
        }
        try filesystem.removeFolder(folder, from: .root, caller: caller)
        let error = #expect(throws: CloudFSError.self) {
            try filesystem.rename(file, in: .root, to: file, in: gone, mode: mode, caller: caller)
        }
        #expect(error?.code == .notFound)
        #expect(try filesystem.catalog.read { try $0.child(file.bytes, of: .root) } != nil)
    }
}
