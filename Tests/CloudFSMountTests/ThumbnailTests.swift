import CloudFSTestSupport
import Glibc
import Testing

/// Pictures of files that are not here.
///
/// Programs of the machine make them; where `vipsthumbnail` is not installed nothing is.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct ThumbnailTests {
    /// Pictures of noise, so that JPEG cannot make them small.
    private static let draw = """
        draw() {
            vips gaussnoise "$SCRATCH/$$.v" $2 $3
            vips cast "$SCRATCH/$$.v" "$SCRATCH/$$.u.v" uchar
            vips copy "$SCRATCH/$$.u.v" "$SCRATCH/$1"
        }

        """

    private static func picture(
        _ name: String,
        of file: String,
        on drive: TestDrive
    ) async throws
        -> [UInt8]?
    {
        try await drive.bytes(ofAttribute: "user.cloudfs.\(name)", of: file)
    }

    /// What `vipsheader` says of a picture: width, height, and the program that would show it.
    private static func size(
        _ bytes: [UInt8],
        on drive: TestDrive
    ) async throws -> (width: Int, height: Int, loader: String) {
        try TestFolder("\(drive.folder)/run").write("shown", bytes)
        let words = try await drive.run(
            "for f in width height vips-loader; do vipsheader -f $f \"$SCRATCH/shown\"; done"
        ).split(separator: "\n")
        try #require(words.count == 3)
        return (Int(words[0]) ?? 0, Int(words[1]) ?? 0, String(words[2]))
    }

    @Test func `another device shows what one has saved, and fetches no content`() async throws {
        try await TestDrive.with(slots: 2) { drive in
            try await drive.run(Self.draw + "draw photo.jpg 1600 1200; cp $SCRATCH/photo.jpg .")
            try await drive.drain()
            try await drive.withSecondDrive { second in
                try await eventually("it is there", within: .seconds(20)) {
                    try await second.exists("photo.jpg")
                }
                try await eventually("it has a picture", within: .seconds(30)) {
                    try await Self.picture("thumbnail.256", of: "photo.jpg", on: second) != nil
                }
                for (side, height) in [(128, 96), (256, 192)] {
                    let name = "thumbnail.\(side)"
                    let bytes = try #require(
                        try await Self.picture(name, of: "photo.jpg", on: second)
                    )
                    let size = try await Self.size(bytes, on: second)
                    #expect(size == (side, height, "jpegload"))
                }
                try await eventually("it has a large one", within: .seconds(20)) {
                    let bytes = try await Self.picture("thumbnail", of: "photo.jpg", on: second)
                    return try await Self.size(bytes ?? [], on: second).width > 256
                }
                let large = try #require(
                    try await Self.picture("thumbnail", of: "photo.jpg", on: second)
                )
                #expect(large.count <= 65_536)
                #expect(
                    try await second.attribute("user.cloudfs.status", of: "photo.jpg") == "cloud"
                )
                let facts = try #require(try await second.attribute("user.cloudfs", of: "."))
                #expect(facts.contains("\"fetched-bytes\":0"), "\(facts)")
                // Programs that copy attributes do not carry it along.
                #expect(try await second.run("getfattr -d -m - photo.jpg").isEmpty)
            }
        }
    }

    @Test func `a program's own picture is shown here and there until the content changes`()
        async throws
    {
        try await TestDrive.with(slots: 2) { drive in
            try await drive.run(
                Self.draw + """
                    draw cover.png 300 150
                    echo text > report.txt
                    """
            )
            let cover = try #require(TestFolder("\(drive.folder)/run").bytes("cover.png"))
            try await drive.setAttribute("user.cloudfs.thumbnail", of: "report.txt", to: cover)
            try await eventually("it has all sizes", within: .seconds(20)) {
                try await Self.picture("thumbnail.128", of: "report.txt", on: drive) != nil
            }
            try await drive.drain()
            try await drive.withSecondDrive { second in
                try await eventually("it is shown there", within: .seconds(30)) {
                    guard try await second.exists("report.txt") else { return false }
                    return try await Self.picture("thumbnail.256", of: "report.txt", on: second)
                        != nil
                }
                let bytes = try #require(
                    try await Self.picture("thumbnail.256", of: "report.txt", on: second)
                )
                let size = try await Self.size(bytes, on: second)
                #expect((size.width, size.height) == (256, 128))
            }
            try await drive.run("echo more >> report.txt")
            #expect(try await Self.picture("thumbnail", of: "report.txt", on: drive) == nil)
            // The kernel takes no longer values than 64 KiB.
            await #expect(throws: SystemError.self) {
                try await drive.setAttribute(
                    "user.cloudfs.thumbnail",
                    of: "report.txt",
                    to: "no picture"
                )
            }
            // What no program set cannot be taken back.
            try await drive.run("setfattr -x user.cloudfs.thumbnail report.txt", status: 1)
        }
    }

    @Test func `pictures of what is gone go, too`() async throws {
        try await TestDrive.with { drive in
            func pictures() async throws -> [String] {
                try await drive.run(
                    "cd \"$CLOUD\"; find .cloudfs/thumbnails -type f -printf '%f\\n' | sort"
                ).split(separator: "\n").map(String.init)
            }
            try await drive.run(
                Self.draw + "draw a.png 300 200; draw b.png 200 300; cp $SCRATCH/?.png ."
            )
            try await eventually("both have two files", within: .seconds(30)) {
                try await drive.run("test -d \"$CLOUD/.cloudfs/thumbnails\" && echo yes || true")
                    == "yes"
            }
            try await eventually("both have two files", within: .seconds(30)) {
                try await pictures().count == 4
            }
            let before = try await pictures()
            try await drive.run("cp b.png $SCRATCH/c.png; cat $SCRATCH/a.png > b.png; rm a.png")
            try await eventually("b has others", within: .seconds(60)) {
                let now = try await pictures()
                // Those of a go when the drive looks for what is gone.
                return Set(now).subtracting(before).count == 2 && now.count == 4
            }
            try await drive.drain()
            let again = try await drive.restart()
            try await eventually("those of a are gone", within: .seconds(60)) {
                try await pictures().count == 2
            }
            #expect(try await again.names() == ["b.png"])
        }
    }

    @Test func `a camera's picture is shown of a photo that no device has seen`() async throws {
        try await TestDrive.with(["--hydration", "partial"]) { drive in
            try await drive.run(Self.draw + "draw photo.jpg 2400 1800; draw small.jpg 160 120")
            try await drive.python(
                #"""
                import struct
                scratch, cloud = os.environ["SCRATCH"], os.environ["CLOUD"]
                small = open(f"{scratch}/small.jpg", "rb").read()
                photo = open(f"{scratch}/photo.jpg", "rb").read()
                def entry(tag, kind, value): return struct.pack("<HHII", tag, kind, 1, value)
                # Two lists of tags: held upside down, and where the small picture is.
                first = struct.pack("<H", 1) + entry(0x112, 3, 3) + struct.pack("<I", 26)
                second = (struct.pack("<H", 3) + entry(0x103, 3, 6) + entry(0x201, 4, 68)
                          + entry(0x202, 4, len(small)) + struct.pack("<I", 0))
                body = b"Exif\0\0II*\0" + struct.pack("<I", 8) + first + second + small
                head = photo[:2] + b"\xff\xe1" + struct.pack(">H", len(body) + 2) + body
                open(f"{cloud}/.t", "wb").write(head + photo[2:])
                os.rename(f"{cloud}/.t", f"{cloud}/photo.jpg")
                """#
            )
            try await eventually("the drive shows it") { try await drive.exists("photo.jpg") }
            try await eventually("it has a picture", within: .seconds(30)) {
                try await Self.picture("thumbnail", of: "photo.jpg", on: drive) != nil
            }
            let bytes = try #require(
                try await Self.picture("thumbnail", of: "photo.jpg", on: drive)
            )
            #expect(try await Self.size(bytes, on: drive) == (128, 96, "jpegload"))
            #expect(try await drive.attribute("user.cloudfs.status", of: "photo.jpg") == "cloud")
            #expect(
                try await drive.attribute("user.cloudfs.downloaded-bytes", of: "photo.jpg") == "0"
            )
        }
    }

    @Test func `hostile pictures cost a program that ends, and nothing else`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                #"""
                import zlib, struct
                def chunk(kind, data):
                    return (struct.pack(">I", len(data)) + kind + data
                            + struct.pack(">I", zlib.crc32(kind + data)))
                def png(width, height, data):
                    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
                    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data)
                            + chunk(b"IEND", b""))
                # As large as the format allows, and no rows.
                open("huge.png", "wb").write(png(2**31 - 1, 2**31 - 1, zlib.compress(b"")))
                packer = zlib.compressobj(9)
                rows = b"".join(packer.compress(bytes(1 + 3 * 20_000)) for _ in range(20_000))
                open("bomb.png", "wb").write(png(20_000, 20_000, rows + packer.flush()))
                open("junk.jpg", "wb").write(bytes(range(256)) * 40)
                open("empty.jpg", "wb").close()
                open("loop.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="9" '
                    'height="9"><image href="file:///etc/passwd" width="9" height="9"/></svg>')
                """#
            )
            try await drive.run(Self.draw + "draw good.png 300 300; cp $SCRATCH/good.png .")
            try await drive.drain()
            // What came last is looked at last.
            try await eventually("the good one has a picture", within: .seconds(100)) {
                try await Self.picture("thumbnail", of: "good.png", on: drive) != nil
            }
            #expect(try await Self.picture("thumbnail", of: "junk.jpg", on: drive) == nil)
            #expect(try await Self.picture("thumbnail", of: "huge.png", on: drive) == nil)
            #expect(try await Self.picture("thumbnail", of: "empty.jpg", on: drive) == nil)
            for name in ["huge.png", "bomb.png", "junk.jpg", "empty.jpg", "loop.svg"] {
                #expect(try await drive.attribute("user.cloudfs.status", of: name) == "local")
            }
        }
    }

    @Test func `the desktop's cache is filled for a folder that is opened, and kept true`()
        async throws
    {
        let folder = try TemporaryDirectory()
        let cache = folder.path("thumbnails")
        try await TestDrive.with(["--thumbnail-cache", cache]) { drive in
            try await drive.run(
                Self.draw + """
                    draw one.jpg 400 300
                    mkdir "$CLOUD/album"; cp "$SCRATCH/one.jpg" "$CLOUD/album/one photo.jpg"
                    """
            )
            let album = "\(drive.path)/album"
            func cached(_ name: String, _ size: String) async throws -> String? {
                try await drive.python(
                    """
                    import hashlib, os, urllib.parse
                    path = "\(album)/\(name)"
                    uri = "file://" + urllib.parse.quote(path, safe="/!'()*-._~&=:@+$,")
                    name = hashlib.md5(uri.encode()).hexdigest() + ".png"
                    file = "\(cache)/\(size)/" + name
                    if os.path.exists(file):
                        data = open(file, "rb").read()
                        assert b"Thumb::URI\\0" + uri.encode() in data
                        mtime = int(os.stat(path).st_mtime) if os.path.exists(path) else -1
                        print(b"Thumb::MTime\\0%d" % mtime in data)
                    """
                )
            }
            // Nothing is here, and no other device has made a picture.
            try await eventually("the drive shows it") {
                try await drive.exists("album/one photo.jpg")
            }
            #expect(try await drive.names("album") == ["one photo.jpg"])
            // A file manager watches what it shows, and looks again when it hears of it.
            try await drive.python(
                #"""
                import ctypes, os, select, struct, time
                libc = ctypes.CDLL(None, use_errno=True)
                watch = libc.inotify_init1(0)
                assert libc.inotify_add_watch(watch, b"album", 4) >= 0  # IN_ATTRIB
                open("album/one photo.jpg", "rb").read()
                end, heard = time.monotonic() + 60, b""
                while b"one photo.jpg" not in heard:
                    assert select.select([watch], [], [], end - time.monotonic())[0], "no news"
                    heard += os.read(watch, 4096)
                """#,
                within: .seconds(70)
            )
            for size in ["normal", "large"] {
                try await eventually("the \(size) one is there", within: .seconds(30)) {
                    try await cached("one photo.jpg", size) == "True"
                }
            }
            // A file manager asks with the times that it sees.
            try await drive.run("touch -d '2020-02-02 02:02' 'album/one photo.jpg'")
            try await eventually("it is renewed", within: .seconds(30)) {
                try await cached("one photo.jpg", "large") == "True"
            }
            let path = try await drive.attribute(
                "user.cloudfs.thumbnail.path",
                of: "album/one photo.jpg"
            )
            #expect(path?.hasPrefix(cache + "/large/") == true, "\(path ?? "")")
            try await drive.run("mv 'album/one photo.jpg' album/two.jpg")
            try await eventually("the old one is gone", within: .seconds(20)) {
                try await cached("one photo.jpg", "large")?.isEmpty == true
            }
            try await eventually("the new one is there", within: .seconds(30)) {
                try await cached("two.jpg", "large") == "True"
            }
        }
    }
}
