import CloudFSTestSupport
import Foundation
import Glibc
import Testing

/// Finding items of a mounted drive, at once and as they change.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct QueryTests {
    private static var photos: Filling {
        Filling { cloud in
            try cloud.write("Photos/one.jpg", "1\n")
            try cloud.write("Photos/deep/two.png", "22\n")
            try cloud.write("Documents/report.txt", "333\n")
            try cloud.write("report.pdf", "4444\n")
        }
    }

    /// What a query finds, as paths from the drive's root.
    private static func found(_ words: [String], _ drive: TestDrive) async throws -> [String] {
        let answer = try await drive.mustDo(["query"] + words + [drive.path])
        return answer.split(separator: "\n").map { String($0.trimmingPrefix(drive.path + "/")) }
            .sorted()
    }

    private static func finds(
        _ words: [String],
        _ expected: [String],
        _ drive: TestDrive
    ) async throws {
        try await eventually("\(words) finds \(expected)", within: .seconds(10)) {
            try await found(words, drive) == expected
        }
    }

    @Test func `placeholders and local files are found alike, and nothing is downloaded`()
        async throws
    {
        try await TestDrive.with(prepare: Self.photos) { drive in
            try await Self.finds(["report"], ["Documents/report.txt", "report.pdf"], drive)
            try await Self.finds(["type:image"], ["Photos/deep/two.png", "Photos/one.jpg"], drive)
            try await Self.finds(
                ["*.pdf", "or", "size:2"],
                ["Photos/one.jpg", "report.pdf"],
                drive
            )
            try await Self.finds(["--scope", "documents"], ["Documents/report.txt"], drive)
            let rest = [
                "Documents", "Photos", "Photos/deep", "Photos/deep/two.png", "Photos/one.jpg",
            ]
            try await Self.finds(["--scope", "data"], rest + ["report.pdf"], drive)
            try await Self.finds(["--scope", "external"], [], drive)
            try await drive.run(
                "echo 5 > 'new report.md'; setfattr -n user.xdg.tags -v Red,b report.pdf"
            )
            #expect(
                try await Self.found(["report type:text"], drive) == [
                    "Documents/report.txt", "new report.md",
                ]
            )
            #expect(try await Self.found(["tag:red"], drive) == ["report.pdf"])
            let sorted = try await drive.mustDo([
                "query", "kind:file", "--sort", "size-", "-n", "1", drive.path,
            ])
            #expect(sorted.contains("report.pdf") && !sorted.contains("one.jpg"))
            let below = try await drive.mustDo(["query", "kind:file", "\(drive.path)/Photos"])
            #expect(below.split(separator: "\n").count == 2)
            let json = try await drive.mustDo(["query", "--json", "one.jpg", drive.path])
            #expect(json.contains("\"contentType\" : \"image/jpeg\""))
            #expect(json.contains("\"status\" : \"cloud\""))
            #expect(
                try await drive.run("getfattr --only-values -n user.cloudfs.status Photos/one.jpg")
                    == "cloud"
            )
            let tree = "getfattr --only-values -n user.cloudfs.content-type-tree Photos/one.jpg"
            #expect(try await drive.run(tree).hasPrefix("public.jpeg,public.image,"))
        }
    }

    @Test func `a file is opened with an application of its type`() async throws {
        try await TestDrive.with(prepare: Self.photos) { drive in
            try await drive.run(
                """
                mkdir -p ../run/share/applications
                printf '%s\\n' '[Desktop Entry]' Type=Application Name=Copier \
                    'Exec=cp -- %f ../run/copied' 'MimeType=text/plain' 'Categories=Viewer;' \
                    > ../run/share/applications/copier.desktop
                """
            )
            let with = "XDG_DATA_DIRS=$PWD/../run/share XDG_DATA_HOME=/nowhere cloudfs open-with"
            let listed = try await drive.run("\(with) Documents/report.txt")
            #expect(listed.contains("Copier") && listed.contains("viewer"), "\(listed)")
            let editors = try await drive.run("! \(with) --role editor Documents/report.txt 2>&1")
            #expect(editors.contains("no editor opens text/plain"), "\(editors)")
            let none = try await drive.run("! \(with) Photos/one.jpg 2>&1")
            #expect(none.contains("no application opens image/jpeg"), "\(none)")
            try await drive.run("\(with) --wait Documents/report.txt Copier")
            #expect(try await drive.run("cat ../run/copied") == "333")
            try await drive.run("rm ../run/copied; \(with) Documents/report.txt copier.desktop")
            try await eventually("it is copied by and by", within: .seconds(10)) {
                try await drive.run("cat ../run/copied 2>/dev/null || true") == "333"
            }
        }
    }

    @Test func `a pin changes what a query of states finds, with the folder's content`()
        async throws
    {
        try await TestDrive.with(prepare: Self.photos) { drive in
            let output = "\(drive.folder)/run/live.out"
            let live = try drive.start(
                "exec cloudfs query --live status:excluded \(drive.path)",
                output: output
            )
            defer { live.send(SIGTERM) }
            try await Self.finds(["type:image"], ["Photos/deep/two.png", "Photos/one.jpg"], drive)
            try await drive.run("setfattr -n user.cloudfs.pin -v excluded Photos")
            for name in ["Photos", "Photos/deep/two.png"] {
                try await eventually("\(name) is told", within: .seconds(20)) {
                    Shell.text(of: output).contains("+ \(drive.path)/\(name)\n")
                }
            }
            try await drive.run("setfattr -n user.cloudfs.pin -v inherit Photos")
            try await eventually("it is taken back", within: .seconds(20)) {
                Shell.text(of: output).contains("- \(drive.path)/Photos/deep/two.png\n")
            }
        }
    }

    @Test func `results of several drives are in one order, and no more than asked for`()
        async throws
    {
        let files = Filling { cloud in
            for size in 1...4 {
                try cloud.write("file-\(size)", [UInt8](repeating: 0x78, count: size))
            }
        }
        try await TestDrive.with(slots: 2, prepare: files) { drive in
            try await drive.withSecondDrive { second in
                func found(_ words: [String]) async throws -> [String] {
                    let answer = try await drive.mustDo(["query", "file"] + words)
                    return answer.split(separator: "\n").compactMap {
                        $0.split(separator: "/").last.map(String.init)
                    }
                }
                try await eventually("both drives show all", within: .seconds(20)) {
                    try await found([]).count == 8
                }
                let (one, two, three, four) = ("file-1", "file-2", "file-3", "file-4")
                let largest = [four, four, three, three, two]
                #expect(try await found(["--sort", "size-", "-n", "5"]) == largest)
                let first = [one, one, two, two, three, three, four, four]
                #expect(try await found(["--sort", "name"]) == first)
            }
        }
    }

    @Test func `a drive that hangs hides no other`() async throws {
        try await TestDrive.with(slots: 2, prepare: Self.photos) { drive in
            try await drive.withSecondDrive { second in
                try await Self.finds(["report.pdf"], ["report.pdf"], drive)
                let worker = try #require(second.mount.worker)
                #expect(kill(worker, SIGSTOP) == 0)
                defer { kill(worker, SIGCONT) }
                let answer = try await drive.cloudfs(["query", "report.pdf"])
                #expect(answer.output == "\(drive.path)/report.pdf\n")
                #expect(answer.status == 1, "\(answer)")
                #expect(answer.errors.contains("\(second.path) (pid"), "\(answer)")
            }
        }
    }

    @Test func `an unreachable cloud and placeholders make no difference to a query`()
        async throws
    {
        try await TestDrive.with(prepare: Self.photos) { drive in
            try await Self.finds(["type:image"], ["Photos/deep/two.png", "Photos/one.jpg"], drive)
            try await drive.run("mv \"$CLOUD\" \"$CLOUD.away\"")
            try await eventually("the drive knows", within: .seconds(20)) {
                try await drive.mustDo(["status", "--json"]).contains("offline")
            }
            let found = try await Self.found(["type:image"], drive)
            #expect(found == ["Photos/deep/two.png", "Photos/one.jpg"])
            let report = try await Self.found(["status:cloud", "name:report.txt"], drive)
            #expect(report == ["Documents/report.txt"])
            #expect(try await drive.fetched().count == 0)
            try await drive.run("mv \"$CLOUD.away\" \"$CLOUD\"")
        }
    }

    @Test func `a wrong query is told where`() async throws {
        try await TestDrive.with { drive in
            let wrong = try await drive.cloudfs(["query", "a (b", drive.path])
            #expect(wrong.status != 0)
            #expect(wrong.errors.contains("at character 5"), "\(wrong.errors)")
            // A folder by its name alone is a word.
            try await drive.run("mkdir inside")
            let none = try await drive.run("cloudfs query nothing inside 2>&1")
            #expect(none.contains("./inside is the folder"), "\(none)")
            let missing = try await drive.cloudfs(["query", "a", "\(drive.path)/nowhere"])
            #expect(missing.status != 0 && missing.errors.contains("nowhere"))
        }
    }

    /// Folders are listed in the background: the query is there long before the last one is.
    @Test func `what becomes known while a query is followed is found, too`() async throws {
        let path = "a/b/c/d/e/report.txt"
        try await TestDrive.with(
            ["--simulate-latency", "400ms"],
            prepare: Filling { try $0.write(path, "1\n") }
        ) { drive in
            let output = "\(drive.folder)/run/live.out"
            let live = try drive.start("exec cloudfs query --live report .", output: output)
            defer { live.send(SIGTERM) }
            try await eventually("it is told", within: .seconds(20)) {
                Shell.text(of: output).contains("+ \(drive.path)/\(path)\n")
            }
        }
    }

    @Test func `a query that is followed tells what comes, changes and goes`() async throws {
        try await TestDrive.with(prepare: Self.photos) { drive in
            let output = "\(drive.folder)/run/live.out"
            let live = try drive.start(
                "exec cloudfs query --live 'report or path:Photos' \(drive.path)",
                output: output
            )
            defer { live.send(SIGTERM) }
            func hears(_ line: String) async throws {
                try await eventually("told: \(line)", within: .seconds(20)) {
                    try #require(live.status == nil, "\(Shell.text(of: output))")
                    return Shell.text(of: output).contains("\(line)\n")
                }
            }
            try await hears("+ \(drive.path)/report.pdf")
            try await hears("+ \(drive.path)/Photos/deep/two.png")
            // The cloud need not know of it.
            try await drive.mustDo(["pause"])
            try await drive.run("echo 6 > 'report 6'; echo 7 > other")
            try await hears("+ \(drive.path)/report 6")
            try await drive.run("echo more >> 'report 6'; mv other 'report 7'; rm report.pdf")
            try await hears("~ \(drive.path)/report 6")
            try await hears("+ \(drive.path)/report 7")
            try await hears("- \(drive.path)/report.pdf")
            // One takes the place of another.
            try await drive.run("echo 8 > 'report 8'; echo 9 > 'report 9'")
            try await hears("+ \(drive.path)/report 9")
            try await drive.run("mv 'report 8' 'report 9'")
            try await eventually("one of two is left", within: .seconds(10)) {
                let lines = Shell.text(of: output).split(separator: "\n")
                    .filter { $0.hasSuffix("/report 9") && !$0.hasPrefix("~") }
                    .map { $0.prefix(1) }.sorted()
                return lines == ["+", "+", "-"]
            }
            try await drive.run("mv Photos/deep elsewhere")
            try await hears("- \(drive.path)/Photos/deep/two.png")
            try await drive.run("mv elsewhere Photos/deeper")
            try await hears("+ \(drive.path)/Photos/deeper/two.png")
            try await drive.mustDo(["resume"])
            try drive.cloud.write("Photos/three.jpg", "3\n")
            try await hears("+ \(drive.path)/Photos/three.jpg")
            #expect(!Shell.text(of: output).contains("/other\n"))
            try await drive.mustDo(["restart"])
            try await drive.run("mv Photos/three.jpg Photos/four.jpg")
            try await hears("- \(drive.path)/Photos/three.jpg")
            try await hears("+ \(drive.path)/Photos/four.jpg")
            let told = Shell.text(of: output)
            // What is as it was is not told again.
            #expect(
                told.components(separatedBy: "+ \(drive.path)/Photos/one.jpg").count == 2,
                "\(told)"
            )
        }
    }
}
