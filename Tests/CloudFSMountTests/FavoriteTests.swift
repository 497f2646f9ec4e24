import CloudFSTestSupport
import Glibc
import Testing

/// What a person notes of documents: favorites, tags, and when they were used.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct FavoriteTests {
    private static let favorite = "user.cloudfs.favorite"

    @Test func `a favorite is one on every device, and a copy of it is none`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            #expect(try await drive.attribute(Self.favorite, of: "file") == "0")
            for word in ["1", "yes", "true"] {
                try await drive.setAttribute(Self.favorite, of: "file", to: word)
                #expect(try await drive.attribute(Self.favorite, of: "file") == "1")
            }
            try await drive.python(
                """
                fails(errno.EINVAL, os.setxattr, "file", "user.cloudfs.favorite", b"perhaps")
                fails(errno.ENOTSUP, os.setxattr, "file", "user.cloudfs.last-used", b"1")
                assert os.listxattr("file") == [], os.listxattr("file")
                """
            )
            try await drive.run("cp -a file copy; cp --preserve=all file other")
            #expect(try await drive.attribute(Self.favorite, of: "copy") == "0")
            #expect(try await drive.info("file")["favorite"] == .flag(true))
            try await drive.withSecondDrive { second in
                try await eventually("the other device knows") {
                    try await second.attribute(Self.favorite, of: "file") == "1"
                }
                #expect(try await second.names(".cloudfs/favorites") == ["file"])
                try await second.run("setfattr -x user.cloudfs.favorite file")
                try await eventually("and takes it away") {
                    try await drive.attribute(Self.favorite, of: "file") == "0"
                }
            }
        }
    }

    @Test func `a favorite that is saved anew is one still`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.setAttribute(Self.favorite, of: "file", to: "1")
            try await drive.run("echo new > .file.tmp; mv .file.tmp file")
            #expect(try await drive.attribute(Self.favorite, of: "file") == "1")
            #expect(try await drive.names(".cloudfs/favorites") == ["file"])
            try await drive.untilCloudHas("file", "new\n")
            try await drive.drain()
            let drive = try await drive.restart()
            #expect(try await drive.attribute(Self.favorite, of: "file") == "1")
        }
    }

    @Test func `what a person opens was used, what a thumbnailer opens was not`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for name in ["seen", "scanned", "untouched"] { try cloud.write(name, name) }
            }
        ) { drive in
            try await drive.run(
                """
                cp /bin/cat "$SCRATCH/tumblerd"
                cat seen > /dev/null
                cat scanned > /dev/null
                """
            )
            let used = try #require(
                try await drive.attribute("user.cloudfs.last-used", of: "seen")
            )
            #expect(used.wholeMatch(of: /20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ/) != nil)
            let before = try await drive.attribute("user.cloudfs.last-used", of: "scanned")
            #expect(try await drive.attribute("user.cloudfs.last-used", of: "untouched") == nil)
            let again = try await drive.restart()
            #expect(try await again.attribute("user.cloudfs.last-used", of: "seen") == used)
            try await again.run(
                """
                while [ "$(date -u +%Y-%m-%dT%H:%M:%SZ)" = "\(used)" ]; do :; done
                "$SCRATCH/tumblerd" scanned untouched
                """,
                status: 1
            )
            #expect(try await again.attribute("user.cloudfs.last-used", of: "scanned") == before)
            #expect(try await again.attribute("user.cloudfs.last-used", of: "untouched") == nil)
            #expect(try await again.names(".cloudfs/recents") == ["scanned", "seen"])
        }
    }

    @Test func `tags that two devices give at once are all there`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.run("setfattr -n user.xdg.tags -v both,old file")
            try await drive.drain()
            try await drive.withSecondDrive { second in
                try await eventually("the other device has the tags") {
                    try await second.attribute("user.xdg.tags", of: "file") == "both,old"
                }
                try await drive.mustDo(["pause"])
                try await second.mustDo(["pause"])
                try await drive.run("setfattr -n user.xdg.tags -v both,here file")
                try await drive.run("setfattr -n user.here -v 1 file")
                try await second.run("setfattr -n user.xdg.tags -v both,old,there file")
                try await second.run("setfattr -n user.cloudfs.favorite -v 1 file")
                try await drive.mustDo(["resume"])
                try await drive.drain()
                try await second.mustDo(["resume"])
                for device in [drive, second] {
                    try await eventually("both have all of it", within: .seconds(20)) {
                        let tags = try await device.attribute("user.xdg.tags", of: "file") ?? ""
                        guard Set(tags.split(separator: ",")) == ["both", "here", "there"],
                            try await device.attribute(Self.favorite, of: "file") == "1"
                        else { return false }
                        return try await device.attribute("user.here", of: "file") == "1"
                    }
                }
                #expect(try await drive.names() == ["file"])
                #expect(try await drive.names(".cloudfs/tags") == ["both", "here", "there"])
            }
        }
    }

    /// No version of a folder tells that something was written on it.
    @Test(.onMounts) func `what two devices write on a folder out of reach is all there`()
        async throws
    {
        try await TestDrive.with(prepare: Filling { try $0.makeFolder("folder") }) { drive in
            try await drive.run("setfattr -n user.xdg.tags -v both folder")
            try await drive.drain()
            try await drive.withSecondDrive { second in
                try await eventually("the other device has the tags") {
                    try await second.attribute("user.xdg.tags", of: "folder") == "both"
                }
                try await drive.run("mv \"$CLOUD\" \"$CLOUD.away\"")
                try await drive.run("setfattr -n user.xdg.tags -v both,here folder")
                try await second.run("setfattr -n user.xdg.tags -v both,there folder")
                try await second.run("setfattr -n user.there -v 1 folder")
                // One after the other: between its look and its change nobody is noticed.
                let other = try #require(second.mount.worker)
                #expect(kill(other, SIGSTOP) == 0)
                defer { kill(other, SIGCONT) }
                try await drive.run("mv \"$CLOUD.away\" \"$CLOUD\"")
                try await eventually("the cloud has what the first wrote", within: .seconds(30)) {
                    let read = "getfattr --only-values -n user.xdg.tags \"$CLOUD/folder\""
                    return try await drive.run(read) == "both,here"
                }
                #expect(kill(other, SIGCONT) == 0)
                for device in [drive, second] {
                    try await eventually("both have all of it", within: .seconds(30)) {
                        let tags = try await device.attribute("user.xdg.tags", of: "folder") ?? ""
                        guard Set(tags.split(separator: ",")) == ["both", "here", "there"] else {
                            return false
                        }
                        return try await device.attribute("user.there", of: "folder") == "1"
                    }
                }
            }
        }
    }
}
