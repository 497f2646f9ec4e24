import CloudFSTestSupport
import Testing

/// What an item tells about itself, without the network.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct AttributeTests {
    @Test func `a placeholder, a part and a resident file say what they are`() async throws {
        try await TestDrive.with(
            ["--hydration", "partial"],
            prepare: Filling { cloud in
                try cloud.write("file", HydrationTests.bytes(4 << 20))
            }
        ) { drive in
            func value(_ name: String) async throws -> String? {
                try await drive.attribute("user.cloudfs.\(name)", of: "file")
            }
            #expect(try await value("status") == "cloud")
            #expect(try await value("downloaded-bytes") == "0")
            #expect(try await value("percent-downloaded") == "0")
            #expect(try await value("downloading-status") == "not-downloaded")

            try await drive.run("head -c 1000 file > /dev/null")
            #expect(try await value("status") == "partial")
            let part = try #require(Int(try await value("downloaded-bytes") ?? ""))
            #expect((1_000..<(4 << 20)).contains(part))
            #expect(try await value("downloading-status") == "not-downloaded")

            try await drive.setAttribute("user.cloudfs.hydrate", of: "file", to: "1")
            try await eventually("it is here") { try await value("status") == "local" }
            #expect(try await value("downloaded-bytes") == "\(4 << 20)")
            #expect(try await value("percent-downloaded") == "100")
            #expect(try await value("downloading-status") == "current")

            try await drive.setAttribute("user.cloudfs.evict", of: "file", to: "1")
            #expect(try await value("status") == "cloud")
            #expect(try await drive.bytes("file") == HydrationTests.bytes(4 << 20))
        }
    }

    @Test func `identity, version, container and type are told`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("photo.jpg", "not really")
                try cloud.write("folder/note.txt", "text")
            }
        ) { drive in
            let identity = try #require(
                try await drive.attribute("user.cloudfs.item-id", of: "photo.jpg")
            )
            #expect(identity.wholeMatch(of: /[0-9a-f]{32}/) != nil)
            let version = try await drive.attribute("user.cloudfs.version", of: "photo.jpg")
            #expect(version?.isEmpty == false)
            #expect(
                try await drive.attribute("user.cloudfs.content-type", of: "photo.jpg")
                    == "image/jpeg"
            )
            #expect(
                try await drive.attribute("user.cloudfs.content-type", of: "folder/note.txt")
                    == "text/plain"
            )
            #expect(
                try await drive.attribute("user.cloudfs.content-type", of: "folder")
                    == "inode/directory"
            )
            let container = try await drive.attribute("user.cloudfs.container", of: "folder")
            #expect(container?.isEmpty == false)
            #expect(
                try await drive.attribute("user.cloudfs.container", of: "photo.jpg") == container
            )
            #expect(try await drive.attribute("user.cloudfs.has-conflicts", of: "photo.jpg") == "0")
            #expect(try await drive.attribute("user.cloudfs.error", of: "photo.jpg") == nil)

            try await drive.run("mv photo.jpg folder/renamed.jpg")
            #expect(try await drive.itemID("folder/renamed.jpg") == identity)
            try drive.cloud.write("folder/note.txt", "changed elsewhere")
            let old = try await drive.attribute("user.cloudfs.version", of: "folder/note.txt")
            try await eventually("the version is another") {
                try await drive.attribute("user.cloudfs.version", of: "folder/note.txt") != old
            }
        }
    }

    @Test func `content tells the type of what is here and has a name that says nothing`()
        async throws
    {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("script", "#!/bin/sh\necho here\n")
                try cloud.write("letter", "Dear all,\n")
                try cloud.write("photo.jpg", "#!/bin/sh\n")
            }
        ) { drive in
            func types() async throws -> [String?] {
                var found: [String?] = []
                for name in ["script", "letter", "photo.jpg"] {
                    found.append(try await drive.attribute("user.cloudfs.content-type", of: name))
                }
                return found
            }
            let unknown = "application/octet-stream"
            #expect(try await types() == [unknown, unknown, "image/jpeg"])
            #expect(try await drive.fetched().bytes == 0)
            try await drive.run("cat script letter photo.jpg")
            try await eventually("what is here tells") {
                try await types() == ["application/x-shellscript", "text/plain", "image/jpeg"]
            }
            #expect(
                try await drive.info("script")["content-type"]?.string
                    == "application/x-shellscript"
            )
        }
    }

    @Test func `gio and Python see what getfattr sees`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file.txt", "text") }) { drive in
            try await drive.run("setfattr -n user.own -v 'mine: ü' file.txt")
            let told = try await drive.run(
                """
                gio info -a 'xattr::own,standard::*' file.txt
                gio set -t string file.txt xattr::theirs yes
                getfattr --only-values -n user.theirs file.txt
                """
            )
            // Bytes beyond ASCII are escaped by gio.
            #expect(told.contains("xattr::own: mine: "), "\(told)")
            #expect(told.contains("standard::size: 4"), "\(told)")
            #expect(told.contains("standard::content-type: text/plain"), "\(told)")
            #expect(told.hasSuffix("yes"), "\(told)")
            try await drive.python(
                """
                assert os.getxattr("file.txt", "user.own").decode() == "mine: ü"
                assert os.getxattr("file.txt", "user.cloudfs.status") in (b"cloud", b"modified")
                assert sorted(os.listxattr("file.txt")) == ["user.own", "user.theirs"]
                os.setxattr("file.txt", "user.own", b"\\0\\xff", os.XATTR_REPLACE)
                assert os.getxattr("file.txt", "user.own") == b"\\0\\xff"
                fails(errno.EEXIST, os.setxattr, "file.txt", "user.own", b"", os.XATTR_CREATE)
                """
            )
            #expect(try await drive.fetched().bytes == 0)
        }
    }

    @Test func `user-cloudfs is all of it as one JSON document`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            let info = try await drive.info("file")
            #expect(info["status"]?.string == "cloud")
            #expect(info["item-id"]?.string == (try await drive.itemID("file")))
            for name in [
                "downloaded-bytes", "percent-downloaded", "downloading-status", "pin", "version",
                "container", "has-conflicts", "content-type",
            ] {
                #expect(info[name] != nil, "\(name) in \(info)")
            }
            #expect(try await drive.fetched().bytes == 0)
        }
    }

    @Test func `they are not listed, so that copies do not take them along`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.run("setfattr -n user.own -v mine file")
            let listed = try await drive.run("getfattr --absolute-names file")
            #expect(listed.contains("user.own"))
            #expect(!listed.contains("cloudfs"))
            try await drive.run(
                """
                cp -a file copy
                rsync -aX file "$SCRATCH/"
                ! getfattr --absolute-names "$SCRATCH/file" | grep cloudfs
                mkdir back && rsync -aX "$SCRATCH/file" back/
                [ "$(getfattr --only-values -n user.own back/file)" = mine ]
                [ "$(getfattr --only-values -n user.own copy)" = mine ]
                [ "$(getfattr --only-values -n user.cloudfs.item-id copy)" != \\
                  "$(getfattr --only-values -n user.cloudfs.item-id file)" ]
                """
            )
        }
    }

    @Test func `files of a cloud directory are copied into a drive with what is theirs`()
        async throws
    {
        try await TestDrive.with { drive in
            // As another drive's directory has them.
            try await drive.run(
                """
                mkdir "$SCRATCH/cloud"; echo text > "$SCRATCH/cloud/file"
                identity=0123456789abcdef0123456789abcdef
                setfattr -n user.cloudfs-id -v $identity "$SCRATCH/cloud/file"
                setfattr -n user.own -v mine "$SCRATCH/cloud/file"
                cp -a "$SCRATCH/cloud/file" .
                [ "$(getfattr --only-values -n user.own file)" = mine ]
                """
            )
            try await drive.untilCloudHas("file", "text\n")
        }
    }

    @Test func `how much of a file was sent is told while it is`() async throws {
        try await TestDrive.with(["--upload-limit", "1MB"]) { drive in
            try await drive.run("head -c 4M /dev/urandom > file")
            try await eventually("a part of it was sent", within: .seconds(20)) {
                let text = try await drive.attribute("user.cloudfs.percent-uploaded", of: "file")
                let percent = text.flatMap(Double.init) ?? 0
                return percent > 0 && percent < 100
            }
            #expect(try await drive.attribute("user.cloudfs.status", of: "file") == "uploading")
            try await drive.drain()
            #expect(try await drive.attribute("user.cloudfs.percent-uploaded", of: "file") == nil)
        }
    }

    @Test func `only pin and the triggers can be written`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                """
                for name in ("status", "item-id", "version", "container", "downloaded-bytes",
                             "nonsense"):
                    fails(errno.ENOTSUP, os.setxattr, "file", "user.cloudfs." + name, b"1")
                fails(errno.ENOTSUP, os.setxattr, "file", "user.cloudfs", b"1")
                fails(errno.EINVAL, os.setxattr, "file", "user.cloudfs.pin", b"sometimes")
                fails(errno.ENODATA, os.getxattr, "file", "user.cloudfs.hydrate")
                fails(errno.ENODATA, os.getxattr, "file", "user.cloudfs.nonsense")
                for name in ("security.selinux", "system.posix_acl_access"):
                    fails(errno.ENOTSUP, os.getxattr, "file", name)
                for value in (b"pinned", b"on-demand", b"excluded", b"inherit"):
                    os.setxattr("file", "user.cloudfs.pin", value)
                    assert os.getxattr("file", "user.cloudfs.pin") == value
                for name in ("trusted.a", "security.a"):
                    try:
                        os.setxattr("file", name, b"1")
                    except OSError as error:
                        assert error.errno in (errno.ENOTSUP, errno.EPERM), error
                    else:
                        raise AssertionError(name)
                """
            )
        }
    }

    @Test func `pin brings content here and keeps it up to date`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("folder/one", HydrationTests.bytes(200_000))
                try cloud.write("folder/sub/two", "text")
                try cloud.write("other", "text")
            }
        ) { drive in
            try await drive.setAttribute("user.cloudfs.pin", of: "folder", to: "pinned")
            try await eventually("the folder is here") {
                guard try await drive.state("folder/one") == "local" else { return false }
                return try await drive.state("folder/sub/two") == "local"
            }
            #expect(try await drive.state("other") == "cloud")
            try drive.cloud.write("folder/sub/two", "changed elsewhere")
            try drive.cloud.write("folder/three", "new")
            try await eventually("it follows") {
                guard try await drive.exists("folder/three"),
                    try await drive.status("folder/sub/two").size == 17
                else { return false }
                guard try await drive.state("folder/three") == "local" else { return false }
                return try await drive.state("folder/sub/two") == "local"
            }
            try await drive.python(
                """
                fails(errno.EBUSY, os.setxattr, "folder/one", "user.cloudfs.evict", b"1")
                """
            )
            #expect(try await drive.state("folder/one") == "local")
        }
    }

    @Test func `excluded items stay here and are deleted nowhere`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.run(
                """
                mkdir private
                setfattr -n user.cloudfs.pin -v excluded private
                echo secret > private/diary
                echo seen > public
                """
            )
            try await drive.untilCloudHas("public", "seen\n")
            try await drive.drain()
            #expect(!drive.cloud.exists("private/diary"))
            #expect(try await drive.state("private/diary") == "excluded")
            try await drive.run("setfattr -n user.cloudfs.pin -v inherit private")
            try await drive.untilCloudHas("private/diary", "secret\n")
        }
    }

    @Test func `what leaves an excluded folder is sent with all that is in it`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                mkdir private
                setfattr -n user.cloudfs.pin -v excluded private
                mkdir -p private/docs/deep
                echo one > private/docs/one
                echo two > private/docs/deep/two
                echo public > public
                """
            )
            try await drive.untilCloudHas("public", "public\n")
            try await drive.drain()
            try await drive.run("mv private/docs docs")
            try await drive.untilCloudHas("docs/deep/two", "two\n")
            try await drive.untilCloudHas("docs/one", "one\n")
        }
    }

    @Test func `what is removed in an excluded folder stays in the cloud`() async throws {
        let filling = Filling { cloud in
            try cloud.write("archive/sub/one", "one")
            try cloud.write("archive/two", "two")
            try cloud.write("alone", "alone")
        }
        try await TestDrive.with(prepare: filling) { drive in
            try await drive.run(
                """
                ls -R > /dev/null
                setfattr -n user.cloudfs.pin -v excluded archive alone
                rm -r archive alone
                """
            )
            try await drive.drain()
            #expect(
                try drive.cloud.paths().sorted() == [
                    "alone", "archive", "archive/sub", "archive/sub/one", "archive/two",
                ]
            )
            // It is the cloud's alone now, and shown as that.
            try drive.cloud.write("alone", "another")
            try await eventually("it is shown again") {
                let command = "cat alone archive/sub/one archive/two 2>&1 || true"
                return try await drive.run(command) == "anotheronetwo"
            }
        }
    }

    @Test func `what wants the name of something excluded is seen waiting`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("build/a", "old") }) { drive in
            try await drive.run(
                """
                cat build/a > /dev/null
                setfattr -n user.cloudfs.pin -v excluded build
                mv build build.old
                mkdir -p build/sub
                echo thesis > build/sub/text
                """
            )
            for name in ["build", "build/sub", "build/sub/text"] {
                try await eventually("\(name) is seen waiting") {
                    try await drive.state(name) == "error"
                }
            }
            let queue = try await drive.mustDo(["queue"])
            #expect(queue.contains("its name is taken in the cloud by something excluded"))
            #expect(try drive.cloud.paths().sorted() == ["build", "build/a"])
            // The cloud's folder is the cloud's alone then, and becomes one with the new one.
            try await drive.run("rm -r build.old")
            try await drive.untilCloudHas("build/sub/text", "thesis\n", within: .seconds(30))
            #expect(drive.cloud.text("build/a") == "old")
        }
    }

    @Test func `a value longer than the kernel allows and too many of them are refused`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.python(
                """
                fails(errno.E2BIG, os.setxattr, "file", "user.big", b"x" * 65537)
                os.setxattr("file", "user.fits", b"x" * 2000)
                assert os.getxattr("file", "user.fits") == b"x" * 2000
                for number in range(15):
                    os.setxattr("file", f"user.n{number}", b"x" * 65536)
                fails(errno.ENOSPC, os.setxattr, "file", "user.n15", b"x" * 65536)
                os.setxattr("file", "user.n15", b"x" * 60000)
                assert os.getxattr("file", "user.fits") == b"x" * 2000
                for number in range(16): os.removexattr("file", f"user.n{number}")
                # Of more names the kernel could list none.
                names = [f"user.{number:0200}" for number in range(330)]
                for name in names[:310]: os.setxattr("file", name, b"")
                for name in names[310:]:
                    try: os.setxattr("file", name, b"")
                    except OSError as error: assert error.errno == errno.ENOSPC, error
                assert len(os.listxattr("file")) > 310
                fails(errno.ENOSPC, os.setxattr, "file", names[-1], b"")
                for name in ("user.cloudfs-attributes", "user.cloudfs-id"):
                    fails(errno.ENOTSUP, os.setxattr, "file", name, b"x")
                """
            )
        }
    }

    @Test func `attributes that the cloud has no room for arrive, and keep no content back`()
        async throws
    {
        try await TestDrive.with(slots: 2) { drive in
            try await drive.withSecondDrive { second in
                try await drive.python(
                    """
                    with open("file", "w") as file: file.write("text")
                    for number in range(4):
                        os.setxattr("file", f"user.large{number}", bytes([number]) * 50000)
                    os.setxattr("file", "user.xdg.tags", b"red")
                    """
                )
                try await drive.untilCloudHas("file", "text")
                try await drive.drain()
                try await eventually("the other device has them", within: .seconds(20)) {
                    guard try await second.exists("file") else { return false }
                    let value = try await second.bytes(ofAttribute: "user.large3", of: "file")
                    return value == [UInt8](repeating: 3, count: 50_000)
                }
                #expect(try await second.attribute("user.xdg.tags", of: "file") == "red")
                try await second.run("setfattr -x user.large3 file; setfattr -n user.one -v 1 file")
                try await eventually("a change comes back", within: .seconds(20)) {
                    guard try await drive.attribute("user.one", of: "file") == "1" else {
                        return false
                    }
                    return try await drive.bytes(ofAttribute: "user.large3", of: "file") == nil
                }
                #expect(
                    try await drive.bytes(ofAttribute: "user.large2", of: "file")
                        == [UInt8](repeating: 2, count: 50_000)
                )
            }
        }
    }
}
