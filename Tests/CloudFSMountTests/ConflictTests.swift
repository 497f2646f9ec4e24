import CloudFSTestSupport
import Testing

/// Both sides changed the same thing: nothing is lost, and both can be seen.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct ConflictTests {
    /// Lets both sides change things without hearing of each other, then waits for peace.
    static func apart(
        _ arguments: [String] = [],
        slots: Int = 1,
        prepare: Filling,
        here: String,
        elsewhere: String,
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await TestDrive.with(
            ["--device-name", "testbox"] + arguments,
            slots: slots,
            prepare: prepare
        ) { drive in
            try await drive.run("find . > /dev/null; cat document.txt > /dev/null 2>&1 || true")
            try await drive.mustDo(["pause"])
            try await drive.run(here)
            try await drive.run("cd \"$CLOUD\"\n" + elsewhere)
            try await drive.mustDo(["resume"])
            try await drive.drain()
            try await body(drive)
        }
    }

    private static func document(_ cloud: TestFolder) throws {
        try cloud.write("document.txt", "base\n")
    }

    /// Matches the name of a conflicted copy of `document.txt`.
    private static func isCopy(_ name: String) -> Bool {
        let pattern =
            /document \(conflicted copy testbox \d{4}-\d\d-\d\d \d\d-\d\d-\d\d( \d+)?\)\.txt/
        return name.wholeMatch(of: pattern) != nil
    }

    private static let flag = "user.cloudfs.has-conflicts"

    /// A document that was changed on both sides, and the name of our version of it.
    private static func inConflict(
        _ arguments: [String] = [],
        slots: Int = 1,
        body: (TestDrive, String) async throws -> Void
    ) async throws {
        try await apart(
            arguments,
            slots: slots,
            prepare: Filling(document),
            here: "echo ours > document.txt",
            elsewhere: "echo theirs > document.txt"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            let copy = try #require(try await drive.names().first(where: isCopy))
            try await drive.untilCloudHas(copy, "ours\n")
            try await body(drive, copy)
        }
    }

    @Test func `when both changed it the cloud's version gets the name and ours is kept beside`()
        async throws
    {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "echo ours > document.txt",
            elsewhere: "echo theirs > document.txt"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            let names = try await drive.names()
            let copy = try #require(names.first(where: Self.isCopy), "\(names)")
            #expect(try await drive.text("document.txt") == "theirs\n")
            #expect(try await drive.text(copy) == "ours\n")
            try await drive.untilCloudHas(copy, "ours\n")
            #expect(drive.cloud.text("document.txt") == "theirs\n")
            for name in names {
                #expect(try await drive.attribute("user.cloudfs.has-conflicts", of: name) == "1")
            }
            #expect(try await drive.itemID(copy) != drive.itemID("document.txt"))
            let listed = try await drive.cloudfs(["conflicts"])
            #expect(listed.status == 0)
            #expect(listed.output.contains("document.txt"), "\(listed)")
        }
    }

    /// What it lacks is fetched at once, as the cloud may not have it any more when it is sent.
    @Test func `a line added to what was not here is whole, whoever saves the document next`()
        async throws
    {
        try await TestDrive.with(
            ["--device-name", "testbox", "--quiet-time", "1h"],
            prepare: Filling(Self.document)
        ) { drive in
            try await drive.run("echo ours >> document.txt")
            try await eventually("the rest is here") {
                try await drive.attribute("user.cloudfs.percent-downloaded", of: "document.txt")
                    == "100"
            }
            try drive.cloud.write("document.txt", "theirs\n")
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            let copy = try #require(try await drive.names().first(where: Self.isCopy))
            #expect(try await drive.text(copy) == "base\nours\n")
            #expect(try await drive.text("document.txt") == "theirs\n")
        }
    }

    @Test func `a conflict is settled by removing one of the versions`() async throws {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "echo ours > document.txt",
            elsewhere: "echo theirs > document.txt"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            try await drive.run("rm document\\ *")
            try await eventually("it is settled", within: .seconds(20)) {
                let flag = "user.cloudfs.has-conflicts"
                return try await drive.attribute(flag, of: "document.txt") == "0"
            }
            try await eventually("in the cloud too", within: .seconds(20)) {
                try drive.cloud.paths() == ["document.txt"]
            }
        }
    }

    @Test func `a version that is given another name is a document of its own`() async throws {
        try await Self.inConflict { drive, copy in
            try await drive.run("mv \"$COPY\" mine.txt".replacing("$COPY", with: copy))
            #expect(try await drive.attribute(Self.flag, of: "document.txt") == "0")
            #expect(try await drive.attribute(Self.flag, of: "mine.txt") == "0")
            #expect(try await drive.cloudfs(["conflicts"]).output == "no conflicts\n")
        }
    }

    @Test func `keeping one version makes it the document, here and on other devices`()
        async throws
    {
        try await Self.inConflict(slots: 2) { drive, copy in
            try await drive.withSecondDrive { other in
                // What is new to a device is in conflict there, too.
                try await eventually("the other device has both", within: .seconds(20)) {
                    try await other.names().count == 2
                }
                let listed = try await other.cloudfs(["conflicts"]).output
                #expect(listed.contains("from testbox"), "\(listed)")
                let shown = try await other.cloudfs(["conflicts", "show", other.path + "/" + copy])
                #expect(shown.output.contains(other.path + "/document.txt"), "\(shown)")
                let kept = try await drive.cloudfs(["conflicts", "keep", drive.path + "/" + copy])
                #expect(kept.output == "kept: \(drive.path)/document.txt\n", "\(kept)")
                for each in [drive, other] {
                    try await eventually("one is left", within: .seconds(20)) {
                        guard try await each.names() == ["document.txt"] else { return false }
                        return try await each.text("document.txt") == "ours\n"
                    }
                    #expect(try await each.attribute(Self.flag, of: "document.txt") == "0")
                }
                let again = try await drive.cloudfs([
                    "conflicts", "keep", drive.path + "/document.txt",
                ])
                #expect(again.status == 1 && again.errors.contains("has no other versions"))
            }
        }
    }

    @Test func `keeping all versions gives each a name of its own`() async throws {
        try await Self.inConflict { drive, copy in
            let document = drive.path + "/document.txt"
            let difference = try await drive.cloudfs(["conflicts", "show", "--diff", document])
            #expect(difference.status == 1)
            #expect(difference.output.contains("-theirs\n+ours"), "\(difference)")
            try await drive.mustDo(["conflicts", "keep", "--all", document])
            let own = copy.replacing("conflicted copy ", with: "")
            #expect(try await drive.names() == [own, "document.txt"])
            #expect(try await drive.text(own) == "ours\n")
            #expect(try await drive.text("document.txt") == "theirs\n")
            #expect(try await drive.attribute(Self.flag, of: own) == "0")
            try await drive.untilCloudHas(own, "ours\n")
        }
    }

    @Test func `a merge ends a conflict, and one that fails leaves it`() async throws {
        try await Self.inConflict { drive, copy in
            let document = drive.path + "/document.txt"
            let merge = ["conflicts", "merge", document, "--", "sh", "-c"]
            let failed = try await drive.cloudfs(merge + ["exit 3", "merge"])
            #expect(failed.status == 3, "\(failed)")
            #expect(try await drive.names().count == 2)
            let done = try await drive.cloudfs(merge + ["cat \"$2\" >> \"$1\"", "merge"])
            let removed = "removed: \(drive.path)/\(copy)\n"
            #expect(done.output == "kept: \(drive.path)/document.txt\n" + removed, "\(done)")
            #expect(try await drive.names() == ["document.txt"])
            try await drive.untilCloudHas("document.txt", "theirs\nours\n")
            let wrong = try await drive.cloudfs(["conflicts", "merge", document])
            let none = try await drive.cloudfs(["conflicts", "show", drive.path + "/none"])
            #expect(none.status == 1 && none.errors.contains("does not exist"), "\(none)")
            #expect(wrong.status == 64 && wrong.errors.contains("after --"), "\(wrong)")
        }
    }

    @Test func `a version that comes during a merge is not lost with the others`() async throws {
        try await Self.inConflict { drive, copy in
            let late = "document (conflicted copy other 2026-01-01 00-00-00).txt"
            let merge = [
                "conflicts", "merge", drive.path + "/document.txt", "--", "sh", "-c",
                "echo late > '\(late)'; echo merged > \"$1\"", "merge",
            ]
            let refused = try await drive.cloudfs(merge)
            #expect(refused.status == 1 && refused.errors.contains("look again"), "\(refused)")
            #expect(try await drive.names() == [copy, late, "document.txt"].sorted())
            #expect(try await drive.text(late) == "late\n")
            try await drive.mustDo(["conflicts", "keep", drive.path + "/" + late])
            #expect(try await drive.names() == ["document.txt"])
            #expect(try await drive.text("document.txt") == "late\n")
        }
    }

    @Test func `a file that lost its name to a folder is in conflict, and the folder stays`()
        async throws
    {
        try await Self.apart(
            prepare: Filling { try $0.write("other", "stays") },
            here: "echo ours > thing",
            elsewhere: "mkdir thing; echo theirs > thing/inner"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 3
            }
            let copy = try #require(try await drive.names().first { $0.contains("conflicted") })
            let listed = try await drive.mustDo(["conflicts"])
            #expect(listed.contains(copy), "\(listed)")
            for name in ["thing", copy] {
                #expect(try await drive.attribute(Self.flag, of: name) == "1")
            }
            let refused = try await drive.cloudfs(["conflicts", "keep", "\(drive.path)/\(copy)"])
            #expect(refused.status == 1 && refused.errors.contains("is a folder"), "\(refused)")
            #expect(try await drive.text("thing/inner") == "theirs\n")
            #expect(try await drive.text(copy) == "ours\n")
            // The folder is what is wanted: then the file goes.
            try await drive.mustDo(["conflicts", "keep", "\(drive.path)/thing"])
            #expect(try await drive.names() == ["other", "thing"])
            #expect(try await drive.attribute(Self.flag, of: "thing") == "0")
        }
    }

    @Test func `a folder that lost its name to a file can have it back`() async throws {
        try await TestDrive.with { drive in
            let copy = "thing (conflicted copy testbox 2026-11-20 14-30-05)"
            try await drive.run("echo 1 > thing; mkdir '\(copy)'; echo 2 > '\(copy)/inner'")
            let kept = try await drive.mustDo(["conflicts", "keep", "\(drive.path)/\(copy)"])
            #expect(kept.contains("kept: \(drive.path)/thing"), "\(kept)")
            #expect(try await drive.names() == ["thing"])
            #expect(try await drive.text("thing/inner") == "2\n")
            try await drive.drain()
            #expect(try drive.cloud.paths().sorted() == ["thing", "thing/inner"])
        }
    }

    @Test func `a conflict is seen and ended by attributes`() async throws {
        try await Self.inConflict { drive, copy in
            let (list, resolve) = ("user.cloudfs.conflicts", "user.cloudfs.resolve")
            #expect(try await drive.attribute(list, of: "document.txt") == "[\"\(copy)\"]")
            #expect(try await drive.attribute(list, of: copy) == "[]")
            try await drive.python(
                """
                def fails(value):
                    try: os.setxattr("document.txt", "\(resolve)", value)
                    except OSError as error: return error.errno == errno.EINVAL
                assert fails(b"both")
                name = os.listdir(".")[0]
                holder = open("\(copy)")
                os.setxattr("\(copy)", "\(resolve)", b"keep-this")
                # The kernel is told beside the call.
                end = time.monotonic() + 20
                while (os.path.exists("\(copy)") or os.listdir(".") != ["document.txt"]
                       or open("document.txt").read() != "ours\\n"):
                    assert time.monotonic() < end, os.listdir(".")
                assert holder.read() == "ours\\n"
                # What is ended is ended.
                os.setxattr("document.txt", "\(resolve)", b"keep-this")
                """
            )
            try await drive.untilCloudHas("document.txt", "ours\n")
        }
    }

    @Test(.asRoot) func `other users end no conflict by an attribute`() async throws {
        try await Self.inConflict(["-o", "allow_other"]) { drive, copy in
            try await drive.run(
                """
                chmod 755 . "$(dirname "$DRIVE")"
                chown 1234 document.txt "\(copy)"
                ends() {
                    setpriv --reuid=$1 --regid=$1 --clear-groups \\
                        setfattr -n user.cloudfs.resolve -v keep-this document.txt
                }
                if ends 1234; then exit 1; fi
                [ "$(ls | wc -l)" = 2 ]
                ends 0
                """
            )
            try await eventually("one is left") {
                try await drive.names() == ["document.txt"]
            }
        }
    }

    @Test func `identical bytes are no conflict`() async throws {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "echo same > document.txt; echo twin > new.txt",
            elsewhere: "echo same > document.txt; echo twin > new.txt"
        ) { drive in
            try await eventually("it is settled", within: .seconds(20)) {
                guard try await drive.state("document.txt") == "local" else { return false }
                return try await drive.state("new.txt") == "local"
            }
            #expect(try await drive.names() == ["document.txt", "new.txt"])
            #expect(try drive.cloud.paths() == ["document.txt", "new.txt"])
            #expect(try await drive.text("document.txt") == "same\n")
        }
    }

    @Test func `an edit here beats a deletion there`() async throws {
        try await Self.apart(
            prepare: Filling { cloud in
                try cloud.write("document.txt", "base\n")
                // A cloud folder that is empty all at once counts as out of reach.
                try cloud.write("other", "stays")
            },
            here: "echo ours > document.txt",
            elsewhere: "rm document.txt"
        ) { drive in
            try await drive.untilCloudHas("document.txt", "ours\n")
            #expect(try await drive.text("document.txt") == "ours\n")
            #expect(try await drive.names() == ["document.txt", "other"])
        }
    }

    @Test func `an edit there beats a deletion here`() async throws {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "rm document.txt",
            elsewhere: "echo theirs > document.txt"
        ) { drive in
            try await eventually("it is back", within: .seconds(20)) {
                try await drive.exists("document.txt")
            }
            #expect(try await drive.text("document.txt") == "theirs\n")
            #expect(drive.cloud.text("document.txt") == "theirs\n")
        }
    }

    @Test func `two files made under one name are both kept`() async throws {
        try await Self.apart(
            prepare: Filling { _ in },
            here: "echo ours > document.txt",
            elsewhere: "echo theirs > document.txt"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            let copy = try #require(try await drive.names().first(where: Self.isCopy))
            #expect(try await drive.text("document.txt") == "theirs\n")
            try await drive.untilCloudHas(copy, "ours\n")
        }
    }

    @Test func `two folders made under one name become one`() async throws {
        try await Self.apart(
            prepare: Filling { _ in },
            here: "mkdir -p folder/sub; echo ours > folder/sub/a",
            elsewhere: "mkdir -p folder/sub; echo theirs > folder/sub/b"
        ) { drive in
            try await eventually("both files are on both sides", within: .seconds(20)) {
                guard try drive.cloud.paths().count == 4 else { return false }
                return try await drive.has(["folder/sub/a", "folder/sub/b"])
            }
            #expect(try await drive.text("folder/sub/b") == "theirs\n")
            #expect(drive.cloud.text("folder/sub/a") == "ours\n")
            #expect(try await drive.names() == ["folder"])
        }
    }

    @Test func `a rename here and an edit there are both kept without a conflict`() async throws {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "mkdir folder; mv document.txt folder/renamed.txt",
            elsewhere: "echo theirs > document.txt"
        ) { drive in
            try await eventually("both happened", within: .seconds(20)) {
                drive.cloud.text("folder/renamed.txt") == "theirs\n"
                    && !drive.cloud.exists("document.txt")
            }
            try await eventually("here as well", within: .seconds(20)) {
                guard try await drive.has(["folder/renamed.txt"], not: ["document.txt"]) else {
                    return false
                }
                return try await drive.text("folder/renamed.txt") == "theirs\n"
            }
        }
    }

    @Test func `an edit here and a rename there are both kept without a conflict`() async throws {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "echo ours > document.txt",
            elsewhere: "mkdir folder; mv document.txt folder/renamed.txt"
        ) { drive in
            try await eventually("both happened", within: .seconds(20)) {
                drive.cloud.text("folder/renamed.txt") == "ours\n"
                    && !drive.cloud.exists("document.txt")
            }
            try await eventually("here as well", within: .seconds(20)) {
                try await drive.has(["folder/renamed.txt"], not: ["document.txt"])
            }
        }
    }

    @Test func `renamed to two names it stays one file with its bytes`() async throws {
        try await Self.apart(
            prepare: Filling(Self.document),
            here: "mv document.txt ours.txt",
            elsewhere: "mv document.txt theirs.txt"
        ) { drive in
            try await eventually("both sides agree", within: .seconds(20)) {
                let names = try await drive.names()
                return try names.count == 1 && drive.cloud.paths() == names
            }
            let name = try #require(try await drive.names().first)
            #expect(["ours.txt", "theirs.txt"].contains(name))
            #expect(try await drive.text(name) == "base\n")
        }
    }

    @Test func `a file made in a folder that was deleted there survives`() async throws {
        try await Self.apart(
            prepare: Filling { cloud in
                try cloud.write("folder/old", "old")
                // A cloud folder that is empty all at once counts as out of reach.
                try cloud.write("other", "stays")
            },
            here: "echo new > folder/new",
            elsewhere: "rm -r folder"
        ) { drive in
            try await eventually("both sides have the new one only", within: .seconds(20)) {
                guard try drive.cloud.paths() == ["folder", "folder/new", "other"] else {
                    return false
                }
                return try await drive.has(["folder/new"], not: ["folder/old"])
            }
            #expect(drive.cloud.text("folder/new") == "new\n")
        }
    }

    @Test func `a folder whose place a file got there is kept under a name of its own`()
        async throws
    {
        try await Self.apart(
            prepare: Filling { cloud in
                try cloud.write("folder/old", "old")
                try cloud.write("other", "stays")
            },
            here: "echo new > folder/new",
            elsewhere: "rm -r folder; echo theirs > folder"
        ) { drive in
            try await eventually("the new one has a folder again", within: .seconds(20)) {
                let paths = try drive.cloud.paths()
                return paths.count == 4 && paths.contains { $0.hasSuffix("/new") }
            }
            let kept = try #require(try drive.cloud.paths().first { $0.hasSuffix("/new") })
            #expect(kept.hasPrefix("folder (conflicted copy testbox "))
            #expect(drive.cloud.text(kept) == "new\n")
            #expect(try await drive.text(kept) == "new\n")
            #expect(try await drive.text("folder") == "theirs\n")
            #expect(try await drive.names().count == 3)
        }
    }

    @Test func `a file changed there in a folder deleted here survives`() async throws {
        try await Self.apart(
            prepare: Filling { cloud in
                try cloud.write("folder/changed", "base")
                try cloud.write("folder/same", "base")
            },
            here: "rm -r folder",
            elsewhere: "echo theirs > folder/changed"
        ) { drive in
            try await eventually("both sides have the changed one only", within: .seconds(20)) {
                guard try drive.cloud.paths() == ["folder", "folder/changed"] else { return false }
                return try await drive.has(["folder/changed"], not: ["folder/same"])
            }
            #expect(try await drive.text("folder/changed") == "theirs\n")
        }
    }

    @Test func `a conflict of an open file waits for its last close`() async throws {
        try await TestDrive.with(["--device-name", "testbox"], prepare: Filling(Self.document)) {
            drive in
            try await drive.python(
                """
                file = os.open("document.txt", os.O_RDWR)
                assert os.pread(file, 100, 0) == b"base\\n"
                os.pwrite(file, b"OURS", 0)
                with open(cloud + "/document.txt", "w") as other:
                    other.write("theirs")
                with open(cloud + "/later", "w") as other:
                    other.write("1")
                end = time.monotonic() + 5
                while not os.path.exists("later"):
                    assert time.monotonic() < end
                    time.sleep(0.02)
                assert os.pread(file, 100, 0) == b"OURS\\n"
                os.pwrite(file, b" and more", 4)
                os.close(file)
                """
            )
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 3
            }
            let copy = try #require(try await drive.names().first(where: Self.isCopy))
            #expect(try await drive.text(copy) == "OURS and more")
            #expect(try await drive.text("document.txt") == "theirs")
        }
    }

    @Test func `two devices that edited the same file both see both versions`() async throws {
        try await TestDrive.with(["--device-name", "testbox"], prepare: Filling(Self.document)) {
            first in
            try await first.withSecondDrive { second in
                _ = try await second.text("document.txt")
                try await first.mustDo(["pause"])
                try await first.run("echo ours > document.txt")
                try await second.run("echo theirs > document.txt")
                try await first.untilCloudHas("document.txt", "theirs\n")
                try await first.mustDo(["resume"])
                try await eventually("both see both", within: .seconds(10)) {
                    let names = try await first.names()
                    guard names.count == 2 else { return false }
                    return try await second.names() == names
                }
                let copy = try #require(try await second.names().first(where: Self.isCopy))
                for drive in [first, second] {
                    #expect(try await drive.text(copy) == "ours\n")
                    #expect(try await drive.text("document.txt") == "theirs\n")
                }
            }
        }
    }

    @Test(arguments: [false, true])
    func `a link that two devices lead elsewhere is lost on neither`(
        isRemoved: Bool
    ) async throws {
        let filling = Filling { try $0.makeSymlink("link", target: "v1") }
        try await TestDrive.with(["--device-name", "testbox"], prepare: filling) { first in
            try await first.withSecondDrive { second in
                #expect(try await second.run("readlink link") == "v1")
                try await first.mustDo(["pause"])
                try await first.run(isRemoved ? "rm link" : "ln -sfn v2 link")
                try await second.run("ln -sfn v3 link")
                try await second.drain()
                // Whoever lists the folder meanwhile hears of it.
                try await first.mustDo(["refresh", "."])
                try await first.mustDo(["resume"])
                try await first.drain()
                try await eventually("both see all that was made") {
                    let links = "find . -type l -printf '%l\n' | sort"
                    let wanted = isRemoved ? "v3" : "v2\nv3"
                    guard try await first.run(links) == wanted else { return false }
                    return try await second.run(links) == wanted
                }
            }
        }
    }

    @Test func `the name of a conflicted copy fits into 255 bytes`() async throws {
        let name = String(repeating: "ü", count: 125) + ".txt"
        try await Self.apart(
            prepare: Filling { try $0.write(name, "base") },
            here: "echo ours > *.txt",
            elsewhere: "echo theirs > *.txt"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            let copy = try #require(try await drive.names().first { $0 != name })
            #expect(copy.utf8.count <= 255)
            #expect(copy.hasPrefix("üüü") && copy.hasSuffix(").txt"))
            #expect(!copy.unicodeScalars.contains("\u{fffd}"))
        }
    }
}
