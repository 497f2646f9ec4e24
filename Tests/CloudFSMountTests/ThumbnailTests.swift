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
            // It is made of what was sent.
            try await eventually("the first one has a picture", within: .seconds(30)) {
                try await Self.picture("thumbnail.256", of: "photo.jpg", on: drive) != nil
            }
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
                    #expect(try await second.fetched().bytes == 0)
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

    @Test func `what was sent while a program had it open gets its picture when it is closed`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.run(Self.draw + "draw a.png 300 200")
            let program = Task {
                try await drive.run(
                    """
                    exec 3> a.png; cat $SCRATCH/a.png >&3
                    until [ -e $SCRATCH/stop ]; do sleep 0.05; done; exec 3>&-
                    """,
                    within: .seconds(60)
                )
            }
            try await eventually("it is in the cloud", within: .seconds(40)) {
                try await drive.run("cmp -s $SCRATCH/a.png $CLOUD/a.png && echo yes || true")
                    == "yes"
            }
            try await drive.run("touch $SCRATCH/stop")
            _ = try await program.value
            try await eventually("its pictures are in the cloud", within: .seconds(30)) {
                try await drive.run("(ls $CLOUD/.cloudfs/thumbnails 2> /dev/null || true) | wc -l")
                    != "0"
            }
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
            #expect(try await Self.size(bytes, on: drive) == (160, 120, "jpegload"))
            #expect(try await drive.attribute("user.cloudfs.status", of: "photo.jpg") == "cloud")
            #expect(
                try await drive.attribute("user.cloudfs.downloaded-bytes", of: "photo.jpg") == "0"
            )
        }
    }

    @Test func `pictures of every kind that vips reads are shown`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                Self.draw + """
                    draw photo.tiff 300 200; draw photo.webp 300 200; draw photo.gif 300 200
                    draw grey.png 300 200
                    vips bandjoin_const "$SCRATCH/grey.png" "$SCRATCH/alpha.png" 90
                    head -c 40000 "$SCRATCH/photo.tiff" > "$SCRATCH/cut.tiff"
                    cp "$SCRATCH"/photo.* "$SCRATCH/alpha.png" "$SCRATCH/cut.tiff" .
                    """
            )
            try await drive.python(
                #"""
                svg = ('<svg xmlns="http://www.w3.org/2000/svg" width="300" height="200">'
                       '<rect width="300" height="200" fill="red"/></svg>')
                open("drawing.svg", "w").write(svg)
                body = b"1 0 0 rg 0 0 300 200 re f"
                parts = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
                         b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R>>",
                         b"<</Length %d>>stream\n" % len(body) + body + b"\nendstream"]
                text, places = b"%PDF-1.4\n", []
                for number, part in enumerate(parts, 1):
                    places.append(len(text))
                    text += b"%d 0 obj" % number + part + b"endobj\n"
                start = len(text)
                text += b"xref\n0 5\n0000000000 65535 f \n"
                text += b"".join(b"%010d 00000 n \n" % place for place in places)
                text += b"trailer<</Size 5/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % start
                open("page.pdf", "wb").write(text)
                """#
            )
            let kinds = [
                "photo.tiff", "photo.webp", "photo.gif", "alpha.png", "drawing.svg", "page.pdf",
            ]
            for name in kinds {
                try await eventually("\(name) has a picture", within: .seconds(60)) {
                    try await Self.picture("thumbnail", of: name, on: drive) != nil
                }
                let bytes = try #require(try await Self.picture("thumbnail", of: name, on: drive))
                let size = try await Self.size(bytes, on: drive)
                #expect(size.width >= 200 && size.height * 3 == size.width * 2, "\(name) \(size)")
            }
            // What is transparent stays so.
            let alpha = try #require(
                try await Self.picture("thumbnail", of: "alpha.png", on: drive)
            )
            #expect(try await Self.size(alpha, on: drive).loader == "pngload")
            #expect(try await drive.attribute("user.cloudfs.status", of: "cut.tiff") == "local")
        }
    }

    @Test func `a picture's colours are those that a screen shows`() async throws {
        try await TestDrive.with { drive in
            // Telephones write colours of a larger space, in which the same red has other numbers.
            try await drive.run(
                """
                vips black "$SCRATCH/black.v" 400 300 --bands 3
                vips linear "$SCRATCH/black.v" "$SCRATCH/red.png" 1 '230 40 40' --uchar
                vips icc_transform "$SCRATCH/red.png" "$SCRATCH/photo.png" p3
                [ "$(vips getpoint "$SCRATCH/photo.png" 9 9 | cut -d' ' -f1)" -lt 220 ]
                cp "$SCRATCH/photo.png" .
                """
            )
            try await eventually("it has a picture", within: .seconds(40)) {
                try await Self.picture("thumbnail.128", of: "photo.png", on: drive) != nil
            }
            let bytes = try #require(
                try await Self.picture("thumbnail.128", of: "photo.png", on: drive)
            )
            try TestFolder("\(drive.folder)/run").write("shown", bytes)
            let point = try await drive.run("vips getpoint \"$SCRATCH/shown\" 9 9")
                .split(separator: " ").compactMap { Int($0) }
            try #require(point.count == 3)
            #expect(abs(point[0] - 230) < 5 && abs(point[1] - 40) < 8 && abs(point[2] - 40) < 8)
        }
    }

    @Test func `what a thumbnailer of the desktop makes is shown`() async throws {
        let data = try TemporaryDirectory()
        let entry = "[Thumbnailer Entry]\nExec=cp -- %i %o\nMimeType=video/webm;\n"
        try data.write(
            entry.utf8,
            to: "thumbnailers/test.thumbnailer"
        )
        var options = TestMount.Options([])
        options.environment = ["XDG_DATA_DIRS": "\(data.path):/usr/share"]
        try await TestDrive.with(options: options) { drive in
            try await drive.run(Self.draw + "draw film.png 300 200; cp $SCRATCH/film.png film.webm")
            try await eventually("it has a picture", within: .seconds(40)) {
                try await Self.picture("thumbnail", of: "film.webm", on: drive) != nil
            }
            let bytes = try #require(
                try await Self.picture("thumbnail", of: "film.webm", on: drive)
            )
            #expect(try await Self.size(bytes, on: drive) == (300, 200, "jpegload"))
        }
    }

    @Test func `a program that gets no downloads causes none of pictures`() async throws {
        let folder = try TemporaryDirectory()
        let arguments = ["--hydration", "partial", "--thumbnail-cache", folder.path("thumbnails")]
        try await TestDrive.with(arguments) { drive in
            try await drive.run(
                Self.draw + """
                    draw photo.jpg 900 700
                    vipsthumbnail "$SCRATCH/photo.jpg" --size 160x -o "$SCRATCH/small.jpg[strip]"
                    mkdir "$CLOUD/one" "$CLOUD/two"
                    """
            )
            let scratch = TestFolder("\(drive.folder)/run")
            let photo = CameraFile.jpeg(
                try #require(scratch.bytes("photo.jpg")),
                small: try #require(scratch.bytes("small.jpg"))
            )
            for name in ["one", "two"] { try drive.cloud.write("\(name)/photo.jpg", photo) }
            // Old: no other device is about to leave a picture.
            try await drive.run(
                """
                touch -d '2020-01-01' "$CLOUD"/*/photo.jpg
                cp /bin/ls "$SCRATCH/updatedb"
                """
            )
            for name in ["one", "two"] {
                try await eventually("the drive shows \(name)") {
                    try await drive.run("\"$SCRATCH/updatedb\" \(name) 2>&1 || true")
                        .contains("photo.jpg")
                }
            }
            // What a person opens later is filled first.
            #expect(try await drive.names("two") == ["photo.jpg"])
            try await eventually("a picture is there", within: .seconds(40)) {
                try await Self.picture("thumbnail", of: "two/photo.jpg", on: drive) != nil
            }
            #expect(try await drive.fetched().count == 1)
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
            // A desktop with a dense screen has a folder for larger ones.
            try await drive.run("mkdir '\(cache)/x-large'; cp album/two.jpg album/three.jpg")
            try await eventually("a larger one is there", within: .seconds(30)) {
                try await cached("three.jpg", "x-large") == "True"
            }
            // Pictures of what a folder's new name leads to, and none of its old one.
            try await drive.run("mv album moved")
            func count(_ folder: String) async throws -> Int {
                let path = "file://\(drive.path)/\(folder)/"
                let found = try await drive.run("grep -rlaF '\(path)' '\(cache)/large' || true")
                return found.split(separator: "\n").count
            }
            try await eventually("the folder's pictures moved", within: .seconds(40)) {
                guard try await count("moved") == 2 else { return false }
                return try await count("album") == 0
            }
            try await drive.run("rm -r moved")
            try await eventually("all are gone", within: .seconds(40)) {
                try await drive.run("find '\(cache)' -name '*.png'").isEmpty
            }
        }
    }

    @Test(.asRoot) func `a drive of root fills the cache of a user, and nothing beside it`()
        async throws
    {
        let folder = try TemporaryDirectory()
        let cache = folder.path("home/.cache/thumbnails")
        let arguments = ["-o", "allow_other", "--thumbnail-cache", cache]
        try await TestDrive.with(arguments) { drive in
            try await drive.run(
                Self.draw + """
                    chmod 755 . "$(dirname "$DRIVE")" "\(folder.path)"
                    mkdir -p "\(cache)" "$SCRATCH/elsewhere"
                    # Whoever owns the cache may put anything there.
                    ln -s "$SCRATCH/elsewhere" "\(cache)/large"
                    chown -R 4711:4712 "\(folder.path)/home"; chmod 700 "\(cache)"
                    draw one.png 300 300
                    mkdir album; cp "$SCRATCH/one.png" album; chmod -R a+rX album
                    # Wherever the drive is seen.
                    mkdir "$SCRATCH/bound"; mount --bind . "$SCRATCH/bound"
                    setpriv --reuid=4711 --regid=4712 --clear-groups ls album
                    """
            )
            var missing: (any Error)?
            do {
                try await eventually("both are in the user's cache", within: .seconds(60)) {
                    try await drive.run("find '\(cache)' -path '*normal/*.png'")
                        .split(separator: "\n").count == 2
                }
            } catch {
                missing = error
            }
            try await drive.run("umount \"$SCRATCH/bound\"")
            if let missing { throw missing }
            try await drive.run(
                """
                cd "\(cache)"
                [ "$(stat -c %u:%g:%a normal)" = 4711:4712:700 ]
                for file in normal/*.png; do
                    [ "$(stat -c %u:%g:%a "$file")" = 4711:4712:600 ]
                    setpriv --reuid=4711 --regid=4712 --clear-groups vipsheader "$file"
                done
                """
            )
            // Nothing was written through the link, also not after the next picture.
            try await drive.run("cp album/one.png album/two.png")
            try await eventually("the next one is there", within: .seconds(60)) {
                try await drive.run("ls '\(cache)/normal'").split(separator: "\n").count >= 3
            }
            #expect(try await drive.run("ls \"$SCRATCH/elsewhere\"").isEmpty)
        }
    }
}
