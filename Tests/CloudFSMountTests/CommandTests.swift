import CloudFSTestSupport
import Glibc
import Testing

/// The command `cloudfs`, on a drive that it finds by itself.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct CommandTests {
    static func fill(_ cloud: TestFolder) throws {
        try cloud.write("document.txt", "text")
        try cloud.write("folder/one", HydrationTests.bytes(300_000))
        try cloud.write("folder/sub/two", HydrationTests.bytes(200_000))
    }

    @Test func `status shows the drive, items in a table, and sums of folders`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.run("cat folder/one > /dev/null")
            let whole = try await drive.mustDo(["status"])
            #expect(whole.contains(drive.path) || whole.contains(drive.cloud.path), "\(whole)")
            let table = try await drive.mustDo(["status", "document.txt", "folder/one"])
            let lines = table.split(separator: "\n")
            let document = lines.first { $0.contains("document.txt") }
            #expect(document?.contains("cloud") == true, "\(table)")
            #expect(
                lines.first { $0.contains("folder/one") }?.contains("local") == true,
                "\(table)"
            )

            let json = try JSONNode(try await drive.mustDo(["status", "--json", "folder"]))
            #expect(json.first("bytes")?.integer == 500_000, "\(json)")
            #expect(json.first("files")?.integer == 2, "\(json)")
            #expect(try await drive.fetched().bytes == 300_000)
        }
    }

    @Test func `all of several folders is shown, and what is not there`() async throws {
        try await TestDrive.with(
            prepare: Filling { cloud in
                for number in 0..<700 {
                    try cloud.write("first/one\(number)", "x")
                    try cloud.write("second/two\(number)", "x")
                }
                try cloud.write("third/last", "x")
            }
        ) { drive in
            try await drive.run("find . > /dev/null")
            let names = ["first", "second", "third", "nosuch"]
            // More than a page of items.
            let shown = try await drive.cloudfs(["status", "-l", "--json"] + names)
            #expect(shown.status == 1)
            #expect(shown.errors.contains("nosuch"), "\(shown.errors)")
            let items = try #require(JSONNode(shown.output).elements)
            let paths = Set(items.compactMap { $0["path"]?.string })
            #expect(items.count == 1_401 && paths.count == 1_401)
            #expect(paths.isSuperset(of: ["first/one699", "second/two0", "third/last"]))
            let table = try await drive.mustDo(["status", "-l", "first"])
            let rows = table.split(separator: "\n").dropFirst()
            #expect(rows.count == 700 && rows.elementsEqual(rows.sorted()))
        }
    }

    @Test func `an item is found in a folder that was not listed yet`() async throws {
        try await TestDrive.with(
            TestMount.Options.latency("300ms"),
            prepare: Filling(Self.fill)
        ) { drive in
            let shown = try await drive.run("cd folder/sub && cloudfs status two")
            #expect(shown.contains("two"))
        }
    }

    @Test func `it finds the drive from any path, and says when there is none`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            let inside = try await drive.run("cd folder/sub && cloudfs status two")
            #expect(inside.contains("two"))
            let absolute = try await drive.run("cd / && cloudfs status \"$DRIVE/document.txt\"")
            #expect(absolute.contains("document.txt"))
            let outside = try await Shell.run(
                [TestMount.binary("cloudfs"), "status", "/etc/passwd"],
                environment: drive.environment
            )
            #expect(outside.status != 0)
            #expect(outside.errors.split(separator: "\n").count == 1, "\(outside)")
            let missing = try await drive.cloudfs(["status", "no such file"])
            #expect(missing.status != 0)
            #expect(missing.errors.contains("no such file"))
            // The working folder, and so the whole drive, for a script with an unset variable.
            let empty = try await drive.cloudfs(["pin", ""])
            #expect(empty.status != 0 && empty.errors.contains("empty path"), "\(empty)")
        }
    }

    @Test func `download brings, evict drops, and each refusal has its reason`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.mustDo(["download", "folder", "document.txt"])
            for name in ["folder/one", "folder/sub/two", "document.txt"] {
                #expect(try await drive.state(name) == "local")
            }
            try await drive.mustDo(["pin", "document.txt"])
            try await drive.mustDo(["evict", "-r", "folder"])
            #expect(try await drive.state("folder/one") == "cloud")
            #expect(try await drive.state("folder/sub/two") == "cloud")

            let pinned = try await drive.cloudfs(["evict", "document.txt"])
            #expect(pinned.status != 0)
            #expect(pinned.errors.contains("pinned"), "\(pinned)")
            let holder = try drive.start("exec sleep 60 < folder/one")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/folder/one") }
            try await drive.run("head -c 1 folder/one > /dev/null")
            let open = try await drive.cloudfs(["evict", "folder/one"])
            #expect(open.status != 0)
            #expect(open.errors.contains("open"), "\(open)")
            try await drive.mustDo(["pause"])
            try await drive.write("new", "not in the cloud yet")
            let dirty = try await drive.cloudfs(["evict", "new"])
            #expect(dirty.status != 0)
            #expect(dirty.errors.contains("upload"), "\(dirty)")
            #expect(try await drive.text("new") == "not in the cloud yet")
        }
    }

    @Test func `the queue says what is to be done of each change`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.mustDo(["pause"])
            try await drive.run("chmod 600 document.txt; mv folder/one moved; rm folder/sub/two")
            try await drive.run("echo > new; mkdir made")
            let queue = try await drive.mustDo(["queue"])
            for (path, change) in [
                ("document.txt", "update"), ("moved", "move"), ("new", "upload"),
                ("made", "create-folder"), ("folder/sub/two", "delete"),
            ] {
                let line = queue.split(separator: "\n").first { $0.hasSuffix(" \(path)") }
                let words = line.map { $0.split(separator: " ").map(String.init) } ?? []
                #expect(words.contains(change), "\(path) in\n\(queue)")
            }
        }
    }

    @Test func `pin keeps a folder here until unpin`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.mustDo(["pin", "folder"])
            try await eventually("it is here") {
                guard try await drive.state("folder/one") == "local" else { return false }
                return try await drive.state("folder/sub/two") == "local"
            }
            #expect(try await drive.attribute("user.cloudfs.pin", of: "folder") == "pinned")
            try await drive.mustDo(["unpin", "folder"])
            try await drive.mustDo(["evict", "-r", "folder"])
            #expect(try await drive.state("folder/one") == "cloud")
        }
    }

    @Test func `pause holds uploads back, resume lets them go, drain waits for them`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.mustDo(["pause"])
            try await drive.write("held", "back")
            try await drive.write("too", "x")
            try await eventually("both wait") {
                let status = try JSONNode(try await drive.mustDo(["status", "--json"]))
                return status.first("outbox")?["waiting"]?.integer == 2
            }
            let left = try await drive.cloudfs(["drain"])
            #expect(left.status == 1)
            #expect(left.errors.contains("held") && left.errors.contains("too"), "\(left)")
            #expect(left.errors.contains("cloudfs resume"), "\(left)")
            // Waiting would be in vain.
            #expect(try await drive.cloudfs(["drain", "--wait"]).errors == left.errors)
            #expect(try drive.cloud.paths().isEmpty)
            try await drive.mustDo(["resume"])
            try await drive.mustDo(["drain", "--wait"])
            #expect(try drive.cloud.paths() == ["held", "too"])
        }
    }

    @Test func `mounts lists the drives`() async throws {
        try await TestDrive.with { drive in
            try await drive.withSecondDrive { second in
                let table = try await drive.mustDo(["mounts"])
                #expect(table.contains(drive.path) && table.contains(second.path), "\(table)")
                let json = try JSONNode(try await drive.mustDo(["mounts", "--json"]))
                #expect("\(json)".contains(drive.path))
            }
        }
    }

    @Test func `unmount ends the drive when its queue is drained`() async throws {
        var options = TestMount.Options()
        options.quietTime = "20s"
        try await TestDrive.with(options: options) { drive in
            try await drive.write("late", "text")
            try await drive.run("cd / && cloudfs unmount \"$DRIVE\"")
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(drive.cloud.text("late") == "text")
        }
    }

    @Test(arguments: [["--force"], ["--timeout", "1s"]])
    func `unmount waits no longer than it was told`(options: [String]) async throws {
        // Nothing can be sent in this time.
        try await TestDrive.with(["--upload-limit", "1KiB"]) { drive in
            try await drive.run("head -c 1M /dev/urandom > large")
            try await eventually("it is being sent") {
                try await drive.mustDo(["queue"]).contains("large")
            }
            let began = ContinuousClock.now
            let ended = try await drive.cloudfs(["unmount"] + options + [drive.path])
            #expect(ended.status == 0, "\(ended)")
            #expect(ended.errors.contains("kept for the next mount"), "\(ended)")
            #expect(ContinuousClock.now - began < .seconds(8))
            #expect(MountEntry.at(drive.path).isEmpty)
        }
    }

    @Test func `a daemon that hangs is detached by force, and ends once it can`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            let worker = try #require(drive.mount.worker)
            #expect(kill(worker, SIGSTOP) == 0)
            defer { kill(worker, SIGCONT) }
            let ended = try await Shell.run(
                [TestMount.binary("cloudfs"), "unmount", "--force", drive.path],
                environment: drive.environment
            )
            #expect(ended.status == 0 && ended.errors.contains("does not answer"), "\(ended)")
            #expect(MountEntry.at(drive.path).isEmpty)
            #expect(kill(worker, SIGCONT) == 0)
            #expect(try await drive.mount.wait(within: .seconds(20)) == 0)
        }
    }

    @Test func `a command that there is not is refused, also where its help is asked for`()
        async throws
    {
        for arguments in [["foo"], ["help", "foo"], ["help", "conflicts", "foo"], ["umount"]] {
            let refused = try await Shell.run([TestMount.binary("cloudfs")] + arguments)
            #expect(refused.status == 64, "\(arguments)")
            #expect(refused.errors.contains("there is no command"), "\(refused)")
        }
        for arguments in [["help"], ["help", "help"], ["help", "conflicts", "keep"]] {
            let shown = try await Shell.run([TestMount.binary("cloudfs")] + arguments)
            #expect(shown.status == 0 && shown.output.contains("USAGE"), "\(shown)")
        }
    }

    @Test func `what cannot be written is told of`() async throws {
        try await TestDrive.with { drive in
            let failed = try await Shell.script(
                "cd \(drive.path) && \(TestMount.binary("cloudfs")) status > /dev/full",
                environment: drive.environment
            )
            #expect(failed.status == 1 && failed.errors.contains("No space left"), "\(failed)")
        }
    }

    @Test func `unmount refuses while files are open`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            let holder = try drive.start("exec sleep 60 < document.txt")
            try await eventually("it is open") { holder.hasOpen("\(drive.path)/document.txt") }
            let refused = try await Shell.run(
                [TestMount.binary("cloudfs"), "unmount", drive.path],
                environment: drive.environment
            )
            #expect(refused.status != 0)
            #expect(refused.errors.contains("document.txt is open"), "\(refused)")
            #expect(try await drive.text("document.txt") == "text")
        }
    }

    @Test func `other users cannot steer the drive`() async throws {
        try await TestDrive.with { drive in
            let sockets = try await drive.run(
                "find \"$XDG_RUNTIME_DIR/cloudfs\" -type s -printf '%m\\n'"
            )
            #expect(!sockets.isEmpty)
            #expect(sockets.split(separator: "\n").allSatisfy { $0 == "600" })
            #expect(try await drive.run("stat -c %a \"$XDG_RUNTIME_DIR/cloudfs\"") == "700")
        }
    }

    /// Whatever the modes of socket and folder let through.
    @Test(.asRoot) func `who asks is known from the kernel, and others get no answer`()
        async throws
    {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                import glob, socket
                path, = [p for p in glob.glob(os.environ["XDG_RUNTIME_DIR"] + "/cloudfs/*")
                         if stat.S_ISSOCK(os.lstat(p).st_mode)]
                folder, name = os.path.split(path)
                os.chmod(path, 0o666); os.chmod(folder, 0o755); os.chdir(folder)
                def answer():
                    with socket.socket(socket.AF_UNIX) as client:
                        client.settimeout(10)
                        try:
                            client.connect(name)
                            client.sendall(b"GET /v1/drive HTTP/1.1\\r\\nHost: drive\\r\\n\\r\\n")
                            return client.recv(1000)
                        except (ConnectionResetError, BrokenPipeError):
                            return b""
                assert b" 200 " in answer(), answer()
                os.setgroups([]); os.setgid(65534); os.setuid(65534)
                assert answer() == b"", answer()
                """
            )
        }
    }

    @Test func `what fails in the queue can be seen`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            // Of a folder that was never listed nobody can say that it lacks a name.
            try await drive.run("ls > /dev/null; mv \"$CLOUD\" \"$CLOUD.away\"")
            try await drive.write("stuck", "text")
            try await eventually("status tells of it", within: .seconds(10)) {
                let status = try await drive.mustDo(["status", "--json"])
                let json = try JSONNode(status)
                return json.first("connection")?["state"]?.string == "offline"
                    && json.first("connection")?["reason"]?.string?.isEmpty == false
            }
            let waiting = try await drive.cloudfs(["drain"])
            #expect(waiting.status == 1)
            #expect(waiting.errors.contains("stuck"), "\(waiting)")
            #expect(waiting.errors.contains("cloudfs drain --wait"), "\(waiting)")
            async let drained = drive.cloudfs(["drain", "--wait"], within: .seconds(40))
            try await drive.run("mv \"$CLOUD.away\" \"$CLOUD\"")
            #expect(try await drained.status == 0)
            #expect(drive.cloud.text("stuck") == "text")
        }
    }
}
