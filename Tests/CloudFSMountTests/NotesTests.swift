import CloudFSTestSupport
import Glibc
import Testing

/// The example program: a document that several programs and devices write.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct NotesTests {
    /// A notebook that is open, and its standard input.
    private struct Notebook {
        let drive: TestDrive
        let name: String
        let process: ChildProcess

        init(_ words: String, _ name: String, on drive: TestDrive) throws {
            (self.drive, self.name) = (drive, name)
            process = try drive.start(
                """
                mkfifo \(drive.folder)/run/\(name).in
                exec cloudfs-notes \(words) < <(
                    exec 3<> \(drive.folder)/run/\(name).in
                    while read -r line <&3 && test "$line" != END; do echo "$line"; done)
                """,
                output: "\(drive.folder)/run/\(name).out"
            )
        }

        var said: String { Shell.text(of: "\(drive.folder)/run/\(name).out") }

        func write(_ line: String) async throws {
            try await drive.run("echo '\(line)' > ../run/\(name).in")
        }

        func hears(_ line: String) async throws {
            try await eventually("\(name) hears: \(line)", within: .seconds(20)) {
                try #require(process.status == nil, "\(said)")
                return said.contains(line)
            }
        }

        func end() async throws {
            try await write("END")
            #expect(try await process.wait(within: .seconds(20)) == 0, "\(said)")
        }
    }

    private func presented(_ count: Int, on drive: TestDrive) async throws {
        try await eventually("\(count) present it") {
            try await drive.cloudfs(["claims"]).output.matches(of: #/presented by/#).count == count
        }
    }

    /// A file, and a package: a folder that is one document.
    @Test(arguments: ["book", "book.notebook"])
    func `two programs and another device write one notebook, and hear of each other`(
        name: String
    ) async throws {
        let text = name == "book" ? name : "\(name)/notes.txt"
        let packages = ["--package", "notebook"]
        try await TestDrive.with(packages, slots: 2) { drive in
            try await drive.withSecondDrive(packages) { second in
                let first = try Notebook("--new \(name)", "first", on: drive)
                try await presented(1, on: drive)
                let other = try Notebook(name, "other", on: drive)
                try await presented(2, on: drive)
                try await first.write("one")
                // Nobody waits for the two seconds: who reads has it saved.
                #expect(try await drive.run("cloudfs-notes --show \(name)") == "one")
                try await other.hears("one")
                try await other.write("two")
                try await first.hears("two")
                try await eventually("the other device has it", within: .seconds(30)) {
                    guard try await second.exists(name) else { return false }
                    do {
                        return try await second.text(text) == "one\ntwo\n"
                    } catch let error as SystemError where error.code == ESTALE {
                        // It was replaced in the cloud between the open and the read.
                        return false
                    }
                }
                let elsewhere = try Notebook(name, "elsewhere", on: second)
                try await presented(1, on: second)
                try await elsewhere.write("three")
                try await elsewhere.end()
                try await first.hears("three")
                // What a program knows nothing of all that does is heard, too.
                try await drive.run("echo four >> \(text)")
                try await other.hears("four")
                try await first.end()
                try await other.end()
                #expect(try await drive.text(text) == "one\ntwo\nthree\nfour\n")
                #expect(try await drive.names() == [name])
            }
        }
    }

    @Test(arguments: ["book", "book.notebook"])
    func `two programs hear of each other before the cloud has the notebook`(
        name: String
    ) async throws {
        try await TestDrive.with(["--package", "notebook"]) { drive in
            try await drive.mustDo(["pause"])
            let first = try Notebook("--new \(name)", "first", on: drive)
            try await presented(1, on: drive)
            let other = try Notebook(name, "other", on: drive)
            try await presented(2, on: drive)
            try await first.write("one")
            try await other.hears("one")
            try await other.write("two")
            try await first.hears("two")
            try await drive.mustDo(["resume"])
            try await first.end()
            try await other.end()
            #expect(try await drive.names() == [name])
        }
    }

    @Test func `a notebook follows its file, and goes on with another daemon`() async throws {
        try await TestDrive.with { drive in
            let book = try Notebook("--new book", "keeper", on: drive)
            try await presented(1, on: drive)
            try await drive.run("mkdir shelf; mv book shelf/moved")
            try await book.write("after the move")
            try await eventually("it is saved where it is now") {
                guard try await drive.exists("shelf/moved") else { return false }
                return try await drive.text("shelf/moved") == "after the move\n"
            }
            try await drive.mustDo(["restart"])
            try await presented(1, on: drive)
            try await book.write("after the restart")
            try await book.end()
            #expect(try await drive.text("shelf/moved") == "after the move\nafter the restart\n")
            #expect(try await !drive.exists("book"))
        }
    }

    @Test func `a program hears that its document is in conflict, and that it is settled`()
        async throws
    {
        try await TestDrive.with { drive in
            let book = try Notebook("--new book", "book", on: drive)
            try await presented(1, on: drive)
            try await drive.untilCloudHas("book", "")
            try await drive.mustDo(["pause"])
            try await drive.run("echo ours >> book; echo theirs > \"$CLOUD/book\"")
            try await drive.mustDo(["resume"])
            try await book.hears("(others changed it, too)")
            try await book.hears("theirs")
            let second = "book (conflicted copy other 2026-01-01 00-00-00)"
            try await drive.run("echo more > '\(second)'; rm '\(second)'; echo four >> book")
            // Told in this order: one of two versions that goes settles nothing.
            try await book.hears("four")
            #expect(!book.said.contains("(that is settled)"), "\(book.said)")
            try await drive.mustDo(["conflicts", "keep", "\(drive.path)/book"])
            try await book.hears("(that is settled)")
            try await book.end()
        }
    }

    @Test func `a save carries a picture and attributes, and keeps those of others`() async throws {
        try await TestDrive.with(slots: 2) { drive in
            try await drive.run("echo one > book; setfattr -n user.xdg.tags -v red book")
            let book = try Notebook("book", "writer", on: drive)
            try await presented(1, on: drive)
            try await book.write("two")
            try await book.end()
            #expect(try await drive.attribute("user.xdg.tags", of: "book") == "red")
            #expect(try await drive.attribute("user.xdg.comment", of: "book") == "2 notes")
            try await eventually("it has a picture of its own", within: .seconds(20)) {
                let picture = try await drive.bytes(
                    ofAttribute: "user.cloudfs.thumbnail.128",
                    of: "book"
                )
                return picture?.starts(with: [0x89, 0x50]) ?? false
                    || picture?.starts(with: [0xff, 0xd8]) ?? false
            }
            try await drive.drain()
            try await drive.withSecondDrive { second in
                try await eventually("another device shows it", within: .seconds(30)) {
                    guard try await second.exists("book") else { return false }
                    return try await second.bytes(
                        ofAttribute: "user.cloudfs.thumbnail",
                        of: "book"
                    ) != nil
                }
                #expect(try await second.attribute("user.cloudfs.status", of: "book") == "cloud")
                #expect(try await second.attribute("user.xdg.comment", of: "book") == "2 notes")
            }
        }
    }

    @Test func `what two devices wrote at once is merged by a program`() async throws {
        try await ConflictTests.apart(
            prepare: Filling { cloud in try cloud.write("book", "one\n") },
            here: "printf 'one\nours\n' > book",
            elsewhere: "printf 'one\ntheirs\n' > book"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            let said = try await drive.run("cloudfs-notes --merge book")
            #expect(said == "merged what testbox wrote")
            #expect(try await drive.names() == ["book"])
            try await drive.untilCloudHas("book", "one\ntheirs\nours\n")
        }
    }

    @Test func `two versions of a package are merged by a program`() async throws {
        try await TestDrive.with(["--device-name", "testbox", "--package", "notebook"]) { drive in
            try await drive.run("echo one | cloudfs-notes --new book.notebook")
            try await drive.drain()
            try await drive.withSecondDrive(["--package", "notebook"]) { second in
                try await eventually("it is there") { try await second.has(["book.notebook"]) }
                try await second.run("cloudfs-notes --show book.notebook")
                try await drive.mustDo(["pause"])
                try await drive.run("echo ours >> book.notebook/notes.txt")
                try await second.run("echo theirs >> book.notebook/notes.txt")
                try await second.drain()
                try await drive.mustDo(["resume"])
                try await eventually("both are here", within: .seconds(20)) {
                    try await drive.names().count == 2
                }
                let said = try await drive.run("cloudfs-notes --merge book.notebook")
                #expect(said == "merged what testbox wrote")
                #expect(try await drive.names() == ["book.notebook"])
                try await drive.drain()
                try await eventually("the other device has all", within: .seconds(20)) {
                    guard try await second.names() == ["book.notebook"] else { return false }
                    return try await second.text("book.notebook/notes.txt")
                        == "one\ntheirs\nours\n"
                }
            }
        }
    }

    @Test func `a query follows what programs and other devices do, over a restart`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("shelf/one", "1\n")
                try cloud.write("shelf/deep/two", "2\n")
                try cloud.write("elsewhere", "3\n")
            }
        ) { drive in
            let shelf = "\(drive.path)/shelf"
            let list = try Notebook("--list \(shelf)", "list", on: drive)
            for line in ["+ \(shelf)/one", "+ \(shelf)/deep/two", "2 in all"] {
                try await list.hears(line)
            }
            // The cloud need not know of it.
            try await drive.mustDo(["pause"])
            try await drive.run("echo 4 > shelf/four; echo 5 > five")
            try await list.hears("+ \(shelf)/four")
            try await drive.run("echo more >> shelf/four; mv shelf/deep shelf/deeper; rm shelf/one")
            try await list.hears("~ \(shelf)/four")
            try await list.hears("- \(shelf)/deep/two")
            try await list.hears("+ \(shelf)/deeper/two")
            try await list.hears("- \(shelf)/one")
            try await drive.mustDo(["resume"])
            try drive.cloud.write("shelf/six", "6\n")
            try await list.hears("+ \(shelf)/six")
            try await drive.mustDo(["restart"])
            try await drive.run("mv shelf/six shelf/seven")
            try await list.hears("+ \(shelf)/seven")
            #expect(!list.said.contains("elsewhere") && !list.said.contains("five"))
            try await list.write("END")
            list.process.send(SIGTERM)
        }
    }
}
