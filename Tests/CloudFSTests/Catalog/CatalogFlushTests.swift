import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// Flushes of the catalog's log, and what follows one that failed.
@Suite struct CatalogFlushTests {
    @Test func `after a flush that failed the log is written anew, once`() throws {
        let directory = try TemporaryDirectory()
        let (log, link) = (directory.path("log"), directory.path("link"))
        // Two and a half steps of its writing.
        let bytes = (0..<2_621_440).map { UInt8(truncatingIfNeeded: $0 &* 31) }
        let file = open(log, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        defer { close(file) }
        try ContentFile(descriptor: dup(file)).write(bytes[...], at: 0)
        let flush = CatalogFlush(ofLog: link)
        var countAlone = 0
        let alone = { (body: () throws -> Void) in
            countAlone += 1
            try body()
        }
        // No log: all is in the database.
        try flush.run(alone: alone)
        // What has no disk cannot be flushed.
        #expect(symlink("/dev/null", link) == 0)
        for _ in 1...2 {
            let error = #expect(throws: CloudFSError.self) { try flush.run(alone: alone) }
            #expect(error?.message.contains("cannot be flushed") == true)
        }
        #expect(countAlone == 1)
        #expect(unlink(link) == 0 && symlink(log, link) == 0)
        try flush.run(alone: alone)
        #expect(countAlone == 2)
        try flush.run(alone: alone)
        #expect(countAlone == 2)
        let content = ContentFile(descriptor: dup(file))
        #expect(try content.facts().size == Int64(bytes.count))
        #expect(try content.read(at: 0, count: bytes.count) == bytes)
    }
}
