import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// The paths that programs wait for most often, each as the kernel's request takes it.
@Suite(.serialized, .timeLimit(.minutes(10))) struct MicroBenchmarks {
    let drive: QuietDrive

    init() async throws {
        drive = try await QuietDrive()
    }

    @Test func `looking a name up`() throws {
        let name = try ItemName("file100")
        try Stopwatch.measure("lookup") { _ in
            drive.answer("lookup") { files throws(CloudFSError) in
                try files.lookup(name, in: .root).map { .lookup($0) }
            }
        }
    }

    @Test func `attributes of an item`() throws {
        try Stopwatch.measure("getattr") { _ in
            drive.answer("getattr") { files throws(CloudFSError) in
                .ready(.attributes(try files.attributes(of: drive.file, handle: nil)))
            }
        }
    }

    @Test func `replying to a read of local bytes`() throws {
        let opened = try drive.filesystem.openNow(
            drive.file,
            flags: O_RDONLY,
            caller: QuietDrive.caller
        )
        defer { drive.filesystem.release(opened.handle) }
        try Stopwatch.measure("read reply") { number in
            let offset = Int64(number % 16) << 12
            drive.answer("read") { files throws(CloudFSError) in
                try files.read(opened.handle, offset: offset, count: 4_096, by: 0)
                    .map { .content($0) }
            }
        }
        #expect(drive.failures == 0)
    }

    @Test func `a page of a folder with attributes`() throws {
        let handle = try drive.filesystem.handles.add(folder: .root)
        defer { drive.filesystem.releaseFolder(handle) }
        var count = 0
        try Stopwatch.measure("readdirplus, \(QuietDrive.fileCount) entries") { _ in
            var buffer = DirectoryBuffer(capacity: 128 << 10, withAttributes: true)
            count = 0
            try drive.filesystem.readFolder(handle, offset: 0, withAttributes: true) { entry in
                count += 1
                return buffer.append(entry)
            }
        }
        #expect(count == QuietDrive.fileCount + 2)
    }

    @Test func `ranges of a file`() throws {
        var ranges = ByteRangeSet((0..<1_000).map { Int64($0) << 14..<(Int64($0) << 14) + 4_096 })
        let before = ranges
        try Stopwatch.measure("range set of 1,000: add, ask, remove") { number in
            let start = Int64(number % 1_000) << 14 + 8_192
            ranges.insert(start..<start + 4_096)
            _ = ranges.firstMissing(from: start, limit: start + 16_384)
            ranges.remove(start..<start + 4_096)
        }
        #expect(ranges == before)
    }

    @Test func `queries of the catalog`() throws {
        let catalog = drive.filesystem.catalog
        let name = Array("file100".utf8)
        try Stopwatch.measure("catalog: item") { _ in
            _ = try catalog.readFew { try $0.existing(drive.file) }
        }
        try Stopwatch.measure("catalog: child by name") { _ in
            _ = try catalog.readFew { try $0.child(name, of: .root) }
        }
        try Stopwatch.measure("catalog: page of 128 children") { _ in
            _ = try catalog.read { try $0.children(of: .root, after: 0, limit: 128) }
        }
    }

    @Test func `a claim, alone and among others`() throws {
        let coordinator = Coordinator()
        try Stopwatch.measure("claim, alone") { number in
            let item = ItemID(Int64(number % 100))
            try coordinator.tryClaim([.writing(item)], by: .plain(1)).end()
        }
        let others = try (0..<1_000).map { number in
            try coordinator.tryClaim(
                [.reading(ItemID(Int64(number % 100)))],
                by: Claimant(.program("\(number)"))
            )
        }
        try Stopwatch.measure("claim, among 1,000 held") { number in
            let item = ItemID(Int64(number % 100))
            try coordinator.tryClaim([.reading(item)], by: .plain(1)).end()
        }
        #expect(coordinator.shown.count == others.count)
    }

    @Test func `attributes with names`() throws {
        let filesystem = drive.filesystem
        try filesystem.setAttribute(
            "user.own",
            to: Array("value".utf8),
            of: drive.file,
            flags: 0,
            caller: QuietDrive.caller
        )
        for name in ["user.cloudfs.status", "user.own"] {
            try Stopwatch.measure("getxattr \(name)") { _ in
                drive.answer("getxattr") { files throws(CloudFSError) in
                    .ready(.value(try files.attribute(name, of: drive.file), capacity: 256))
                }
            }
        }
        #expect(drive.failures == 0)
    }

    @Test func `a file that is made, closed and removed`() throws {
        let filesystem = drive.filesystem
        try Stopwatch.measure("create, close, unlink") { number in
            let name = try ItemName("new\(number)")
            let (_, opened) = try filesystem.createFile(
                name,
                in: .root,
                permissions: 0o644,
                flags: O_WRONLY | O_CREAT,
                caller: QuietDrive.caller
            )
            try filesystem.flush(opened.handle, lockOwner: 0)
            filesystem.release(opened.handle)
            try filesystem.removeFile(name, from: .root, caller: QuietDrive.caller)
        }
    }
}
