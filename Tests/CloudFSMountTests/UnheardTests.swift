import CloudFSTestSupport
import Testing

/// What was made in the cloud is this machine's own, also when it ended before it heard of it.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct UnheardTests {
    /// What is done, where the daemon dies over it, what is done then, and what must come of both.
    struct Story: Sendable, CustomTestStringConvertible {
        var testDescription: String
        /// Where the daemon dies.
        var point: String
        /// Where the cloud has what was done when it died.
        var sent: String
        var cloud: [String: String] = [:]
        var before: String
        var after: String
        /// What drive and cloud have in the end: files with their text, folders with `nil`.
        var tree: [String: String?]
        /// Where an item is before it dies and in the end: it must be the same.
        var same: (String, String)?
    }

    static let stories = [
        Story(
            testDescription: "a file that was sent is saved again",
            point: "upload.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "echo one > text",
            after: "echo two > text",
            tree: ["text": "two\n"],
            same: ("text", "text")
        ),
        Story(
            testDescription: "a new file that was sent is saved again",
            point: "upload.sent",
            sent: "text",
            before: "echo one > text",
            after: "echo longer > text",
            tree: ["text": "longer\n"],
            same: ("text", "text")
        ),
        Story(
            testDescription: "a file that was sent is not touched again",
            point: "upload.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "echo one > text",
            after: ":",
            tree: ["text": "one\n"],
            same: ("text", "text")
        ),
        Story(
            testDescription: "a file whose time was sent is saved again",
            point: "metadata.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "touch -d 2001-02-03 text",
            after: "echo two > text",
            tree: ["text": "two\n"],
            same: ("text", "text")
        ),
        Story(
            testDescription: "a new file that was sent is saved over by another",
            point: "upload.sent",
            sent: "text",
            before: "echo one > text",
            after: "echo two > .tmp; mv .tmp text",
            tree: ["text": "two\n"]
        ),
        Story(
            testDescription: "a file that was sent is saved over by another",
            point: "upload.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "echo one > text",
            after: "echo two > .tmp; mv .tmp text",
            tree: ["text": "two\n"]
        ),
        Story(
            testDescription: "a new file that was sent is removed",
            point: "upload.sent",
            sent: "text",
            before: "echo one > text",
            after: "rm text",
            tree: [:]
        ),
        Story(
            testDescription: "a file that was sent is removed",
            point: "upload.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "echo one > text",
            after: "rm text",
            tree: [:]
        ),
        Story(
            testDescription: "a new file that was sent is renamed",
            point: "upload.sent",
            sent: "text",
            before: "echo one > text",
            after: "mv text other",
            tree: ["other": "one\n"],
            same: ("text", "other")
        ),
        Story(
            testDescription: "the folder of a new file that was sent is removed",
            point: "upload.sent",
            sent: "folder/text",
            cloud: ["folder/old": "old"],
            before: "echo one > folder/text",
            after: "rm -r folder",
            tree: [:]
        ),
        Story(
            testDescription: "a folder that was made is renamed",
            point: "create.sent",
            sent: "folder",
            before: "mkdir folder",
            after: "mv folder other; echo in > other/text",
            tree: ["other": nil, "other/text": "in\n"],
            same: ("folder", "other")
        ),
        Story(
            testDescription: "a folder that was made is removed",
            point: "create.sent",
            sent: "folder",
            before: "mkdir folder",
            after: "rmdir folder",
            tree: [:]
        ),
        Story(
            testDescription: "a link that was made is renamed",
            point: "create.sent",
            sent: "link",
            cloud: ["text": "base"],
            before: "ln -s text link",
            after: "mv link other",
            tree: ["text": "base", "other": "base"],
            same: ("link", "other")
        ),
        Story(
            testDescription: "a file in a folder that was moved is removed",
            point: "move.sent",
            sent: "other",
            cloud: ["folder/deep/text": "base", "folder/deep/old": "old"],
            before: "mv folder other; rm other/deep/text",
            after: ":",
            tree: ["other": nil, "other/deep": nil, "other/deep/old": "old"],
            same: ("other/deep/old", "other/deep/old")
        ),
        Story(
            testDescription: "a file that was moved is moved on",
            point: "move.sent",
            sent: "folder/text",
            cloud: ["text": "base", "folder/old": "old"],
            before: "mv text folder/text",
            after: "mv folder/text other",
            tree: ["other": "base", "folder": nil, "folder/old": "old"],
            same: ("folder/text", "other")
        ),
        Story(
            testDescription: "a file that was moved is removed",
            point: "move.sent",
            sent: "other",
            cloud: ["text": "base"],
            before: "mv text other",
            after: "rm other",
            tree: [:]
        ),
        Story(
            testDescription: "a file that was moved is saved over by another",
            point: "move.sent",
            sent: "other",
            cloud: ["text": "base"],
            before: "mv text other",
            after: "echo two > .tmp; mv .tmp other",
            tree: ["other": "two\n"]
        ),
        Story(
            testDescription: "a folder that was moved is moved on",
            point: "move.sent",
            sent: "other/text",
            cloud: ["folder/text": "base"],
            before: "mv folder other",
            after: "mv other third",
            tree: ["third": nil, "third/text": "base"],
            same: ("other", "third")
        ),
        Story(
            testDescription: "another file takes the place of one that was moved",
            point: "move.sent",
            sent: "other",
            cloud: ["text": "base"],
            before: "mv text other",
            after: "echo new > text",
            tree: ["other": "base", "text": "new\n"],
            same: ("other", "other")
        ),
    ]

    /// In every cloud there is something, or it would count as out of reach when it is empty.
    private static let kept = ["kept": "kept"]

    @Test(arguments: stories)
    func `what was sent before a crash is this machine's own`(story: Story) async throws {
        try await Self.play(story) { drive in
            // The cloud is out of reach until all is done.
            try Self.rename(drive.cloud.path, to: "\(drive.cloud.path).away")
            let again = try await drive.again()
            try await again.run(story.after)
            try Self.rename("\(drive.cloud.path).away", to: drive.cloud.path)
        }
    }

    @Test(arguments: stories)
    func `it is known at once when the cloud is there`(story: Story) async throws {
        try await Self.play(story) { drive in
            try await drive.again().run(story.after)
        }
    }

    /// Not by a command in the drive, which is dead.
    private static func rename(_ path: String, to other: String) throws {
        try SystemCall.rename(path, to: other, .replace)
    }

    private static func play(
        _ story: Story,
        _ body: (TestDrive) async throws -> Void
    ) async throws {
        let cloud = kept.merging(story.cloud) { $1 }
        try await TestDrive.with(
            prepare: Filling { folder in
                for (name, text) in cloud { try folder.write(name, text) }
            }
        ) { drive in
            try await drive.run("find . > /dev/null")
            try await drive.mustDo(["pause"])
            try await drive.mount.stop()
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "\(story.point)=kill"])
            try await drive.again().run(story.before)
            let inode = try await drive.inode(story.same?.0)
            // It may die before it answers.
            _ = try await drive.cloudfs(["resume"])
            _ = try await drive.mount.wait()
            #expect(try drive.cloud.paths().contains(story.sent), "it died too early")
            drive.mount.change(environment: [:])
            try await body(drive)
            try await drive.drain()
            try await check(drive, story)
            #expect(try await drive.inode(story.same?.1) == inode)
        }
    }

    private static func check(_ drive: TestDrive, _ story: Story) async throws {
        let tree = story.tree.merging(kept.mapValues { $0 }) { $1 }
        let names = tree.keys.sorted()
        try await eventually("both have \(names)") {
            let here = try await drive.run("find . -mindepth 1 -printf '%P\\n' | LC_ALL=C sort")
            let there = try drive.cloud.paths()
            return here == names.joined(separator: "\n") && there == names
        }
        for (name, text) in tree {
            guard let text else { continue }
            #expect(try await drive.text(name) == text, "\(name)")
            #expect(drive.cloud.text(name) == text, "\(name) in the cloud")
        }
    }

    /// What it replaced is kept until it is on the disk, and is brought back where it is not.
    @Test func `a file that was sent and then lost to a power failure is the one that was sent`()
        async throws
    {
        let story = Story(
            testDescription: "",
            point: "upload.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "cat text; : > text",
            after: "",
            tree: ["text": ""],
            same: ("text", "text")
        )
        try await Self.play(story) { drive in
            let state = drive.mount.state
            let kept = try await Shell.script(
                """
                # Who was killed may not have let go of it yet.
                ask() { sqlite3 -cmd ".timeout 10000" \(state)/catalog.sqlite "$1"; }
                id=$(ask "SELECT item FROM sent")
                file=$(printf '%s/content/%02x/%d.1' \(state) $((id & 255)) $id)
                printf base > $file
                ask "
                    DELETE FROM previous;
                    INSERT INTO previous (item, holder, generation, size, modified, version, since)
                        SELECT item, item, 1, 4, modified, content_version, 1 FROM base
                        WHERE item = $id;
                    UPDATE setting SET value = 'another' WHERE key = 'mounting'"
                """
            )
            #expect(kept.status == 0, "\(kept)")
            let again = try await drive.again()
            try await again.drain()
            #expect(again.mount.logText.contains("a power failure has cut off what was written"))
            #expect(try await again.cloudfs(["check"]).status == 0)
        }
    }

    @Test func `a pause hides nothing of what was sent before`() async throws {
        try await TestDrive.with { drive in
            try await drive.mustDo(["pause"])
            try await drive.mount.stop()
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "upload.sent=kill"])
            try await drive.again().run("echo one > text; echo other > other")
            try await drive.mustDo(["pause"])
            _ = try await drive.cloudfs(["resume"])
            _ = try await drive.mount.wait()
            drive.mount.change(environment: [:])
            try Self.rename(drive.cloud.path, to: "\(drive.cloud.path).away")
            let again = try await drive.again()
            try await again.mustDo(["pause"])
            try Self.rename("\(drive.cloud.path).away", to: drive.cloud.path)
            let sent = try #require(try again.cloud.paths().first)
            try await eventually("what was sent is known") {
                try await again.state(sent) == "local"
            }
        }
    }

    @Test func `a version that somebody else put in the place of ours is kept beside`()
        async throws
    {
        let story = Story(
            testDescription: "",
            point: "upload.sent",
            sent: "text",
            cloud: ["text": "base"],
            before: "echo one > text",
            after: "",
            tree: [:]
        )
        try await TestDrive.with(
            prepare: Filling { folder in try folder.write("text", "base") }
        ) { drive in
            try await drive.run("cat text > /dev/null")
            try await drive.mount.stop()
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "\(story.point)=kill"])
            try await drive.again().run(story.before)
            _ = try await drive.mount.wait()
            drive.mount.change(environment: [:])
            try Self.rename(drive.cloud.path, to: "\(drive.cloud.path).away")
            let again = try await drive.again()
            try await again.run("echo two > text; echo theirs > \"$CLOUD.away/text\"")
            try Self.rename("\(drive.cloud.path).away", to: drive.cloud.path)
            try await again.drain()
            try await eventually("both are here") { try await again.names().count == 2 }
            #expect(try await again.text("text") == "theirs\n")
            let copy = try #require(try await again.names().first { $0 != "text" })
            #expect(try await again.text(copy) == "two\n")
        }
    }
}

extension TestDrive {
    fileprivate func inode(_ name: String?) async throws -> String? {
        guard let name else { return nil }
        return try await run("stat -c %i \(name)")
    }
}
