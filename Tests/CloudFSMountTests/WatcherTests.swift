import CloudFSTestSupport
import Glibc
import Testing

/// Programs that watch with inotify hear of what other devices do.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct WatcherTests {
    /// `heard(wanted, of)` waits until all events were heard, each as its name, its kind, and
    /// whether of a folder.
    private static let watching = #"""
        import ctypes, select, struct
        libc = ctypes.CDLL(None, use_errno=True)
        ATTRIB, MODIFY, CREATE, DELETE, FOLDER = 4, 2, 0x100, 0x200, 0x40000000
        cloud = os.environ["CLOUD"]
        watch = libc.inotify_init1(os.O_CLOEXEC)
        def watches(path):
            mask = ATTRIB | MODIFY | CREATE | DELETE
            assert libc.inotify_add_watch(watch, path.encode(), mask) >= 0
        seen = []
        def heard(*wanted, within=20):
            end = time.monotonic() + within
            while missing := [each for each in wanted if each not in seen]:
                left = end - time.monotonic()
                ready = left > 0 and select.select([watch], [], [], left)[0]
                assert ready, f"not heard: {missing}, but {seen}"
                data, at = os.read(watch, 65536), 0
                while at < len(data):
                    _, mask, _, length = struct.unpack_from("iIII", data, at)
                    name = data[at + 16:at + 16 + length].rstrip(b"\0").decode()
                    seen.append((name, mask))
                    at += 16 + length
            unwanted = [each for each in seen if each not in wanted]
            seen.clear()
            return unwanted

        """#

    private static func fill(_ cloud: TestFolder) throws {
        for name in ["written", "gone", "touched", "old", "in/x"] {
            try cloud.write("folder/" + name, "text")
        }
    }

    @Test(arguments: [[], ["--no-passthrough"]])
    func `who watches a folder hears of what others do`(arguments: [String]) async throws {
        let filling = Filling(Self.fill)
        try await TestDrive.with(arguments, prepare: filling) { drive in
            try await drive.run("ls -lR > /dev/null")
            try await drive.python(
                Self.watching + #"""
                    watches("folder")
                    open(cloud + "/folder/new", "w").close()
                    os.mkdir(cloud + "/folder/sub")
                    os.symlink("new", cloud + "/folder/link")
                    heard(("new", CREATE), ("sub", CREATE | FOLDER), ("link", CREATE))
                    assert os.path.isdir("folder/sub") and os.readlink("folder/link") == "new"
                    open(cloud + "/folder/written", "a").write("more")
                    heard(("written", MODIFY))
                    assert open("folder/written").read() == "textmore"
                    os.chmod(cloud + "/folder/touched", 0o600)
                    heard(("touched", ATTRIB))
                    os.remove(cloud + "/folder/gone")
                    os.rmdir(cloud + "/folder/sub")
                    heard(("gone", DELETE), ("sub", DELETE | FOLDER))
                    os.rename(cloud + "/folder/old", cloud + "/folder/renamed")
                    heard(("old", DELETE), ("renamed", CREATE))
                    os.rename(cloud + "/folder/in", cloud + "/folder/out")
                    heard(("in", DELETE | FOLDER), ("out", CREATE | FOLDER))
                    os.rename(cloud + "/folder/renamed", cloud + "/folder/written")
                    other = heard(("written", MODIFY), ("renamed", DELETE))
                    assert not [name for name, _ in other if name.startswith(".")], other
                    names = ["link", "new", "out", "touched", "written"]
                    for folder in "folder", cloud + "/folder":
                        assert sorted(os.listdir(folder)) == names
                    """#,
                within: .seconds(90)
            )
            // Nothing of that was anybody's change.
            #expect(try await drive.cloudfs(["queue"]).output.contains("nothing"))
        }
    }

    @Test func `what is announced is there for everybody all the time`() async throws {
        try await TestDrive.with(prepare: Filling(Self.fill)) { drive in
            try await drive.run("ls -lR > /dev/null")
            try await drive.python(
                Self.watching + #"""
                    import threading
                    watches("folder")
                    absent, running = [], True
                    def looks(name):
                        there = False
                        while running:
                            try:
                                os.stat("folder/" + name)
                                there = True
                            except FileNotFoundError:
                                if there: absent.append(name)
                    names = [f"new{number}" for number in range(30)]
                    threads = [threading.Thread(target=looks, args=(name,)) for name in names[::10]]
                    for each in threads: each.start()
                    for name in names:
                        open(cloud + "/folder/" + name, "w").close()
                        time.sleep(0.05)
                    heard((names[1], CREATE), (names[-1], CREATE))
                    running = False
                    for each in threads: each.join()
                    assert not absent, absent
                    """#,
                within: .seconds(60)
            )
        }
    }

    /// The call that the worker does not answer comes again, to one that does not expect it.
    @Test(arguments: ["unlink", "mknod", "setattr"])
    func `a worker that dies while it announces removes nothing`(operation: String) async throws {
        var options = TestMount.Options([])
        options.environment = ["CLOUDFS_FAULTS": "answer.\(operation)=crash"]
        try await TestDrive.with(options: options, prepare: Filling(Self.fill)) { drive in
            let first = try #require(drive.mount.worker)
            try await drive.run("ls -lR > /dev/null")
            try await drive.python(
                Self.watching + """
                    watches("folder")
                    before = {name: os.stat("folder/" + name) for name in ["touched", "written"]}
                    os.remove(cloud + "/folder/gone")
                    open(cloud + "/folder/new", "w").close()
                    os.chmod(cloud + "/folder/old", 0o600)
                    end = time.monotonic() + 20
                    while os.path.exists("/proc/\(first)/exe"):
                        assert time.monotonic() < end
                        time.sleep(0.05)
                    while os.path.exists("folder/gone") or not os.path.exists("folder/new"):
                        assert time.monotonic() < end
                        time.sleep(0.05)
                    with open(cloud + "/folder/gone", "w") as file: file.write("again")
                    heard(("gone", CREATE))
                    assert open("folder/gone").read() == "again"
                    for name, known in before.items():
                        assert os.stat("folder/" + name).st_mtime_ns == known.st_mtime_ns
                    """,
                within: .seconds(90)
            )
            #expect(drive.mount.worker != first)
            try await drive.mustDo(["drain", "--wait"])
            let names = try await drive.run("ls \"$CLOUD/folder\"")
            #expect(names == "gone\nin\nnew\nold\ntouched\nwritten")
        }
    }
}
