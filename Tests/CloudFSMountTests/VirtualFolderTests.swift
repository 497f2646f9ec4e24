import CloudFSTestSupport
import Glibc
import Testing

/// `.cloudfs` in the root of a drive: folders of links to items.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct VirtualFolderTests {
    private static var content: Filling {
        Filling { cloud in
            try cloud.write("plan.txt", "plan")
            try cloud.write("docs/plan.txt", "other plan")
            try cloud.write("docs/deep/note.txt", "note")
        }
    }

    @Test func `it is hidden, reached by its path, and holds what it should`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            #expect(try await drive.names() == ["docs", "plan.txt"])
            #expect(
                try await drive.names(".cloudfs")
                    == ["by-id", "conflicts", "favorites", "pinned", "recents", "search", "tags"]
            )
            try await drive.run(
                """
                mkdir -p docs/.tool/deep
                echo x > docs/.tool/deep/index
                echo x > .rc
                cat docs/.tool/deep/index .rc > /dev/null
                rm -r .rc
                cat plan.txt docs/plan.txt docs/deep/note.txt > /dev/null
                setfattr -n user.cloudfs.favorite -v 1 docs/deep
                setfattr -n user.cloudfs.pin -v pinned docs/deep/note.txt
                setfattr -n user.xdg.tags -v 'red,a/b' docs/plan.txt
                for folder in recents favorites pinned tags/red tags/a%2Fb; do
                    for link in .cloudfs/$folder/*; do
                        [ -L "$link" ] && [ -e "$link" ] || { echo "$link"; exit 1; }
                        case "$(readlink "$link")" in ../../*) ;; *) exit 2 ;; esac
                    done
                done
                [ "$(cat .cloudfs/tags/red/plan.txt)" = "other plan" ]
                [ "$(readlink .cloudfs/tags/red/plan.txt)" = ../../../docs/plan.txt ]
                [ "$(cat .cloudfs/favorites/deep/note.txt)" = note ]
                [ "$(cat .cloudfs/pinned/note.txt)" = note ]
                [ "$(ls .cloudfs/recents | wc -l)" = 3 ]
                [ "$(cat .cloudfs/recents/plan* | wc -c)" = 14 ]
                [ "$(find . -name '*.txt' | wc -l)" = 3 ]
                """
            )
            #expect(try await drive.names(".cloudfs/tags") == ["a%2Fb", "red"])
            #expect(try await !drive.exists(".cloudfs/tags/blue"))
            #expect(try await !drive.exists(".cloudfs/other"))
            #expect(try await !drive.exists(".cloudfs/recents/other"))
        }
    }

    @Test func `links follow what happens to items, here and elsewhere`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            let identity = try await drive.itemID("plan.txt")
            try await drive.setAttribute("user.cloudfs.favorite", of: "plan.txt", to: "1")
            func targets() async throws -> [String] {
                try await drive.run(
                    """
                    # Between two listings a moved item can be in none of them.
                    readlink .cloudfs/by-id/\(identity) || true
                    cd .cloudfs/favorites && for link in *; do readlink "$link" || true; done
                    """
                ).split(separator: "\n").map(String.init)
            }
            #expect(try await targets() == ["../../plan.txt", "../../plan.txt"])
            #expect(try await drive.names(".cloudfs/by-id").isEmpty)
            // The kernel keeps targets of links: names of the same length tell.
            try await drive.run("mv plan.txt talk.txt")
            #expect(try await targets() == ["../../talk.txt", "../../talk.txt"])
            try await drive.run("mv talk.txt docs/talk.txt; mv docs box")
            #expect(try await targets() == ["../../box/talk.txt", "../../box/talk.txt"])
            try await drive.drain()
            try drive.cloud.rename("box/talk.txt", to: "moved")
            try await eventually("the link follows") {
                try await targets() == ["../../moved", "../../moved"]
            }
            #expect(try await drive.run("cat .cloudfs/by-id/\(identity)") == "plan")
            try await drive.setAttribute("user.cloudfs.favorite", of: "moved", to: "0")
            #expect(try await drive.names(".cloudfs/favorites").isEmpty)
            try await drive.run("rm moved")
            #expect(try await !drive.exists(".cloudfs/by-id/\(identity)"))
            #expect(try await !drive.exists(".cloudfs/by-id/\(identity.uppercased())"))
        }
    }

    @Test func `nothing in it can be changed`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            try await drive.python(
                """
                open("plan.txt").read()
                for call, arguments in (
                    (os.mkdir, (".cloudfs/new",)), (os.mkdir, (".cloudfs/tags/new",)),
                    (os.symlink, ("x", ".cloudfs/recents/new")),
                    (os.mknod, (".cloudfs/new", 0o644 | stat.S_IFREG)),
                    (os.unlink, (".cloudfs/recents/plan.txt",)),
                    (os.rmdir, (".cloudfs/recents",)),
                    (os.rename, (".cloudfs/recents/plan.txt", "stolen")),
                    (os.rename, ("plan.txt", ".cloudfs/recents/new")),
                    (os.chmod, (".cloudfs", 0o777)), (os.utime, (".cloudfs/recents",)),
                    (os.open, (".cloudfs/new", os.O_CREAT | os.O_WRONLY)),
                ):
                    fails(errno.EROFS, call, *arguments)
                fails(errno.EPERM, os.rmdir, ".cloudfs")
                fails(errno.EPERM, os.rename, ".cloudfs", "mine")
                os.mkdir("empty")
                fails(errno.EPERM, os.rename, "empty", ".cloudfs")
                fails(errno.EEXIST, os.mkdir, ".cloudfs")
                fails(errno.ENODATA, os.getxattr, ".cloudfs", "user.cloudfs.status")
                assert os.listxattr(".cloudfs") == []
                assert stat.S_IMODE(os.stat(".cloudfs").st_mode) == 0o500
                # A document is changed through a link as through any other.
                open(".cloudfs/recents/plan.txt", "a").write("ned")
                assert open("plan.txt").read() == "planned"
                """
            )
        }
    }

    @Test func `what is opened on one device is recent on all`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            try await drive.withSecondDrive { second in
                try await drive.run("cat docs/plan.txt plan.txt; ls docs/deep")
                try await second.run("cat docs/deep/note.txt")
                for device in [drive, second] {
                    try await eventually("all are recent", within: .seconds(30)) {
                        try await device.run("ls .cloudfs/recents | wc -l") == "3"
                    }
                    #expect(
                        try await device.attribute("user.cloudfs.last-used", of: "docs/plan.txt")
                            == drive.attribute("user.cloudfs.last-used", of: "docs/plan.txt")
                    )
                }
                #expect(
                    try await second.run("readlink .cloudfs/recents/note.txt").hasSuffix("note.txt")
                )
            }
        }
    }

    @Test func `a device that tells nobody what it opens asks nobody either`() async throws {
        var options = TestMount.Options()
        options.arguments = ["--recents", "here"]
        try await TestDrive.with(options: options, prepare: Self.content) { drive in
            try await drive.run("cat plan.txt")
            try await drive.withSecondDrive { second in
                try await second.run("cat docs/deep/note.txt")
                try await eventually("the list is there", within: .seconds(20)) {
                    drive.cloud.text(".cloudfs/recents/00/00uses") != nil
                }
                #expect(try await drive.run("ls .cloudfs/recents") == "plan.txt")
                #expect(try await second.run("ls .cloudfs/recents") == "note.txt")
                #expect(
                    drive.cloud.text(".cloudfs/recents/00/00uses")?.split(separator: "\n").count
                        == 1
                )
            }
        }
    }

    @Test func `conflict versions and their documents are in one folder`() async throws {
        try await ConflictTests.apart(
            prepare: Filling { try $0.write("sub/book", "one\n") },
            here: "echo ours > sub/book",
            elsewhere: "echo theirs > sub/book"
        ) { drive in
            try await eventually("both are here", within: .seconds(20)) {
                try await drive.names("sub").count == 2
            }
            #expect(try await drive.names(".cloudfs/conflicts") == drive.names("sub"))
            try await drive.mustDo(["conflicts", "keep", "\(drive.path)/sub/book"])
            #expect(try await drive.names(".cloudfs/conflicts").isEmpty)
        }
    }

    @Test func `many links have names of their own, and a stream has each once`() async throws {
        try await TestDrive.with { drive in
            try await drive.python(
                """
                for number in range(1100):
                    os.makedirs(f"d{number}")
                    path = f"d{number}/same.txt"
                    open(path, "w").close()
                    os.setxattr(path, "user.cloudfs.favorite", b"1")
                seen = []
                with os.scandir(".cloudfs/favorites") as stream:
                    for entry in stream:
                        seen.append(entry.name)
                        if len(seen) == 300:
                            os.removexattr("d0/same.txt", "user.cloudfs.favorite")
                            os.unlink("d999/same.txt")
                assert len(seen) == len(set(seen)), len(seen)
                assert 998 <= len(seen) <= 1002, len(seen)
                names = os.listdir(".cloudfs/favorites")
                targets = {os.readlink(".cloudfs/favorites/" + name) for name in names}
                assert len(targets) == len(names) == 1000, len(targets)
                """,
                within: .seconds(60)
            )
        }
    }

    @Test func `an open folder and a working folder outlive the worker`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            try await drive.setAttribute("user.cloudfs.favorite", of: "plan.txt", to: "1")
            let said = try await drive.python(
                """
                import subprocess
                os.chdir(".cloudfs/favorites")
                folder = os.open(".", os.O_RDONLY)
                before = os.stat(".").st_ino, os.lstat("plan.txt").st_ino
                subprocess.run(["cloudfs", "restart"], check=True)
                assert os.listdir(folder) == ["plan.txt"], os.listdir(folder)
                assert os.listdir(".") == ["plan.txt"]
                assert (os.stat(".").st_ino, os.lstat("plan.txt").st_ino) == before
                print(open("plan.txt").read())
                """
            )
            #expect(said.hasSuffix("plan"))
        }
    }
}
