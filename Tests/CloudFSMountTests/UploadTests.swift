import CloudFSTestSupport
import Glibc
import Testing

/// What the cloud gets of what was written, and when.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct UploadTests {
    @Test func `a new file is uploaded after it was closed and quiet`() async throws {
        try await TestDrive.with { drive in
            try await drive.write("note.txt", "remember")
            #expect(try await drive.state("note.txt") != "cloud")
            try await drive.untilCloudHas("note.txt", "remember")
            try await eventually("it is clean") { try await drive.state("note.txt") == "local" }
        }
    }

    /// A draft that was sent half finished, finished, and renamed over the document: the document
    /// is never the half in the cloud, though the draft was.
    @Test func `a name shows no older bytes of what has it now`() async throws {
        try await TestDrive.with(
            ending: .killed,
            prepare: Filling { try $0.write("document", "old\n") }
        ) { drive in
            try await drive.run("cat document; echo half > draft")
            try await drive.drain()
            try await drive.mustDo(["pause"])
            try await drive.mount.stop()
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "move.sent=kill"])
            try await drive.again().run("echo whole > draft; mv draft document")
            // It may die before it answers.
            _ = try await drive.cloudfs(["resume"])
            _ = try await drive.mount.wait()
            #expect(drive.cloud.text("document") == "whole\n")
            drive.mount.change(environment: [:])
            let again = try await drive.crash()
            try await again.drain()
            #expect(try drive.cloud.paths() == ["document"])
            #expect(drive.cloud.text("document") == "whole\n")
            try await again.mount.stop()
        }
    }

    /// A listing was asked for before a file was sent and is compared after it was sent, and
    /// replaced here: it does not prove that the cloud lacks what has the file's place now.
    @Test func `what is sent while a folder is listed is not missing there`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("folder/old", "old") }) { drive in
            try await drive.run("cat folder/old")
            try await drive.mount.stop()
            drive.mount.change(environment: ["CLOUDFS_FAULTS": "apply.page=delay:4000*1"])
            let drive = try await drive.again()
            try drive.cloud.write("folder/foreign", "their own")
            try await eventually("the listing is held") {
                drive.mount.logText.contains("apply.page is reached")
            }
            try await drive.write("folder/document", "first")
            try await drive.untilCloudHas("folder/document", "first")
            try await eventually("it is clean") {
                try await drive.state("folder/document") == "local"
            }
            try await drive.mustDo(["pause"])
            try await drive.run("echo second > folder/draft; mv folder/draft folder/document")
            try drive.cloud.write("folder/last", "their own")
            try await eventually("the held listing is over") {
                try await drive.has(["folder/last"])
            }
            try await drive.mustDo(["resume"])
            try await drive.drain()
            #expect(
                try drive.cloud.paths().sorted() == [
                    "folder", "folder/document", "folder/foreign", "folder/last", "folder/old",
                ]
            )
            #expect(drive.cloud.text("folder/document") == "second\n")
        }
    }

    @Test func `in the cloud a file appears whole or not at all`() async throws {
        try await TestDrive.with(
            TestMount.Options.bandwidth("10MB"),
            prepare: Filling { try $0.write("file", [UInt8](repeating: 0x6f, count: 1_000)) }
        ) { drive in
            // A watcher of the cloud sees the old file or the whole new ones, never a part.
            try await drive.python(
                """
                with open("file", "wb") as file:
                    for part in range(50):
                        file.write(bytes([part]) * 100000)
                with open("second", "wb") as file:
                    file.write(b"z" * 5000000)
                end = time.monotonic() + 20
                seen = set()
                while time.monotonic() < end and len(seen) < 2:
                    for name, known in (("file", (1000, 5000000)), ("second", (5000000,))):
                        try:
                            size = os.stat(cloud + "/" + name).st_size
                        except FileNotFoundError:
                            continue
                        assert size in known, (name, size)
                        if size == 5000000:
                            seen.add(name)
                    strangers = set(os.listdir(cloud)) - {"file", "second", ".cloudfs"}
                    assert not strangers, strangers
                assert len(seen) == 2, seen
                """,
                within: .seconds(40)
            )
        }
    }

    @Test func `a file that is held open is not uploaded while it is being written`()
        async throws
    {
        var options = TestMount.Options()
        // The time after which an open file is sent all the same is a multiple of it.
        options.quietTime = "400ms"
        try await TestDrive.with(options: options) { drive in
            try await drive.python(
                """
                file = os.open("half", os.O_CREAT | os.O_WRONLY)
                os.write(file, b"first half, ")
                with open("other", "w") as other:
                    other.write("whole")
                end = time.monotonic() + 10
                while not os.path.exists(cloud + "/other"):
                    os.pwrite(file, b".", 11)
                    assert time.monotonic() < end
                    time.sleep(0.01)
                if os.path.exists(cloud + "/half"):
                    assert os.path.getsize(cloud + "/half") == 0
                os.pwrite(file, b"second half", 12)
                os.close(file)
                """
            )
            try await drive.untilCloudHas("half", "first half,.second half")
        }
    }

    @Test func `folders, links, modes, times and attributes arrive as well`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                mkdir -p one/two
                echo text > one/two/file
                chmod 750 one/two/file
                setfattr -n user.xdg.tags -v red one/two/file
                touch -d '2001-02-03 04:05:06.789 UTC' one/two/file
                ln -s two/file one/link
                """
            )
            try await eventually("the cloud has all of it") {
                guard drive.cloud.exists("one/two/file"), drive.cloud.exists("one/link") else {
                    return false
                }
                let status = try drive.cloud.status("one/two/file")
                return status.mode == 0o750 && status.modified == 981_173_106_789_000_000
            }
            try await drive.run(
                """
                cd "$CLOUD"
                [ "$(readlink one/link)" = two/file ]
                [ "$(getfattr --only-values -n user.xdg.tags one/two/file)" = red ]
                """
            )
        }
    }

    @Test(arguments: [[], ["--no-passthrough"]])
    func `touch sends a time and no bytes`(arguments: [String]) async throws {
        try await TestDrive.with(
            arguments,
            prepare: Filling { try $0.write("file", "old bytes") }
        ) { drive in
            try await drive.run("cat file")
            let before = try drive.cloud.status("file").inode
            try await drive.run("touch file; touch -d '2001-02-03 04:05:06.789 UTC' file")
            try await eventually("the cloud has the time") {
                try drive.cloud.status("file").modified == 981_173_106_789_000_000
            }
            try await drive.drain()
            #expect(try drive.cloud.status("file").inode == before)
            // What is written through such an open arrives as any other bytes do.
            try await drive.run("printf new | dd of=file oflag=nonblock conv=notrunc status=none")
            try await drive.untilCloudHas("file", "new bytes")
        }
    }

    @Test func `removals and renames arrive, of folders without sending their files again`()
        async throws
    {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<50 { try cloud.write("folder/\(number)", "content \(number)") }
                try cloud.write("gone", "x")
            }
        ) { drive in
            let before = try drive.cloud.status("folder/7").inode
            try await drive.run("mv folder renamed; rm gone; rm renamed/8")
            try await eventually("the cloud followed") {
                drive.cloud.exists("renamed/7") && !drive.cloud.exists("gone")
                    && !drive.cloud.exists("renamed/8") && !drive.cloud.exists("folder")
            }
            #expect(try drive.cloud.status("renamed/7").inode == before)
            #expect(try await drive.fetched().bytes == 0)
        }
    }

    @Test func `failing uploads are tried again`() async throws {
        try await TestDrive.with(TestMount.Options.failures("30%"), ending: .killed) { drive in
            try await eventually("the root is listed", within: .seconds(20)) {
                (try? await drive.names().isEmpty) == true
            }
            for number in 0..<8 { try await drive.write("file\(number)", "text \(number)") }
            for number in 0..<8 {
                try await drive.untilCloudHas(
                    "file\(number)",
                    "text \(number)",
                    within: .seconds(40)
                )
            }
        }
    }

    @Test func `a pause ends an upload on its way, which goes on after it`() async throws {
        try await TestDrive.with(["--upload-limit", "1MB"]) { drive in
            try await drive.run("head -c 6M /dev/urandom > film")
            try await eventually("some of it is sent") {
                try await drive.cloudfs(["queue"]).output.contains("uploading")
            }
            try await drive.mustDo(["pause"])
            try await eventually("nothing is sent", within: .seconds(3)) {
                try await !drive.cloudfs(["queue"]).output.contains("uploading")
            }
            #expect(try drive.cloud.paths().isEmpty)
            #expect(try await drive.state("film") == "modified")
            // What another device does in its place is seen all the same.
            try drive.cloud.write("film", "theirs")
            try await eventually("both are seen", within: .seconds(20)) {
                try await drive.names().count == 2
            }
            try await drive.run("rm film; mv film* film")
            try await drive.mustDo(["resume"])
            try await drive.mustDo(["drain", "--wait", drive.path])
            try await drive.run("cmp film \"$CLOUD/film\"")
        }
    }

    @Test(.enabled(if: TestMount.isRoot, "the cloud's disk is told to refuse by root"))
    func `regression: what the cloud refuses to move can be taken back, or removed`()
        async throws
    {
        try await TestDrive.with { drive in
            for name in ["back", "elsewhere", "removed"] { try drive.cloud.write(name, name) }
            try drive.cloud.write("closed/there", "there")
            try await eventually("they are listed") { try await drive.names().count == 4 }
            try await drive.run("chattr +i \"$CLOUD/closed\"")
            do {
                try await drive.run("mv back elsewhere removed closed")
                try await eventually("they are refused", within: .seconds(20)) {
                    try await drive.cloudfs(["queue"]).output.contains("3 failed")
                }
                try await drive.run(
                    "mv closed/back . && mv closed/elsewhere moved && echo more >> moved"
                        + " && rm closed/removed"
                )
                try await drive.mustDo(["drain", "--wait", drive.path])
                #expect(drive.cloud.text("back") == "back")
                #expect(drive.cloud.text("moved") == "elsewheremore\n")
                #expect(drive.cloud.text("elsewhere") == nil)
                #expect(drive.cloud.text("removed") == nil)
            } catch {
                try await drive.run("chattr -i \"$CLOUD/closed\"")
                throw error
            }
            try await drive.run("chattr -i \"$CLOUD/closed\"")
        }
    }

    @Test func `regression: a tagged folder whose name is taken gets another one`() async throws {
        try await TestDrive.with { drive in
            // A name that no listing shows, as of a twin where the cloud folds case.
            try await drive.run(
                """
                mkfifo "$CLOUD/taken"
                mkdir taken
                setfattr -n user.xdg.tags -v red taken
                echo text > taken/file
                """
            )
            try await eventually("the cloud has the folder", within: .seconds(30)) {
                try drive.cloud.paths().contains {
                    $0.hasPrefix("taken (conflicted copy") && $0.hasSuffix("/file")
                }
            }
            let name = try #require(try await drive.names().first)
            try await drive.untilCloudHas("\(name)/file", "text\n")
            try await eventually("its tag is there") {
                try await drive.run(
                    "getfattr --only-values -n user.xdg.tags \"$CLOUD/\(name)\" || true"
                ) == "red"
            }
        }
    }

    @Test func `a file changed while it is uploaded arrives in its last state`() async throws {
        try await TestDrive.with(TestMount.Options.bandwidth("2MB")) { drive in
            try await drive.run("head -c 4000000 /dev/zero > file")
            try await eventually("it is being sent") {
                try await drive.state("file") == "uploading"
            }
            try await drive.run("printf changed | dd of=file conv=notrunc status=none")
            try await eventually("the cloud has the change", within: .seconds(15)) {
                drive.cloud.bytes("file")?.prefix(7) == Array("changed".utf8)[...]
            }
            #expect(drive.cloud.bytes("file")?.count == 4_000_000)
        }
    }

    @Test func `names of the ignore list stay here`() async throws {
        try await TestDrive.with(["--ignore", "*.iso"]) { drive in
            try await drive.run("echo 1 > .doc.odt.swp; echo 1 > disk.iso; echo 1 > seen")
            try await drive.untilCloudHas("seen", "1\n")
            try await drive.drain()
            #expect(try drive.cloud.paths() == ["seen"])
            #expect(try await drive.names() == [".doc.odt.swp", "disk.iso", "seen"])
            // At the next start they are no longer ignored.
            try await drive.mount.stop()
            let drive = try await drive.again(["--ignore", "none"])
            try await drive.untilCloudHas("disk.iso", "1\n")
        }
    }

    @Test func `what gets another name than that of the ignore list is sent, with all in it`()
        async throws
    {
        try await TestDrive.with(["--ignore", "build"]) { drive in
            try await drive.run("mkdir -p build/deep; echo 1 > build/deep/f; echo 1 > seen")
            try await drive.untilCloudHas("seen", "1\n")
            try await drive.drain()
            try await drive.run("mv build release")
            try await drive.untilCloudHas("release/deep/f", "1\n")
        }
    }

    @Test(.onMounts, arguments: [7, 8])
    func `a file renamed over another while it is uploaded is what is read`(
        seed: Int
    ) async throws {
        try await TestDrive.with(
            TestMount.Options.latency("40ms"),
            prepare: Filling { try $0.write("doc", "v0") }
        ) { drive in
            try await drive.python(
                """
                import random
                random.seed(\(seed))
                for number in range(25):
                    new = f"v{number + 1}"
                    with open("doc.lock", "w") as file: file.write(new)
                    # Around the moment at which its own upload begins and ends.
                    time.sleep(random.uniform(.08, .25))
                    os.rename("doc.lock", "doc")
                    end = time.monotonic() + .5
                    while time.monotonic() < end:
                        assert os.path.exists("doc"), (number, os.listdir("."))
                        assert open("doc").read() == new, (number, open("doc").read())
                        time.sleep(.01)
                """,
                within: .seconds(60)
            )
            try await drive.drain()
            #expect(drive.cloud.bytes("doc") == Array("v25".utf8))
            #expect(try drive.cloud.paths() == ["doc"])
        }
    }

    @Test func `regression: a removed file gives its room back once the cloud heard of it`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.run("head -c 100000 /dev/zero > file")
            try await drive.drain()
            try await drive.run("rm file")
            try await drive.drain()
            let content = "\(drive.mount.state)/content"
            try await eventually("nothing is left of its bytes") {
                let found = try await Shell.run(["find", content, "-type", "f"])
                return found.status == 0 && found.output.isEmpty
            }
        }
    }

    @Test func `files that take each other's names in a long circle arrive`() async throws {
        let count = 150
        let filling = Filling { cloud in
            for number in 0..<count { try cloud.write("p\(number)", "\(number)") }
        }
        try await TestDrive.with(prepare: filling) { drive in
            try await drive.run(
                """
                ls > /dev/null
                mv p149 tmp
                for number in $(seq 148 -1 0); do mv p$number p$((number + 1)); done
                mv tmp p0
                """
            )
            try await drive.drain()
            for number in 0..<count {
                #expect(drive.cloud.text("p\((number + 1) % count)") == "\(number)")
            }
            #expect(try drive.cloud.paths().count == count)
        }
    }

    @Test func `what another program has open in the cloud is seen waiting`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("log", "old") }) { drive in
            let file = try SystemCall.open("\(drive.cloud.path)/log", O_RDWR)
            try await drive.write("log", "edit")
            try await eventually("it is seen") { try await drive.state("log") == "error" }
            let queue = try await drive.mustDo(["queue"])
            #expect(queue.contains("is open for writing in another program"))
            #expect(drive.cloud.text("log") == "old")
            try SystemCall.close(file)
            try await drive.untilCloudHas("log", "edit", within: .seconds(70))
        }
    }

    @Test func `what fails for a while is waited for`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("log", "old") }) { drive in
            try await drive.python(
                """
                import json, subprocess
                held = open(cloud + "/log", "r+")
                with open("log", "w") as file: file.write("edit")
                drain = subprocess.Popen(["cloudfs", "drain", "--wait", "."])
                try:
                    # The next try is seconds away then.
                    while True:
                        queue = subprocess.check_output(["cloudfs", "queue", "--json", "."])
                        if json.loads(queue)[0]["attempts"] >= 4: break
                        time.sleep(0.05)
                    text = subprocess.check_output(["cloudfs", "queue", "."], text=True)
                    assert "retrying" in text and "1 waiting" in text, text
                    held.close()
                    assert drain.wait() == 0
                    assert open(cloud + "/log").read() == "edit"
                finally:
                    drain.kill()
                """,
                within: .seconds(60)
            )
        }
    }
}
