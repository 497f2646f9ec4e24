import CloudFSTestSupport
import Testing

@testable import CloudFS

/// The forms that thumbnails have in the cloud, in the desktop's cache and in attributes.
@Suite struct ThumbnailValuesTests {
    private static let jpeg: [UInt8] = [0xff, 0xd8, 0xff, 1, 2, 3]
    private static let png: [UInt8] =
        [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0, 0, 0, 13] + Array("IHDR".utf8)
        + [UInt8](repeating: 1, count: 17) + [0, 0, 0, 0] + Array("IEND".utf8) + [0, 0, 0, 0]

    @Test func `only JPEG and PNG of 64 KiB are pictures`() throws {
        #expect(ThumbnailImage(Self.jpeg)?.format == .jpeg)
        #expect(ThumbnailImage(Self.png)?.format == .png)
        #expect(ThumbnailImage(Array("<svg/>".utf8)) == nil)
        #expect(ThumbnailImage([]) == nil)
        let longest = Self.jpeg + [UInt8](repeating: 0, count: 65_536 - Self.jpeg.count)
        #expect(ThumbnailImage(longest) != nil)
        #expect(ThumbnailImage(longest + [0]) == nil)
    }

    @Test func `pictures come out of a sidecar as they went in`() throws {
        let images: ThumbnailImages = [
            .normal: try #require(ThumbnailImage(Self.jpeg)),
            .large: try #require(ThumbnailImage(Self.png)),
        ]
        let bytes = ThumbnailSidecar.bytes(of: images)
        #expect(ThumbnailSidecar.images(bytes) == images)
        #expect(bytes.starts(with: Array("cloudfs-thumbnails 1\n128 6\n256 ".utf8)))
        for count in 0..<bytes.count {
            #expect(ThumbnailSidecar.images(Array(bytes[..<count])) == nil, "cut at \(count)")
        }
        #expect(ThumbnailSidecar.images(bytes + [0]) == nil)
    }

    @Test(arguments: [
        "", "\n\n\n", "cloudfs-thumbnails 2\n128 1\n\nx", "cloudfs-thumbnails 1\n\n",
        "cloudfs-thumbnails 1\n128 -1\n\n", "cloudfs-thumbnails 1\n128 0\n\n",
        "cloudfs-thumbnails 1\n100 1\n\nx", "cloudfs-thumbnails 1\n128 9223372036854775807\n\nx",
        "cloudfs-thumbnails 1\n128 1\n128 1\n\nxx", "cloudfs-thumbnails 1\n128 4\n\nxxxx",
        "cloudfs-thumbnails 1\n128 1 1\n\nx", "cloudfs-thumbnails 1\n128 x\n\nx",
    ])
    func `a sidecar that is none is refused`(text: String) {
        #expect(ThumbnailSidecar.images(Array(text.utf8)) == nil)
    }

