import CloudFSTestSupport
import Foundation
import Testing

/// How programs save: each way ends as one new version of the same item.
@Suite(.onDrives, .printingLogs, .notingIssues)
struct EditorTests {
    /// The kernel finds the old file by its name, and asks about it when it is gone already.
    @Test(arguments: [[], ["--no-passthrough"]])
    func `a file that is saved by renaming is there at every moment`(
        arguments: [String]
    ) async throws {
        try await TestDrive.with(arguments) { drive in
            try await drive.python(
                """
                import threading
                open("doc", "w").close()
                saves, looks, failures = 0, 0, []
                def save():
                    global saves
                    while saves < 300:
                        with open("new", "w") as file: file.write("text")
                        os.rename("new", "doc")
                        saves += 1
                def look():
                    global looks
                    while saves < 300:
                        try:
                            open("doc").close()
                            open("doc", "r+").close()
                            os.stat("doc")
                            os.chmod("doc", 0o644)
                            os.getxattr("doc", "user.cloudfs.item-id")
                            looks += 1
                        except OSError as error: failures.append(error)
                threads = [threading.Thread(target=work) for work in (save, look, look)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                assert not failures, failures[:3]
                assert looks > 10, looks
                """,
                within: .seconds(60)
            )
        }
    }

    /// Saves `document.txt`, which says "old text", with "new text" in its place.
    struct Save: Sendable, CustomTestStringConvertible {
        var testDescription: String
        var needs = "bash"
        var script: String

        init(_ name: String, needs: String = "bash", _ script: String) {
            testDescription = name
            self.needs = needs
            self.script = script
        }
    }

    private static func vim(_ settings: String) -> String {
        "vim -u NONE -i NONE -N -es -c 'set \(settings)' -c '%s/old/new/' -c 'wq' document.txt"
            + " < /dev/null"
    }

    static let saves = [
        Save("vim as it comes", needs: "vim", vim("swapfile writebackup backupcopy=auto")),
        Save("vim that copies", needs: "vim", vim("swapfile writebackup backupcopy=yes")),
        Save("vim that renames", needs: "vim", vim("swapfile writebackup backupcopy=no")),
        Save("vim without backup", needs: "vim", vim("nowritebackup noswapfile")),
        Save("sed -i", "sed -i s/old/new/ document.txt"),
        Save("perl -i", needs: "perl", "perl -i -pe s/old/new/ document.txt"),
        Save("truncate and write", "echo 'new text' > document.txt"),
        Save("write in place", "printf new | dd of=document.txt conv=notrunc status=none"),
        Save("write aside and rename", "echo 'new text' > .t && sync .t && mv -f .t document.txt"),
        Save(
            "write aside in another folder and rename",
            "mkdir .s && echo 'new text' > .s/d && mv -f .s/d document.txt && rmdir .s"
        ),
        Save(
            "keep a backup aside, write, remove the backup",
            "mv document.txt document.txt~ && echo 'new text' > document.txt && rm document.txt~"
        ),
        Save(
            "remove and write anew",
            "rm document.txt && echo 'new text' > document.txt"
        ),
        Save(
            "exchange and remove",
            """
            echo 'new text' > .t
            /usr/bin/python3 -c '
            import ctypes
            assert ctypes.CDLL(None).renameat2(-100, b".t", -100, b"document.txt", 2) == 0'
            rm .t
            """
        ),
        Save(
            "an office suite, with a lock file",
            """
            echo me > .~lock.document.txt#
            echo 'new text' > lu123.tmp && cp lu123.tmp document.txt && rm lu123.tmp
            rm .~lock.document.txt#
            """
        ),
        Save(
            "Python's atomic save",
            """
            /usr/bin/python3 -c '
            import os, tempfile
            with tempfile.NamedTemporaryFile("w", dir=".", delete=False) as file:
                file.write("new text\\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(file.name, "document.txt")
            folder = os.open(".", os.O_RDONLY)
            os.fsync(folder)'
            """
        ),
    ]

