import Glibc
import Testing

@testable import CloudFS

/// What is told of files that are written while somebody looks.
struct LiveAttributesTests {
    static let bytes: [UInt8] = [1, 2, 3]

    private let drive: QuietDrive
    private var filesystem: Filesystem { drive.filesystem }

    init() async throws {
        drive = try await QuietDrive()
    }

    /// A listing reads its records first, and then looks at each file that is in use.
    @Test func `a file that is let go of after its record was read is as long as it is`() throws {
        let opened = try writtenFile()
        let record = try record(of: opened)
        #expect(record.item.size == 0)
        #expect(filesystem.attributes(of: record).size == 3)
        try filesystem.flush(opened.handle, lockOwner: 0)
        filesystem.release(opened.handle)
        #expect(filesystem.attributes(of: record).size == 3)
    }

    /// Size and times of open files are stored at any moment, by whoever comes to need them.
    @Test func `a time of access that is stored after the record was read is as it was set`() throws
    {
        let opened = try writtenFile()
        let moment = Timestamp(nanoseconds: 5_000_000_001)
        _ = try filesystem.setAttributes(
            AttributeChanges(accessed: .to(moment)),
            of: try record(of: opened).id,
            handle: opened.handle,
            caller: QuietDrive.caller
        )
        let record = try record(of: opened)
        #expect(record.item.accessed != moment)
        #expect(filesystem.attributes(of: record).accessed == moment)
        try filesystem.flush(opened.handle, lockOwner: 0)
        #expect(filesystem.attributes(of: record).accessed == moment)
        #expect(try self.record(of: opened).item.accessed == moment)
    }

    /// Makes a file of three bytes, and leaves it open.
    private func writtenFile() throws -> OpenedFile {
        let (_, opened) = try filesystem.createFile(
            try ItemName("written"),
            in: .root,
            permissions: 0o644,
            flags: O_WRONLY | O_CREAT,
            caller: QuietDrive.caller
        )
        _ = try filesystem.write(
            opened.handle,
            offset: 0,
            count: Self.bytes.count,
            caller: QuietDrive.caller
        ) { file, offset, count throws(CloudFSError) in
            pwrite(file.descriptor, Self.bytes, count, off_t(offset))
        }
        return opened
    }

    private func record(of opened: OpenedFile) throws -> ItemRecord {
        let id = try filesystem.handles.file(opened.handle).file.id
        return try filesystem.catalog.read { try $0.existing(id) }
    }
}