    @Test func `converted pictures are told apart, and what is no answer is none`() {
        let output = Array("0 128 2\n7 256 3\n\naabbb".utf8)
        #expect(
            ConversionText.pictures(output)
                == [0: [.normal: Array("aa".utf8)], 7: [.large: Array("bbb".utf8)]]
        )
        for count in 0..<output.count {
            #expect(ConversionText.pictures(Array(output[..<count])).isEmpty, "cut at \(count)")
        }
        for text in ["", "0 1 2\n\naa", "0 128 -2\n\naa", "0 128\n\naa", "0 128 9\n\naa"] {
            #expect(ConversionText.pictures(Array(text.utf8)).isEmpty)
        }
    }

    @Test func `random bytes behind a good beginning are refused or are pictures`() {
        var random = SeededRandom(seed: 20_261_122)
        let head = Array("cloudfs-thumbnails 1\n".utf8)
        for _ in 0..<2_000 {
            let count = Int.random(in: 0..<300, using: &random)
            let rest = (0..<count).map { _ in
                Array("0123456789 \n\u{ff}".utf8).randomElement(using: &random) ?? 0
            }
            #expect(ThumbnailSidecar.images(head + rest) == nil)
        }
    }

    @Test func `a version has one name for its pictures, another version another`() {
        let one = ItemVersion(content: "a/b", metadata: "1")
        let same = ItemVersion(content: "a/b", metadata: "2")
        let other = ItemVersion(content: "a/c", metadata: "1")
        let name = ThumbnailSidecar.name(of: one, isSmall: true)
        #expect(name == ThumbnailSidecar.name(of: same, isSmall: true))
        #expect(name != ThumbnailSidecar.name(of: one, isSmall: false))
        #expect(name != ThumbnailSidecar.name(of: other, isSmall: true))
    }

    @Test func `texts are found in a PNG, before others`() throws {
        let made = try #require(
            PNGText.adding([("Thumb::URI", "file:///a"), ("Thumb::MTime", "12")], to: Self.png)
        )
        #expect(PNGText.texts(of: made) == ["Thumb::URI": "file:///a", "Thumb::MTime": "12"])
        // Of a file of which only the beginning was read.
        #expect(PNGText.texts(of: Array(made[..<70]))["Thumb::URI"] == "file:///a")
        #expect(PNGText.adding([], to: Self.jpeg) == nil)
        for count in 0..<made.count { _ = PNGText.texts(of: Array(made[..<count])) }
        var random = SeededRandom(seed: 5)
        for _ in 0..<2_000 {
            var broken = made
            broken[Int.random(in: 8..<broken.count, using: &random)] = .random(
                in: 0...255,
                using: &random
            )
            _ = PNGText.texts(of: broken)
        }
    }

    @Test(arguments: [
        ("/home/u/a b.jpg", "file:///home/u/a%20b.jpg"), ("/ü", "file:///%C3%BC"),
        ("/a;b#c?d%e", "file:///a%3Bb%23c%3Fd%25e"),
        ("/!'()*-._~&=:@+$,", "file:///!'()*-._~&=:@+$,"), ("/[a]", "file:///%5Ba%5D"),
    ])
    func `paths become URIs as GLib writes them`(path: String, uri: String) {
        #expect(DesktopCache.uri(of: path) == uri)
    }

    @Test func `thumbnailers are read, and those that are not there are not`() {
        let text = """
            # comment
            [Other]
            Exec=no
            [Thumbnailer Entry]
            TryExec=totem-video-thumbnailer
            Exec=/usr/bin/totem-video-thumbnailer -s %s %u %o
            MimeType=video/mp4;video/webm;
            """
        let entry = Thumbnailers.program(text) { $0.hasPrefix("/usr/bin/totem") }
        #expect(entry?.types == ["video/mp4", "video/webm"])
        #expect(entry?.words == ["/usr/bin/totem-video-thumbnailer", "-s", "%s", "%u", "%o"])
        #expect(Thumbnailers.program(text) { _ in false } == nil)
        #expect(Thumbnailers.program("[Thumbnailer Entry]\nExec=a %i\n") { _ in true } == nil)
        #expect(Thumbnailers.program("") { _ in true } == nil)
        for command in ["/opt/a/b %i %o", "a 'one two' %i %o"] {
            let entry = "[Thumbnailer Entry]\nExec=\(command)\nMimeType=a/b;\n"
            #expect(Thumbnailers.program(entry) { _ in true } == nil)
        }
    }

    @Test func `vips comes first, and nothing is made without it`() {
        let entry = Thumbnailers.Program(
            words: ["t", "%i", "%o"],
            types: ["video/mp4", "image/png"]
        )
        let all = Thumbnailers(hasVips: true, programs: [entry])
        #expect(all.ways(for: "image/png") == [.vips, .program(entry.words)])
        #expect(all.ways(for: "image/jpeg") == [.vips])
        #expect(all.ways(for: "video/mp4") == [.program(entry.words)])
        #expect(all.ways(for: "text/plain").isEmpty)
        #expect(Thumbnailers(hasVips: false, programs: [entry]).ways(for: "video/mp4").isEmpty)
    }
}