    @Test(arguments: saves)
    func `a save ends as one new version of the same item`(save: Save) async throws {
        // Longer than any of them takes: what rests between two steps of a save is sent by itself.
        var options = TestMount.Options()
        options.quietTime = "1s"
        try await TestDrive.with(
            options: options,
            prepare: Filling { try $0.write("document.txt", "old text\n") }
        ) { drive in
            let identity = try await drive.itemID("document.txt")
            try await drive.run(save.script)
            #expect(try await drive.text("document.txt") == "new text\n")
            try await drive.untilCloudHas("document.txt", "new text\n")
            try await drive.drain()
            #expect(try drive.cloud.paths() == ["document.txt"])
            #expect(try await drive.names() == ["document.txt"])
            #expect(try await drive.itemID("document.txt") == identity)
            guard !TestDrive.isNative else { return }
            #expect(identity.count == 32)
            try await eventually("it is clean") {
                try await drive.state("document.txt") == "local"
            }
            #expect(
                try await drive.attribute("user.cloudfs.has-conflicts", of: "document.txt") != "1"
            )
        }
    }

    @Test func `git works, and its repository arrives whole`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                git init -q -b main repo && cd repo
                git config user.email a@example.org && git config user.name A
                git config gc.auto 0
                for n in $(seq 20); do echo "line $n" > file$n; done
                git add . && git commit -qm first
                [ -z "$(git status --porcelain)" ]
                git checkout -qb other && echo more >> file1 && git commit -qam second
                git checkout -q main && git merge -q other
                git gc -q && git fsck --strict 2> /dev/null
                cd .. && git clone -q repo clone
                cmp repo/file1 clone/file1
                [ "$(git -C clone rev-list --count HEAD)" = 2 ]
                """,
                within: .seconds(60)
            )
            try await drive.drain()
            try await eventually("the cloud has a sound copy", within: .seconds(30)) {
                try await drive.run(
                    "git -c safe.directory='*' -C \"$CLOUD/repo\" fsck --strict > /dev/null 2>&1"
                        + " && git -c safe.directory='*' -C \"$CLOUD/repo\" status --porcelain"
                        + " 2>&1 || echo not yet"
                ).isEmpty
            }
        }
    }

    @Test func `rsync copies in, finds nothing to do again, and copies out`() async throws {
        try await TestDrive.with { drive in
            try await drive.run(
                """
                cd "$SCRATCH"
                mkdir -p tree/a/b
                for n in 1 2 3; do head -c $((n * 30000)) /dev/urandom > tree/a/b/$n; done
                ln -s b/1 tree/a/link
                chmod 640 tree/a/b/2
                touch -d '2005-06-07 08:09:10.123456789' tree/a/b/3
                rsync -a tree/ "$DRIVE/tree/"
                [ -z "$(rsync -ai tree/ "$DRIVE/tree/")" ]
                echo changed >> tree/a/b/1 && rm tree/a/b/2
                rsync -a --delete --inplace tree/ "$DRIVE/tree/"
                [ -z "$(rsync -aic --delete tree/ "$DRIVE/tree/")" ]
                """
            )
            try await drive.drain()
            try await eventually("the cloud has the same") {
                try await drive.run(
                    "rsync -aicn --delete --no-owner --no-group --omit-dir-times"
                        + " \"$SCRATCH/tree/\" \"$CLOUD/tree/\" 2>&1"
                ).isEmpty
            }
        }
    }

    @Test(arguments: ["delete", "truncate", "persist", "wal"])
    func `sqlite keeps its transactions`(journal: String) async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                base = sqlite3.connect("base.sqlite", isolation_level=None)
                assert base.execute("PRAGMA journal_mode=\(journal)").fetchone()[0] == "\(journal)"
                base.execute("CREATE TABLE t (n INTEGER PRIMARY KEY, text TEXT)")
                for turn in range(10):
                    base.execute("BEGIN IMMEDIATE")
                    for n in range(100):
                        base.execute("INSERT INTO t (text) VALUES (?)", ("x" * 100,))
                    base.execute("ROLLBACK" if turn % 5 == 4 else "COMMIT")
                other = sqlite3.connect("base.sqlite", timeout=0, isolation_level=None)
                base.execute("BEGIN IMMEDIATE")
                try:
                    other.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    assert "locked" in str(error), error
                else:
                    raise AssertionError("two writers")
                base.execute("COMMIT")
                assert other.execute("SELECT count(*) FROM t").fetchone()[0] == 800
                assert base.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
                other.close()
                base.close()
                """
            )
            try await drive.drain()
            try await eventually("the cloud has the same database") {
                try await drive.run("cmp base.sqlite \"$CLOUD/base.sqlite\" 2>&1 || true").isEmpty
            }
        }
    }

    @Test(.onMounts, .withOffice)
    func `what LibreOffice saves ends as one new version of the same item`() async throws {
        var options = TestMount.Options()
        // What users have. A save replaces the document and opens it anew a moment later; with
        // less, that moment can be long enough for an upload of its own.
        options.quietTime = "2s"
        try await TestDrive.with(options: options) { drive in
            try await drive.python(Self.office, within: .seconds(120))
        }
    }

    @Test(.onMounts)
    func `another device sees the save as a new version, not as another file`() async throws {
        try await TestDrive.with(prepare: Filling { try $0.write("document.txt", "old text\n") }) {
            drive in
            try await drive.withSecondDrive { second in
                let identity = try await drive.itemID("document.txt")
                #expect(try await second.itemID("document.txt") == identity)
                let inode = try await second.status("document.txt").inode
                try await drive.run("echo 'new text' > .t && mv .t document.txt")
                try await eventually("the second drive has it") {
                    // A read of the old version ends with ESTALE when that goes meanwhile.
                    (try? await second.text("document.txt")) == "new text\n"
                }
                #expect(try await second.itemID("document.txt") == identity)
                #expect(try await second.status("document.txt").inode == inode)
                #expect(try await second.names() == ["document.txt"])
            }
        }
    }
}

