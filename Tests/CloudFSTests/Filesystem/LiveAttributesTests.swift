import Glibc
import Testing

@testable import CloudFS

/// What is told of files that are written while somebody looks.
struct LiveAttributesTests {
    /// A listing reads its records first, and then looks at each file that is in use.
    @Test func `a file that is let go of after its record was read is as long as it is`()
        async throws
    {
        let drive = try await QuietDrive()
        let filesystem = drive.filesystem
        let (entry, opened) = try filesystem.createFile(
            try ItemName("written"),
            in: .root,
            permissions: 0o644,
            flags: O_WRONLY | O_CREAT,
            caller: QuietDrive.caller
        )
        let id = entry.attributes.id
        let bytes: [UInt8] = [1, 2, 3]
        _ = try filesystem.write(
            opened.handle,
            offset: 0,
            count: bytes.count,
            caller: QuietDrive.caller
        ) { file, offset, count throws(CloudFSError) in
            pwrite(file.descriptor, bytes, count, off_t(offset))
        }
        let record = try filesystem.catalog.read { try $0.existing(id) }
        #expect(record.item.size == 0)
        #expect(filesystem.attributes(of: record).size == 3)
        try filesystem.flush(opened.handle, lockOwner: 0)
        filesystem.release(opened.handle, lockOwner: 0, releasesFlock: false)
        #expect(filesystem.attributes(of: record).size == 3)
    }
}
