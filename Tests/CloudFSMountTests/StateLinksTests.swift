import CloudFSTestSupport
import Testing

/// Links in the state directory, which somebody put there to have other files read or written.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct StateLinksTests {
    private static func shell(_ script: String) async throws -> String {
        let result = try await Shell.script(script)
        try #require(result.status == 0, "\(result)")
        return result.output
    }

    @Test func `a link in the place of content is not followed, and the content fetched again`()
        async throws
    {
        let bytes = HydrationTests.bytes(200_000)
        try await TestDrive.with(prepare: Filling { try $0.write("file", bytes) }) { drive in
            try await drive.run("cat file > /dev/null")
            try await drive.drain()
            try await drive.mount.stop()
            let scratch = TestFolder("\(drive.folder)/run")
            try scratch.write("target", "of somebody else")
            let target = "\(scratch.path)/target"
            let content = "find '\(drive.mount.state)/content' -type f -size +100k"
            _ = try await Self.shell("ln -sf \(target) \"$(\(content))\"")
            let again = try await drive.again()
            try await again.python(
                """
                for flags in os.O_RDONLY, os.O_RDWR, os.O_WRONLY | os.O_APPEND:
                    fails(errno.EIO, os.open, "file", flags)
                """
            )
            let found = try await again.cloudfs(["check"])
            #expect(found.status == 1, "\(found)")
            #expect(found.output.contains("content-present file"), "\(found)")
            let repaired = try await again.cloudfs(["check", "--repair"])
            #expect(repaired.status == 0, "\(repaired)")
            try await again.drain()
            #expect(try await again.bytes("file") == bytes)
            try await again.run("printf more >> file")
            try await again.drain()
            #expect(again.cloud.bytes("file") == bytes + Array("more".utf8))
            #expect(scratch.text("target") == "of somebody else")
        }
    }

    @Test(arguments: ["catalog.sqlite", "lock"])
    func `a link in the place of a file of the drive's own is refused`(name: String) async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            try await drive.run("cat file")
            try await drive.drain()
            try await drive.mount.stop()
            let (own, other) = ("'\(drive.mount.state)/\(name)'", "'\(drive.folder)/run/other'")
            let look = "ls \(drive.folder)/run/other*; sha256sum \(other)"
            let before = try await Self.shell("mv \(own) \(other); ln -s \(other) \(own); \(look)")
            await #expect(throws: TestMount.NotReady.self) { _ = try await drive.again() }
            #expect(drive.mount.logText.contains("\"\(name)\""))
            #expect(try await Self.shell(look) == before)
            _ = try await Self.shell("rm \(own); mv \(other) \(own)")
            let again = try await drive.again()
            #expect(try await again.text("file") == "text")
        }
    }

    /// Starts it in the background, where it writes a log.
    private func startInBackground(_ drive: TestDrive) async throws -> Shell.Result {
        let words = drive.mount.command.filter { $0 != "-f" }.map { "'\($0)'" }
        return try await Shell.script(
            "cd /; umask 0; \(words.joined(separator: " "))",
            environment: drive.environment
        )
    }

    @Test func `the log is for its owner alone, and a link in its place is refused`() async throws {
        try await TestDrive.with { drive in
            try await drive.mount.stop()
            let log = "\(drive.mount.state)/daemon.log"
            let first = try await startInBackground(drive)
            try #require(first.status == 0, "\(first)")
            #expect(try SystemCall.status(log).mode == 0o600)
            #expect(try SystemCall.status(log).kind == .file)
            try await drive.mustDo(["unmount", drive.path])
            let scratch = TestFolder("\(drive.folder)/run")
            try scratch.write("target", "of somebody else")
            _ = try await Self.shell("ln -sf '\(scratch.path)/target' '\(log)'")
            let second = try await startInBackground(drive)
            #expect(second.status != 0 && second.errors.contains("\"daemon.log\""), "\(second)")
            #expect(scratch.text("target") == "of somebody else")
            #expect(MountEntry.at(drive.path).isEmpty)
        }
    }
}
