import CloudFSTestSupport
import Glibc
import Testing

/// `.cloudfs/search/QUERY`: folders of what queries find.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct SearchFolderTests {
    private static var content: Filling {
        Filling { cloud in
            try cloud.write("plan.txt", "plan")
            try cloud.write("docs/plan.txt", "other plan")
            try cloud.write("docs/photo.jpg", "no photo")
        }
    }

    @Test func `a query is a folder of links to what it finds`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            try await drive.run(
                """
                find . > /dev/null
                cd .cloudfs/search
                [ "$(ls | wc -l)" = 0 ]
                [ "$(ls 'type:image modified>-7d')" = photo.jpg ]
                [ "$(readlink type:image/photo.jpg)" = ../../../docs/photo.jpg ]
                [ "$(cat type:image/photo.jpg)" = "no photo" ]
                [ "$(ls plan.txt | wc -l)" = 2 ]
                [ "$(cat plan.txt/* | wc -c)" = 14 ]
                [ "$(ls path:docs%2Fplan.txt)" = plan.txt ]
                [ "$(cat path:docs%2Fplan.txt/plan.txt)" = "other plan" ]
                [ "$(ls nothing%25 | wc -l)" = 0 ]
                [ "$(ls | wc -l)" = 0 ]
                for text in 'size>' '(plan' 'status:purple' 100% %2f %61; do
                    [ ! -e "$text" ] || { echo "$text"; exit 1; }
                done
                [ ! -e plan/other ]
                """
            )
            try await drive.python(
                """
                fails(errno.ENOENT, os.listdir, ".cloudfs/search/size>")
                fails(errno.EROFS, os.mkdir, ".cloudfs/search/size>")
                fails(errno.EEXIST, os.mkdir, ".cloudfs/search/plan")
                fails(errno.EROFS, os.rmdir, ".cloudfs/search/plan")
                fails(errno.EROFS, os.unlink, ".cloudfs/search/type:image/photo.jpg")
                fails(errno.EROFS, os.symlink, "x", ".cloudfs/search/plan/new")
                """
            )
        }
    }

    @Test func `links come and go with what happens to items`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            let folder = ".cloudfs/search/name:*.txt tag:red"
            try await drive.run("find . > /dev/null")
            #expect(try await drive.names(folder).isEmpty)
            try await drive.setAttribute("user.xdg.tags", of: "plan.txt", to: "red")
            #expect(try await drive.names(folder) == ["plan.txt"])
            try await drive.run("mv plan.txt docs/talk.txt")
            #expect(try await drive.names(folder) == ["talk.txt"])
            try await drive.run("[ \"$(cat '\(folder)/talk.txt')\" = plan ]")
            try await drive.run("mv docs/talk.txt docs/talk.odt")
            #expect(try await drive.names(folder).isEmpty)
            #expect(try await drive.names(".cloudfs/search/new.txt").isEmpty)
            try await drive.run("echo new > new.txt")
            #expect(try await drive.names(".cloudfs/search/new.txt") == ["new.txt"])
            try await drive.run("rm new.txt")
            #expect(try await drive.names(".cloudfs/search/new.txt").isEmpty)
        }
    }

    @Test func `the folder of a query outlives the worker, and many others`() async throws {
        try await TestDrive.with(prepare: Self.content) { drive in
            let said = try await drive.python(
                """
                import subprocess
                os.stat("docs/photo.jpg")
                search = os.path.abspath(".cloudfs/search")
                os.chdir(search + "/type:image")
                folder = os.open(".", os.O_RDONLY)
                before = os.stat(".").st_ino, os.lstat("photo.jpg").st_ino
                subprocess.run(["cloudfs", "restart"], check=True)
                assert os.listdir(folder) == ["photo.jpg"], os.listdir(folder)
                assert os.listdir(".") == ["photo.jpg"]
                assert os.stat(search + "/type:image").st_ino == before[0]
                assert (os.stat(".").st_ino, os.lstat("photo.jpg").st_ino) == before
                print(open("photo.jpg").read())
                numbers = set()
                for number in range(300):
                    numbers.add(os.stat(f"{search}/query{number}").st_ino)
                    if number % 50 == 0:
                        assert os.stat(search + "/type:image").st_ino == before[0]
                assert len(numbers) == 300 and before[0] not in numbers
                assert os.stat(search + "/query0").st_ino not in numbers
                assert os.stat(search + "/query299").st_ino in numbers
                assert os.listdir(".") == ["photo.jpg"]
                """
            )
            #expect(said.hasSuffix("no photo"))
        }
    }
}
