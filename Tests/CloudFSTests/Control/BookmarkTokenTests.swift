import CloudFSControlAPI
import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

@Suite struct BookmarkTokenTests {
    private func token(
        _ path: String = "docs/plan.txt",
        url: String = "s3://b"
    ) throws -> BookmarkToken {
        var token = try #require(
            BookmarkToken(
                container: Array(repeating: 1, count: 16),
                document: Array(repeating: 2, count: 16),
                containerURL: url,
                path: try drivePath(path)
            )
        )
        token.seal = Array(repeating: 3, count: 32)
        return token
    }

    @Test(arguments: ["docs/plan.txt", "a", "100%25 ü", ""])
    func `a token is text that gives the same token`(path: String) throws {
        let token = try token(path)
        #expect(BookmarkToken(text: token.text) == token)
        #expect(token.text.hasPrefix("cfb1."))
        let plain = #/[A-Za-z0-9_.-]+/#
        #expect(token.text.wholeMatch(of: plain) != nil)
    }

    @Test func `what is long is left out, so that a token never is`() throws {
        let name = String(repeating: "n", count: 200)
        let path = Array(repeating: name, count: 20).joined(separator: "/")
        let token = try token(path, url: "s3://" + String(repeating: "u", count: 5_000))
        #expect(token.path == nil && token.containerURL.isEmpty)
        let most = try self.token(
            Array(repeating: name, count: 10).joined(separator: "/"),
            url: String(repeating: "u", count: 512)
        )
        #expect(most.path != nil)
        #expect(most.text.utf8.count <= BookmarkToken.maximumByteCount)
        #expect(BookmarkToken(text: most.text) == most)
    }

    @Test func `anything else is no token`() throws {
        let good = try token().text
        let bad = [
            "", "cfb1.", "cfb2." + good.dropFirst(5), String(good.dropFirst(5)), good + "=",
            good + "+", good + "/",
            "cfb1." + String(repeating: "A", count: 5_000),
            "cfb1." + String(repeating: "A", count: 80), "cfb1.ü", good + "\n",
        ]
        for text in bad { #expect(BookmarkToken(text: text) == nil, "\(text)") }
        // A length that reaches behind the end.
        let zeros = Array(repeating: UInt8(0), count: 32)
        for length: [UInt8] in [[0, 40], [2, 1], [0xff, 0xff]] {
            let bytes = zeros + length + zeros
            #expect(BookmarkToken(text: "cfb1." + Base64Text.encode(bytes)) == nil, "\(length)")
        }
        for names in ["..", "a/../b"] {
            let bytes = zeros + [0, 0] + Array(names.utf8) + zeros
            #expect(BookmarkToken(text: "cfb1." + Base64Text.encode(bytes)) == nil, "\(names)")
        }
    }

    @Test func `random text is no token, and does no harm`() throws {
        var random = SystemRandomNumberGenerator()
        let digits = Array("ABCabc012_-.=/ ".utf8)
        for _ in 0..<2_000 {
            let count = Int.random(in: 0...200, using: &random)
            let text = (0..<count).map { _ in digits.randomElement(using: &random) ?? 0x41 }
            let token = "cfb1." + String(decoding: text, as: UTF8.self)
            if let read = BookmarkToken(text: token) { #expect(read.text == token) }
        }
    }

    // MARK: - The key

    @Test func `a seal is good for what was sealed, by the same key`() throws {
        let folder = try TemporaryDirectory()
        let key = BookmarkKey(path: folder.path("a/b/bookmark.key"))
        #expect(throws: CloudFSError.self) { try key.isSealed([1], by: [2]) }
        let seal = try key.seal([1, 2, 3])
        #expect(seal.count == BookmarkKey.sealByteCount)
        #expect(try key.isSealed([1, 2, 3], by: seal))
        #expect(try BookmarkKey(path: key.path).isSealed([1, 2, 3], by: seal))
        #expect(try !key.isSealed([1, 2, 4], by: seal))
        #expect(try !key.isSealed([1, 2, 3], by: Array(seal.dropLast())))
        #expect(try !key.isSealed([1, 2, 3], by: []))
        let other = BookmarkKey(path: folder.path("other.key"))
        #expect(try other.seal([1, 2, 3]) != seal)
        var facts = stat()
        try #require(stat(key.path, &facts) == 0)
        #expect(facts.st_mode & 0o777 == 0o600)
    }

    @Test func `a key that others may know is not used`() throws {
        let folder = try TemporaryDirectory()
        let key = BookmarkKey(path: folder.path("bookmark.key"))
        _ = try key.seal([1])
        try #require(chmod(key.path, 0o644) == 0)
        #expect(throws: CloudFSError.self) { try key.seal([1]) }
        try #require(chmod(key.path, 0o600) == 0)
        try #require(truncate(key.path, 5) == 0)
        #expect(throws: CloudFSError.self) { try key.seal([1]) }
        try #require(unlink(key.path) == 0 && symlink("/dev/zero", key.path) == 0)
        #expect(throws: CloudFSError.self) { try key.seal([1]) }
    }

    @Test func `two who need a key at once get the same`() async throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("bookmark.key")
        let seals = try await withThrowingTaskGroup(of: [UInt8].self) { group in
            for _ in 0..<8 { group.addTask { try BookmarkKey(path: path).seal([1]) } }
            return try await group.reduce(into: Set()) { $0.insert($1) }
        }
        #expect(seals.count == 1)
    }
}

/// Base64url, written the slow way.
private enum Base64Text {
    static func encode(_ bytes: [UInt8]) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        var bits = bytes.flatMap { byte in (0..<8).map { byte >> (7 - UInt8($0)) & 1 } }
        while !bits.count.isMultiple(of: 6) { bits.append(0) }
        return String(
            stride(from: 0, to: bits.count, by: 6).map { start in
                digits[bits[start..<start + 6].reduce(0) { $0 << 1 | Int($1) }]
            }
        )
    }
}
