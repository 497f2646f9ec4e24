import CloudFSTestSupport
import Foundation
import Glibc
import Testing

@testable import CloudFS

/// The file that a package is in the cloud: whatever a tree holds comes back, and nothing else.
@Suite struct PackageArchiveTests {
    private static func scratch() throws -> ContentFile {
        var path = Array("/tmp/cloudfs-archive-XXXXXX".utf8CString)
        let descriptor = mkstemp(&path)
        try #require(descriptor >= 0)
        unlink(path)
        return ContentFile(descriptor: descriptor)
    }

    private static func archive(
        _ entries: [(PackageEntry, [UInt8])]
    ) throws -> ContentFile {
        let file = try scratch()
        let writer = try PackageWriter(to: file.descriptor)
        for (entry, bytes) in entries {
            guard entry.kind == .file else {
                try writer.add(entry)
                continue
            }
            let content = try scratch()
            try content.write(bytes[...], at: 0)
            try writer.add(entry, content: content.descriptor)
        }
        try writer.finish()
        return file
    }

    private static func read(_ file: ContentFile) throws -> [(PackageEntry, [UInt8])] {
        try file.rewind()
        let reader = try PackageReader(of: file.descriptor, size: try file.facts().size)
        var found: [(PackageEntry, [UInt8])] = []
        while let entry = try reader.next() {
            var bytes: [UInt8] = []
            if entry.kind == .file {
                try reader.content(of: entry) { piece, offset throws(CloudFSError) in
                    #expect(Int64(bytes.count) == offset)
                    bytes += piece
                }
            }
            found.append((entry, bytes))
        }
        return found
    }

    private static func entry(_ path: String, size: Int = 0) -> PackageEntry {
        PackageEntry(
            path: path.split(separator: "/").map { Array($0.utf8) },
            kind: .file,
            permissions: 0o644,
            modified: Timestamp(seconds: 1, nanoseconds: 0),
            size: Int64(size)
        )
    }