extension Trait where Self == ConditionTrait {
    /// Tests that drive a real LibreOffice.
    fileprivate static var withOffice: Self {
        .enabled(
            if: FileManager.default.isExecutableFile(atPath: "/usr/bin/soffice")
                && FileManager.default.fileExists(atPath: "/usr/lib/python3/dist-packages/uno.py"),
            "needs libreoffice-writer-nogui and python3-uno"
        )
    }
}

extension EditorTests {
    /// Opens, stores and closes a document that was a placeholder, in LibreOffice itself.
    ///
    /// It holds the document open for writing between its saves, so what is stored twice before the
    /// document is closed is one upload.
    private static let office = """
        import atexit, json, pathlib, subprocess, uno
        from com.sun.star.beans import PropertyValue
        from com.sun.star.connection import NoConnectException

        scratch = os.environ["SCRATCH"]
        document, lock = os.path.abspath("document.odt"), ".~lock.document.odt#"
        pipe = f"cloudfs-test-{os.getpid()}"

        def eventually(what, condition, limit=40):
            end = time.monotonic() + limit
            while not condition():
                assert time.monotonic() < end, f"waited in vain until {what}"
                time.sleep(0.05)

        def attribute(name):
            return os.getxattr(document, "user.cloudfs." + name).decode()

        def same(path):
            with open(path, "rb") as one, open(document, "rb") as other:
                return one.read() == other.read()

        def in_cloud():
            status = os.stat(f"{cloud}/document.odt")
            return status.st_ino, status.st_mtime_ns, status.st_size

        def names(folder):
            return sorted(name for name in os.listdir(folder) if name != ".cloudfs")

        def connected():
            global context
            try:
                context = resolver.resolve(f"uno:pipe,name={pipe};urp;StarOffice.ComponentContext")
                return True
            except NoConnectException:
                assert office.poll() in (None, 81), f"soffice ended with {office.returncode}"
                return False

        def load(url):
            return desktop.loadComponentFromURL(
                url, "_blank", 0, (PropertyValue(Name="Hidden", Value=True),))

        def end():
            # What is started is a wrapper, which leaves the program behind when it is killed.
            for process in pathlib.Path("/proc").glob("[0-9]*"):
                try:
                    if f"name={pipe};" in (process / "cmdline").read_text():
                        os.kill(int(process.name), signal.SIGKILL)
                except (FileNotFoundError, ProcessLookupError):
                    pass
            pathlib.Path(f"/tmp/OSL_PIPE_{os.getuid()}_{pipe}").unlink(missing_ok=True)

        office = subprocess.Popen(
            ["soffice", "--headless", "--norestore", "--nologo", "--nodefault",
             f"--accept=pipe,name={pipe};urp;", f"-env:UserInstallation=file://{scratch}/office"],
            env=dict(os.environ, TMPDIR=scratch))
        atexit.register(end)
        resolver = uno.getComponentContext().ServiceManager.createInstance(
            "com.sun.star.bridge.UnoUrlResolver")
        eventually("soffice answers", connected)
        desktop = context.ServiceManager.createInstance("com.sun.star.frame.Desktop")

        made = load("private:factory/swriter")
        made.Text.String = "old text"
        made.storeToURL(
            f"file://{scratch}/new.odt", (PropertyValue(Name="FilterName", Value="writer8"),))
        made.close(True)
        os.system(f"cp '{scratch}/new.odt' '{cloud}/.t' && mv '{cloud}/.t' '{cloud}/document.odt'")
        eventually("the drive shows it", lambda: os.path.exists(document))
        assert attribute("status") == "cloud", attribute("status")
        identity, versions = attribute("item-id"), [attribute("version")]

        for texts in (["first"], ["second", "third"]):
            opened = load("file://" + document)
            assert not opened.isReadonly()
            assert lock in names("."), names(".")
            for text in texts:
                opened.Text.String = text
                opened.store()
                assert lock in names("."), names(".")
                assert os.path.getsize(f"{cloud}/document.odt") > 0
            eventually("others see who has it open", lambda: lock in names(cloud))
            opened.close(True)
            assert names(".") == ["document.odt"], names(".")
            eventually("others see that nobody has", lambda: lock not in names(cloud))
            before = versions[-1]
            eventually("it is sent", lambda: attribute("version") != before)
            sent = in_cloud()
            assert same(f"{cloud}/document.odt")
            subprocess.run(["cloudfs", "drain", "--wait"], check=True, stdout=subprocess.DEVNULL)
            assert in_cloud() == sent, "it was sent twice"
            assert attribute("item-id") == identity, attribute("item-id")
            assert attribute("status") == "local" and attribute("has-conflicts") != "1"
            assert names(".") == names(cloud) == ["document.odt"], names(cloud)
            versions.append(attribute("version"))

        again = load(f"file://{cloud}/document.odt")
        assert again.Text.String == "third", again.Text.String
        again.close(True)
        # That one had a lock in the cloud, which the drive may not have heard the end of.
        eventually("nobody has it open", lambda: lock not in names(cloud) + names("."))

        # A crash leaves no lock behind.
        load("file://" + document)
        eventually("others see who has it open", lambda: lock in names(cloud))
        drives = json.loads(subprocess.check_output(["cloudfs", "mounts", "--json"]))
        state = next(drive["status"]["stateDirectory"] for drive in drives
            if drive["mountpoint"] == os.getcwd())
        # A running daemon lets nobody else open its own.
        copy = f"cp {state}/catalog.sqlite* {scratch}; sqlite3 {scratch}/catalog.sqlite "
        known = copy + "'SELECT count(*) FROM owner_file WHERE is_kept'"
        eventually("it is known whose lock it is", lambda:
            subprocess.check_output(known, shell=True, text=True) == "1\n")
        end()
        office.wait(20)
        eventually("it is gone here", lambda: names(".") == ["document.odt"])
        eventually("it is gone for others", lambda: names(cloud) == ["document.odt"])
        """
}
