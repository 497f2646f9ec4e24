import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Types of files by their first bytes.
@Suite struct MIMEMagicTests {
    private static func line(
        _ indent: String,
        _ offset: Int,
        _ value: [UInt8],
        _ rest: [UInt8] = []
    ) -> [UInt8] {
        Array("\(indent)>\(offset)=".utf8) + [UInt8(value.count >> 8), UInt8(value.count & 0xff)]
            + value + rest + [0x0a]
    }

    private static func text(_ text: String) -> [UInt8] { Array(text.utf8) }

    private static let header = text("MIME-Magic\0\n")

    private static func magic(_ parts: [UInt8]...) -> MIMEMagic {
        var magic = MIMEMagic()
        magic.add(header + parts.flatMap { $0 })
        return magic
    }

    @Test func `bytes at their place tell the type, the most important first`() {
        let magic = Self.magic(
            Self.text("[40:image/x-one]\n"),
            Self.line("", 2, Self.text("AB")),
            Self.text("[60:image/x-two]\n"),
            Self.line("", 0, Self.text("xxABC")),
            Self.line("", 4, [0x0a, 0x5b])
        )
        #expect(magic.type(of: Self.text("xxAB\u{1}")) == "image/x-one")
        #expect(magic.type(of: Self.text("xxABC")) == "image/x-two")
        #expect(magic.type(of: Self.text("\0\0\0\0\n[")) == "image/x-two")
        #expect(magic.type(of: Self.text("xxA\u{1}")) == nil)
        #expect(magic.type(of: []) == nil)
    }

    @Test func `ranges, masks, words and rules below others`() {
        let magic = Self.magic(
            Self.text("[50:a/range]\n"),
            Self.line("", 1, Self.text("K"), Self.text("+4")),
            Self.text("[50:a/mask]\n"),
            Self.line("", 0, [0xf0, 0x01], Self.text("&") + [0xf0, 0xff]),
            Self.text("[50:a/word]\n"),
            Self.line("", 0, [0x01, 0x02], Self.text("~2")),
            Self.text("[50:a/below]\n"),
            Self.line("", 0, [0x7f]),
            Self.line("1", 1, [0x01]),
            Self.line("2", 2, [0x09]),
            Self.line("1", 1, [0x02]),
            Self.text("[50:a/later]\n"),
            Self.line("", 0, [0x06], Self.text("?5"))
        )
        #expect(magic.type(of: [0, 0, 0, 0, 0x4b]) == "a/range")
        #expect(magic.type(of: [0, 0, 0, 0, 0, 0x4b]) == nil)
        #expect(magic.type(of: [0xf7, 0x01]) == "a/mask")
        #expect(magic.type(of: [0xe7, 0x01]) == nil)
        #expect(magic.type(of: [0x02, 0x01]) == "a/word")
        #expect(magic.type(of: [0x7f, 0x02, 0]) == "a/below")
        #expect(magic.type(of: [0x7f, 0x01, 0x09]) == "a/below")
        #expect(magic.type(of: [0x7f, 0x01, 0x08]) == nil)
        #expect(magic.type(of: [0x06]) == nil)
    }

    @Test func `what is readable is text, also when its last character is cut`() {
        let magic = MIMEMagic()
        #expect(magic.type(of: Self.text("Grüße\n\t—")) == "text/plain")
        #expect(magic.type(of: Array(Self.text("Grüße\n\t—").dropLast())) == "text/plain")
        #expect(magic.type(of: Self.text("a\0b")) == nil)
        #expect(magic.type(of: [0x61, 0xff, 0xfe, 0x62, 0x63, 0x64]) == nil)
    }

    @Test func `a database of junk says nothing and ends`() {
        var random = SeededRandom(seed: 11)
        let good =
            Self.text("[50:a/good]\n") + Self.line("", 0, [1, 2, 3], Self.text("&") + [7, 7, 7])
        for _ in 0..<2_000 {
            var bytes = Self.header + good + good
            for _ in 0..<Int.random(in: 1...6, using: &random) {
                bytes[Int.random(in: 12..<bytes.count, using: &random)] = .random(
                    in: .min ... .max,
                    using: &random
                )
            }
            bytes.removeLast(Int.random(in: 0..<bytes.count - 12, using: &random))
            var magic = MIMEMagic()
            magic.add(bytes)
            _ = magic.type(of: [1, 2, 3, 4])
        }
        var magic = MIMEMagic()
        magic.add(Self.text("no database"))
        #expect(magic.type(of: [1]) == nil)
    }

    @Test func `the system's database knows the usual ones`() throws {
        let bytes = try #require(
            FileBytes.read("/usr/share/mime/magic", atMost: 1 << 20),
            "shared-mime-info is one of the packages that tests need"
        )
        var magic = MIMEMagic()
        magic.add(bytes)
        #expect(magic.type(of: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]) == "image/png")
        #expect(magic.type(of: Self.text("%PDF-1.7\n")) == "application/pdf")
        #expect(magic.type(of: Self.text("#!/bin/sh\n")) == "application/x-shellscript")
        #expect(magic.type(of: [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]) == "application/gzip")
        #expect(magic.type(of: Self.text("SQLite format 3\0")) == "application/vnd.sqlite3")
    }
}
