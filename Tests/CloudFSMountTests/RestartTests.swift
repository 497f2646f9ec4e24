import CloudFSTestSupport
import Glibc
import Testing

/// Ends of every kind, and what is there afterwards.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RestartTests {
    enum End: CaseIterable, Sendable {
        case orderly
        case kill
    }

    static func end(_ drive: TestDrive, _ end: End) async throws -> TestDrive {
        switch end {
        case .orderly: try await drive.restart()
        case .kill: try await drive.crash()
        }
    }

    /// Without a flush: it is the process that is killed, not the machine.
    @Test func `what was written into a placeholder survives a kill`() async throws {
        try await TestDrive.with(
            ["--hydration", "partial", "--no-passthrough"],
            prepare: Filling { try $0.write("file", [UInt8](repeating: 1, count: 3_000_000)) }
        ) { drive in
            try await drive.mustDo(["pause"])
            let writer = try drive.start(
                """
                exec python3 -c 'import os, time
                file = os.open("file", os.O_RDWR)
                os.pwrite(file, b"new", 1500000)
                open(os.environ["DRIVE"] + "/../run/written", "w").close()
                time.sleep(60)'
                """
            )
            try await eventually("it is written") {
                access("\(drive.folder)/run/written", F_OK) == 0
            }
            let again = try await drive.crash()
            writer.send(SIGKILL, toGroup: true)
            let bytes = try await again.bytes("file")
            #expect(bytes.count == 3_000_000)
            #expect(bytes[1_499_999...1_500_003].elementsEqual([1] + Array("new".utf8) + [1]))
        }
    }

    @Test(arguments: End.allCases)
    func `everything acknowledged is there after the next mount, and uploads go on`(
        end: End
    ) async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("changed", "base")
                try cloud.write("partly", HydrationTests.bytes(400_000))
                try cloud.write("removed", "x")
                try cloud.write("folder/moved", "moved")
            }
        ) { drive in
            try await drive.mustDo(["pause"])
            try await drive.python(
                """
                def save(name, data, offset=0, flags=os.O_CREAT):
                    file = os.open(name, os.O_RDWR | flags)
                    os.pwrite(file, data, offset)
                    os.fsync(file)
                    os.close(file)
                os.mkdir("new")
                save("new/file", b"new bytes")
                save("changed", b"CHANGED", 0, os.O_TRUNC)
                save("partly", b"PART", 200000, 0)
                os.unlink("removed")
                os.rename("folder/moved", "new/moved")
                os.symlink("file", "new/link")
                os.chmod("new/file", 0o600)
                os.setxattr("new/file", "user.note", b"kept")
                os.utime("new/file", ns=(1, 1234567890123456789))
                folder = os.open("new", os.O_RDONLY)
                os.fsync(folder)
                """
            )
            let inodes = try await drive.run("stat -c %i . new new/file changed partly folder")
            let again = try await Self.end(drive, end)
            #expect(
                try await again.run("stat -c %i . new new/file changed partly folder") == inodes
            )
            #expect(try await again.text("new/file") == "new bytes")
            #expect(try await again.text("changed") == "CHANGED")
            #expect(try await again.text("new/moved") == "moved")
            #expect(try await again.names() == ["changed", "folder", "new", "partly"])
            #expect(try await again.names("new") == ["file", "link", "moved"])
            #expect(try await again.status("new/file").mode == 0o600)
            #expect(try await again.status("new/file").modified == 1_234_567_890_123_456_789)
            #expect(try await again.attribute("user.note", of: "new/file") == "kept")
            var expected = HydrationTests.bytes(400_000)
            expected.replaceSubrange(200_000..<200_004, with: Array("PART".utf8))
            #expect(try await again.bytes("partly") == expected)

            try await again.mustDo(["resume"])
            try await again.drain()
            #expect(
                try again.cloud.paths() == [
                    "changed", "folder", "new", "new/file", "new/link", "new/moved", "partly",
                ]
            )
            #expect(again.cloud.text("changed") == "CHANGED")
            #expect(again.cloud.bytes("partly") == expected)
        }
    }

    @Test(arguments: End.allCases)
    func `what was resident is still resident`(end: End) async throws {
        try await TestDrive.with(
            ["--hydration", "partial"],
            prepare: Filling { cloud in
                try cloud.write("whole", HydrationTests.bytes(300_000))
                try cloud.write("part", HydrationTests.bytes(8 << 20))
            }
        ) { drive in
            try await drive.run("cat whole > /dev/null; head -c 70000 part > /dev/null")
            try await eventually("it is here") { try await drive.state("whole") == "local" }
            let again = try await Self.end(drive, end)
            #expect(try await again.state("whole") == "local")
            try await again.run("cmp whole \"$CLOUD/whole\"")
            #expect(try await again.fetched().bytes == 0)
            try await again.run("cmp part \"$CLOUD/part\"")
        }
    }

    @Test(arguments: End.allCases)
    func `it mounts and works with the cloud out of reach`(end: End) async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("here", "resident")
                try cloud.write("folder/absent", HydrationTests.bytes(100_000))
            }
        ) { drive in
            try await drive.hydrate("here")
            try await drive.run("find . > /dev/null; mv \"$CLOUD\" \"$CLOUD.away\"")
            let again = try await Self.end(drive, end)
            #expect(try await again.names() == ["folder", "here"])
            #expect(try await again.names("folder") == ["absent"])
            #expect(try await again.status("folder/absent").size == 100_000)
            #expect(try await again.text("here") == "resident")
            try await again.run("echo new > new; echo more >> here; mv folder/absent moved")
            try await again.run("mv \"$CLOUD.away\" \"$CLOUD\"")
            try await again.untilCloudHas("new", "new\n", within: .seconds(20))
            try await again.untilCloudHas("here", "residentmore\n", within: .seconds(20))
            try await eventually("the move arrives") { again.cloud.exists("moved") }
            #expect(try await again.bytes("moved") == HydrationTests.bytes(100_000))
        }
    }

    @Test func `changes made in the cloud meanwhile are found`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("changed", "old")
                try cloud.write("removed", "x")
                try cloud.write("moved", "bytes")
            }
        ) { drive in
            _ = try await drive.text("changed")
            _ = try await drive.text("moved")
            try await drive.mount.stop()
            try drive.cloud.write("changed", "new text")
            try drive.cloud.remove("removed")
            try drive.cloud.write("folder/added", "added")
            try drive.cloud.rename("moved", to: "folder/renamed")
            let again = try await drive.again()
            try await eventually("they are found") {
                try await again.has(
                    ["folder/added", "folder/renamed"],
                    not: ["removed", "moved"]
                )
            }
            try await eventually("the new text is read") {
                try await again.text("changed") == "new text"
            }
            #expect(try await again.text("folder/renamed") == "bytes")
        }
    }

    @Test func `a dead mount is detached and replaced`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("a", "1") }) { drive in
            try await drive.mount.kill9()
            await #expect(throws: SystemError.self) { try await drive.text("a") }
            let again = try await drive.again()
            #expect(MountEntry.at(drive.path).count == 1)
            #expect(try await again.text("a") == "1")
        }
    }

    @Test func `killed again and again while it is written to, it loses nothing acknowledged`()
        async throws
    {
        try await TestDrive.with { drive in
            let list = "\(drive.folder)/acknowledged"
            for round in 0..<5 {
                let writer = try drive.start(
                    """
                    n=0
                    while echo "\(round) $n" > "\(round)-$n" && sync "\(round)-$n" &&
                          mv "\(round)-$n" "done-\(round)-$n"; do
                        echo "done-\(round)-$n" >> "\(list)"
                        n=$((n + 1))
                    done 2> /dev/null
                    """
                )
                let enough = (round + 1) * 10
                try await eventually("it has written", within: .seconds(20)) {
                    let text = TestFolder(drive.folder).text("acknowledged") ?? ""
                    return text.split(separator: "\n").count >= enough
                }
                try await drive.mount.kill9()
                _ = try await writer.wait(within: .seconds(10))
                _ = try await drive.again()
            }
            try await drive.run(
                """
                [ "$(wc -l < "\(list)")" -ge 50 ]
                while read name; do
                    rest=${name#done-}
                    [ "$(cat "$name")" = "${rest%-*} ${rest#*-}" ]
                done < "\(list)"
                """
            )
            try await drive.drain()
            try await drive.run(
                "while read name; do cmp \"$name\" \"$CLOUD/$name\"; done < \"\(list)\""
            )
        }
    }

    @Test func `a file that was unlinked while open is gone after a crash`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("file", "text") }) { drive in
            _ = try drive.start("exec 3<> file; rm file; echo ghost >&3; exec sleep 60")
            try await eventually("it is unlinked") { try await drive.names().isEmpty }
            let again = try await drive.crash()
            #expect(try await again.names().isEmpty)
            try await eventually("gone in the cloud too") { try again.cloud.paths().isEmpty }
        }
    }

    @Test func `an item whose content is lost is the cloud's again, or forgotten`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                try cloud.write("changed", "base")
                try cloud.write("kept", "kept")
            }
        ) { drive in
            try await drive.mustDo(["pause"])
            let times = try await drive.run("stat -c %Y changed")
            try await drive.run("echo 'longer than before' > changed; echo new > new")
            try await drive.mount.kill9()
            // As a power failure leaves what was never flushed.
            let script = "find \"\(drive.mount.state)/content\" -type f -delete"
            #expect(try await Shell.script(script).status == 0)
            let again = try await drive.again()
            try await again.mustDo(["resume"])
            try await again.drain()
            #expect(try await again.names() == ["changed", "kept"])
            #expect(try await again.run("stat -c '%s %Y' changed") == "4 \(times)")
            #expect(try await again.text("changed") == "base")
            #expect(try again.cloud.paths() == ["changed", "kept"])
        }
    }

    @Test func `content that nothing names is kept if there is any`() async throws {
        try await TestDrive.with { drive in
            try await drive.mount.stop()
            let content = "\(drive.mount.state)/content/61"
            let script =
                "mkdir -p \(content) && echo text > \(content)/7777.1 "
                + "&& truncate -s 9000 \(content)/7777.2"
            #expect(try await Shell.script(script).status == 0)
            _ = try await drive.again()
            let lost = TestFolder("\(drive.mount.state)/lost+found")
            #expect(try lost.paths() == ["7777.1"])
            #expect(lost.text("7777.1") == "text\n")
        }
    }
}