    /// Random trees, with names of any bytes.
    @Test(arguments: 1...60)
    func `what is put in comes out`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        var entries: [(PackageEntry, [UInt8])] = []
        for index in 0..<Int.random(in: 0...30, using: &random) {
            func bytes(_ count: Int) -> [UInt8] {
                (0..<count).map { _ in UInt8.random(in: 1...255, using: &random) }
                    .map { $0 == UInt8(ascii: "/") ? 65 : $0 }
            }
            let path = (0..<Int.random(in: 1...4, using: &random)).map { _ in
                bytes(Int.random(in: 1...120, using: &random)) + Array("\(index)".utf8)
            }
            let content = bytes(Int.random(in: 0...3_000, using: &random))
            var entry = PackageEntry(
                path: path,
                kind: [.file, .folder, .symlink].randomElement(using: &random) ?? .file,
                permissions: UInt16.random(in: 0...0o777, using: &random),
                modified: Timestamp(
                    seconds: Int64.random(in: 0...4_000_000_000, using: &random),
                    nanoseconds: Int64.random(in: 0...999_999_999, using: &random)
                )
            )
            if entry.kind == .file { entry.size = Int64(content.count) }
            if entry.kind == .symlink {
                entry.linkTarget = bytes(Int.random(in: 1...300, using: &random))
            }
            if Bool.random(using: &random) {
                entry.attributes["user.own \(index)"] =
                    bytes(Int.random(in: 0...2_000, using: &random)) + [0]
            }
            entries.append((entry, entry.kind == .file ? content : []))
        }
        let file = try Self.archive(entries)
        let found = try Self.read(file)
        #expect(found.map(\.0) == entries.map(\.0), "seed \(seed)")
        #expect(found.map(\.1) == entries.map(\.1), "seed \(seed)")
        // The same tree, the same bytes.
        let again = try Self.archive(entries)
        let size = try file.facts().size
        #expect(try again.facts().size == size)
        #expect(
            try file.read(at: 0, count: Int(size)) == again.read(at: 0, count: Int(size)),
            "seed \(seed)"
        )
    }

    @Test(arguments: [
        "..", ".", "a/../b", "a/./b", "/a", "a//b", String(repeating: "x", count: 256),
    ])
    func `a name that leads elsewhere is refused`(path: String) {
        var entry = Self.entry("a")
        entry.path = path.split(separator: "/", omittingEmptySubsequences: false)
            .map { Array($0.utf8) }
        #expect(!entry.isSound)
    }

    @Test func `what no tree can have is refused`() {
        #expect(Self.entry("a/b").isSound)
        var deep = Self.entry("a")
        deep.path = Array(repeating: [97], count: PackageEntry.deepest + 1)
        #expect(!deep.isSound)
        var link = Self.entry("a")
        link.kind = .symlink
        #expect(!link.isSound)
        link.linkTarget = Array(repeating: 97, count: PackageEntry.longestTarget + 1)
        #expect(!link.isSound)
        var own = Self.entry("a")
        own.attributes = ["user.cloudfs.pinned": [49]]
        #expect(!own.isSound)
        own.attributes = ["security.capability": [49]]
        #expect(!own.isSound)
        own.attributes = ["user.big": Array(repeating: 0, count: 70_000)]
        #expect(!own.isSound)
    }

    /// Whatever is cut off or flipped: an error or another tree, within the bounds.
    @Test(arguments: 1...40)
    func `a damaged archive harms nobody`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let file = try Self.archive([
            (Self.entry("a", size: 700), Array(repeating: 1, count: 700)),
            (Self.entry("b/c", size: 5), [1, 2, 3, 4, 5]),
        ])
        let size = Int(try file.facts().size)
        var bytes = try file.read(at: 0, count: size)
        for _ in 0..<Int.random(in: 1...8, using: &random) {
            bytes[Int.random(in: 0..<size, using: &random)] = UInt8.random(
                in: 0...255,
                using: &random
            )
        }
        let damaged = try Self.scratch()
        try damaged.write(bytes.prefix(Int.random(in: 0...size, using: &random)), at: 0)
        let limit = try damaged.facts().size
        try damaged.rewind()
        do throws(CloudFSError) {
            let reader = try PackageReader(of: damaged.descriptor, size: limit)
            var total: Int64 = 0
            while let entry = try reader.next() {
                #expect(entry.isSound, "seed \(seed)")
                guard entry.kind == .file else { continue }
                try reader.content(of: entry) { bytes, _ in total += Int64(bytes.count) }
            }
            #expect(total <= limit, "seed \(seed)")
        } catch {
            #expect(error.code == .notDirectory, "seed \(seed): \(error)")
        }
    }

    @Test func `a disk that cannot be read is not taken for a file that is no package`() throws {
        let descriptor = open("/dev/null", O_WRONLY)
        defer { close(descriptor) }
        do throws(CloudFSError) {
            _ = try PackageReader(of: descriptor, size: 1_024).next()
            Issue.record("nothing was read, and nobody noticed")
        } catch {
            #expect(error.code == .corrupt)
        }
    }

    @Test func `names and attributes do not fill the memory`() throws {
        let value = [UInt8](repeating: 7, count: PackageEntry.longestAttribute)
        let entries = (0...10).map { index -> (PackageEntry, [UInt8]) in
            var entry = Self.entry("file-\(index)")
            for number in 0..<100 { entry.attributes["user.a\(number)"] = value }
            return (entry, [])
        }
        let file = try Self.archive(entries)
        do throws(CloudFSError) {
            try file.rewind()
            let reader = try PackageReader(of: file.descriptor, size: try file.facts().size)
            while try reader.next() != nil {}
            Issue.record("70 MB of attributes were taken")
        } catch {
            #expect(error.code == .notDirectory)
        }
    }

    @Test func `no more files are told of than the archive can have`() throws {
        let program = """
            import io, sys, tarfile
            t = tarfile.TarInfo("big"); t.size = 1 << 40
            sys.stdout.buffer.write(t.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
            """
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = ["-c", program]
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let data = try #require(try pipe.fileHandleForReading.readToEnd())
        process.waitUntilExit()
        let file = try Self.scratch()
        try file.write(Array(data)[...], at: 0)
        do throws(CloudFSError) {
            _ = try PackageReader(of: file.descriptor, size: try file.facts().size).next()
            Issue.record("a file of a terabyte was believed")
        } catch {
            #expect(error.code == .notDirectory)
        }
    }

    /// As GNU tar, bsdtar and Python write them, which say nothing of the character set.
    @Test func `names of other programs' archives come back as bytes`() async throws {
        let folder = try TemporaryDirectory()
        let result = try await Shell.run([
            "/usr/bin/python3", "-c",
            """
            import io, sys, tarfile
            with tarfile.open(sys.argv[1], "w", format=tarfile.PAX_FORMAT) as archive:
                entry = tarfile.TarInfo("\\u00e9\\u732b.txt")
                entry.size = 3
                archive.addfile(entry, io.BytesIO(b"cat"))
            """,
            folder.path("archive"),
        ])
        #expect(result.status == 0, "\(result)")
        let descriptor = open(folder.path("archive"), O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        let found = try Self.read(ContentFile(descriptor: descriptor))
        #expect(found.map(\.0.path) == [[Array("\u{e9}\u{732b}.txt".utf8)]])
        #expect(found.first?.1 == Array("cat".utf8))
    }
}
