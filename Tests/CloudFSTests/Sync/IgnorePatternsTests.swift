import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct IgnorePatternsTests {
    private func path(_ text: String) throws -> [ItemName] {
        try text.split(separator: "/").map { try ItemName(String($0)) }
    }

    private func ignores(_ pattern: String, _ text: String, isFolder: Bool = false) throws -> Bool {
        IgnorePatterns([pattern]).ignores(try path(text), isFolder: isFolder)
    }

    @Test(arguments: [
        ("*.tmp", "a.tmp", true), ("*.tmp", "x/y/a.tmp", true), ("*.tmp", "a.tmp2", false),
        ("*", "anything", true), ("a*b*c", "axxbyyc", true), ("a*b*c", "axxbyy", false),
        ("?.txt", "a.txt", true), ("?.txt", "ab.txt", false), ("?.txt", ".txt", false),
        ("[a-c]x", "bx", true), ("[a-c]x", "dx", false), ("[!a-c]x", "dx", true),
        ("[^a-c]x", "ax", false), ("[]]x", "]x", true), ("[a-]x", "-x", true), ("[ax", "[ax", true),
        ("[z-a]x", "mx", true), ("\\*", "*", true), ("\\*", "a", false), ("a\\", "a\\", true),
        (".~lock.*#", ".~lock.report.odt#", true), ("", "a", false), ("/", "a", false),
    ])
    func `a pattern without a slash means a name anywhere`(
        pattern: String,
        text: String,
        expected: Bool
    ) throws {
        #expect(try ignores(pattern, text) == expected)
    }

    @Test(arguments: [
        ("/a", "a", true), ("/a", "b/a", false), ("a/b", "a/b", true), ("a/b", "x/a/b", false),
        ("a/*", "a/b", true), ("a/*", "a", false), ("a/*/c", "a/b/c", true),
        ("a/*/c", "a/b/b/c", false), ("**/c", "c", true), ("**/c", "a/b/c", true),
        ("a/**", "a/b/c", true), ("a/**", "a", false), ("a/**/d", "a/d", true),
        ("a/**/d", "a/b/c/d", true), ("a/**/d", "b/d", false),
        ("**/a/**/b/**/c", "x/a/y/b/z/b/c", true), ("**/a/**/b/**/c", "x/b/y/a/c", false),
        ("a/**b", "a/xxb", true), ("a/**b", "a/x/b", false), ("a//b", "a/b", true),
    ])
    func `a pattern with a slash means a path`(
        pattern: String,
        text: String,
        expected: Bool
    ) throws {
        #expect(try ignores(pattern, text) == expected)
    }

    @Test func `a slash at the end means folders, and all in them`() throws {
        #expect(try ignores("build/", "build", isFolder: true))
        #expect(try !ignores("build/", "build", isFolder: false))
        #expect(try ignores("build/", "src/build/x/y.o"))
        #expect(try ignores("/src/build/", "src/build/x"))
        #expect(try !ignores("/src/build/", "build/x"))
    }

    @Test func `bytes that are no text are matched as bytes`() throws {
        let name = try ItemName([0xff, 0xfe, 0x2e, 0x61])
        #expect(IgnorePatterns(["*.a"]).ignores([name], isFolder: false))
        #expect(IgnorePatterns(["??.a"]).ignores([name], isFolder: false))
        #expect(!IgnorePatterns(["?.a"]).ignores([name], isFolder: false))
        #expect(!IgnorePatterns(["é"]).ignores([try ItemName("e\u{301}")], isFolder: false))
    }

    @Test func `the default list takes editors' files and leaves documents`() throws {
        let standard = IgnorePatterns(MountConfiguration.defaultIgnore)
        for name in [".#a.txt", ".a.txt.swp", "#a#", "Thumbs.db"] {
            #expect(standard.ignores([try ItemName(name)], isFolder: false), "\(name)")
        }
        let synced = [
            ".~lock.a.odt#", "~$a.docx", "a.odt", "a.swp", "x.part", "lock", "a#b", "desktop.init",
            ".bashrc", "4913",
        ]
        for name in synced {
            #expect(!standard.ignores([try ItemName(name)], isFolder: false), "\(name)")
        }
    }

    @Test func `notes and empty lines of a text mean nothing`() throws {
        let patterns = IgnorePatterns(text: "# a note\n\n*.o\n#*#\n")
        #expect(patterns.ignores(try path("a.o"), isFolder: false))
        #expect(patterns.ignores(try path("#a#"), isFolder: false))
        #expect(!patterns.ignores(try path("a note"), isFolder: false))
    }

    @Test func `many stars do not blow up`() throws {
        let name = try ItemName(Array(repeating: UInt8(ascii: "a"), count: 255))
        let stars = String(repeating: "a*", count: 100) + "b"
        let folders = String(repeating: "**/a*/", count: 50) + "b"
        let took = ContinuousClock().measure {
            #expect(!IgnorePatterns([stars]).ignores([name], isFolder: false))
            let deep = Array(repeating: name, count: 60)
            #expect(!IgnorePatterns([folders]).ignores(deep, isFolder: false))
        }
        #expect(took < .seconds(10))
    }

    /// Tries every way to split, as the naive reading of a pattern says.
    private func naive(_ pattern: ArraySlice<UInt8>, _ name: ArraySlice<UInt8>) -> Bool {
        guard let first = pattern.first else { return name.isEmpty }
        if first == UInt8(ascii: "*") {
            return (name.startIndex...name.endIndex).contains {
                naive(pattern.dropFirst(), name[$0...])
            }
        }
        guard let byte = name.first, first == byte || first == UInt8(ascii: "?") else {
            return false
        }
        return naive(pattern.dropFirst(), name.dropFirst())
    }

    @Test(arguments: UInt64(1)...20)
    func `random globs match as the naive reading says`(seed: UInt64) throws {
        var random = SeededRandom(seed: seed)
        let alphabet = Array("ab?*".utf8)
        for _ in 0..<300 {
            let pattern = (0...random.below(6)).map { _ in alphabet[random.below(4)] }
            let name = (0...random.below(6)).map { _ in alphabet[random.below(2)] }
            let text = String(decoding: pattern, as: UTF8.self)
            let found = IgnorePatterns([text]).ignores([try ItemName(name)], isFolder: false)
            #expect(found == naive(pattern[...], name[...]), "seed \(seed) \(text) \(name)")
        }
    }
}
