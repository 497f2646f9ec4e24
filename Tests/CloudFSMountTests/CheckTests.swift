import CloudFSTestSupport
import Foundation
import Testing

/// `cloudfs check`: every invariant is broken once, found, and repaired without a loss.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct CheckTests {
    private static let text = [UInt8](repeating: 0x61, count: 200_000)

    private static func filled(_ cloud: TestFolder) throws {
        try cloud.write("folder/file", text)
        try cloud.write("folder/other", "other")
        try cloud.write("plain", "plain")
    }

    /// Mounts a drive of which everything is here, breaks it while it is not mounted, and mounts it
    /// again.
    private func broken(
        by sql: String? = nil,
        _ change: (TestDrive) async throws -> Void = { _ in },
        body: (TestDrive) async throws -> Void
    ) async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.run("cat folder/file folder/other plain > /dev/null; echo new > new")
            try await drive.drain()
            try await drive.mount.stop()
            try await change(drive)
            if let sql {
                let catalog = "\(drive.mount.state)/catalog.sqlite"
                // As damage does it: without the rules that keep it from being written.
                let script = "PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON; "
                let result = try await Shell.run(["sqlite3", catalog, script + sql])
                try #require(result.status == 0, "\(result)")
            }
            try await body(try await drive.again())
        }
    }

    /// What `check` says without and then with repairs, and that a third one finds nothing.
    private func repairs(_ drive: TestDrive, _ invariant: String) async throws {
        let found = try await drive.cloudfs(["check"])
        #expect(found.status == 1 && found.output.contains("\(invariant)"), "\(found)")
        let repaired = try await drive.cloudfs(["check", "--repair"])
        #expect(repaired.status == 0 && repaired.output.contains("\(invariant)"), "\(repaired)")
        try await drive.drain()
        let last = try await drive.cloudfs(["check"])
        #expect(last.status == 0 && last.output.contains("nothing is wrong"), "\(last)")
    }

    private static func contentFiles(_ drive: TestDrive) async throws -> [String] {
        let result = try await Shell.run(["find", "\(drive.mount.state)/content", "-type", "f"])
        return result.output.split(separator: "\n").map(String.init)
    }

    @Test func `a sound drive is sound, while it is used and on all pages`() async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.run("for i in $(seq 250); do echo $i > many$i; done; cat plain")
            let writer = try drive.start(
                "while :; do echo x >> busy; rm -f gone; echo > gone; done"
            )
            for arguments in [["check"], ["check", "--quick"], ["check", "--repair"]] {
                let result = try await drive.cloudfs(arguments)
                #expect(result.status == 0, "\(result)")
                #expect(result.output.contains("nothing is wrong"), "\(result)")
            }
            writer.send(SIGKILL, toGroup: true)
            try await drive.drain()
            #expect(try await drive.cloudfs(["check", "--repair"]).status == 0)
        }
    }

    @Test func `bytes that rotted are fetched again`() async throws {
        try await broken { drive in
            for path in try await Self.contentFiles(drive) {
                let bytes = [UInt8](try Data(contentsOf: URL(filePath: path)))
                guard bytes == Self.text else { continue }
                // In place, with size and time as before.
                let script = """
                    touch -r "\(path)" "\(path).time"
                    printf b | dd of="\(path)" bs=1 seek=100000 conv=notrunc status=none
                    touch -r "\(path).time" "\(path)"; rm "\(path).time"
                    """
                #expect(try await Shell.script(script).status == 0)
            }
        } body: { drive in
            #expect(try await drive.bytes("folder/file") != Self.text)
            try await repairs(drive, "content-sound folder/file")
            #expect(try await drive.bytes("folder/file") == Self.text)
        }
    }

    @Test func `content that is gone or too short is fetched again`() async throws {
        try await broken { drive in
            for path in try await Self.contentFiles(drive) {
                let size = try Data(contentsOf: URL(filePath: path)).count
                let command =
                    size == Self.text.count ? ["rm", path] : ["truncate", "-s", "3", path]
                #expect(try await Shell.run(command).status == 0)
            }
        } body: { drive in
            let found = try await drive.cloudfs(["check"])
            #expect(found.output.contains("content-present folder/file"), "\(found)")
            #expect(found.output.contains("content-length plain"), "\(found)")
            try await repairs(drive, "content-length folder/other")
            #expect(try await drive.bytes("folder/file") == Self.text)
            #expect(try await drive.text("plain") == "plain")
        }
    }

    @Test func `content of which the disk lost bytes is fetched again, unless it is changed`()
        async throws
    {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.run("cat folder/file plain > /dev/null; echo new > new; sync -f new")
            try await drive.drain()
            try await drive.mustDo(["pause"])
            try await drive.run("echo mine > plain")
            try await drive.mount.stop()
            // As the drive notes what a flush says.
            let files = try await Self.contentFiles(drive)
            #expect(try await Shell.run(["chmod", "u+x"] + files).status == 0)
            let again = try await drive.again()
            let found = try await again.cloudfs(["check", "--quick"])
            #expect(found.status == 1, "\(found)")
            for path in ["folder/file", "new", "plain"] {
                #expect(found.output.contains("content-sound \(path): the disk lost"), "\(found)")
            }
            let repaired = try await again.cloudfs(["check", "--repair"])
            #expect(repaired.status == 1, "\(repaired)")
            #expect(repaired.output.contains("and is left alone"), "\(repaired)")
            #expect(try await again.bytes("folder/file") == Self.text)
            #expect(try await again.text("new") == "new\n")
            // What is left is saved anew.
            try await again.run("echo mine > fresh; mv fresh plain")
            try await again.mustDo(["resume"])
            try await again.drain()
            #expect(again.cloud.text("plain") == "mine\n")
            let last = try await again.cloudfs(["check"])
            #expect(last.status == 0 && last.output.contains("nothing is wrong"), "\(last)")
        }
    }

    @Test func `changes that the cloud does not have are never dropped`() async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.run("cat plain > /dev/null")
            try await drive.mustDo(["pause"])
            try await drive.run("echo mine > plain; echo fresh > fresh")
            try await drive.mount.stop()
            let catalog = "\(drive.mount.state)/catalog.sqlite"
            let sql = "UPDATE item SET size = size + 1 WHERE cleanliness = 1; DELETE FROM outbox"
            #expect(try await Shell.run(["sqlite3", catalog, sql]).status == 0)
            let again = try await drive.again()
            #expect(try await again.cloudfs(["check", "--repair"]).status == 0)
            #expect(try await again.text("plain") == "mine\n")
            #expect(try await again.text("fresh") == "fresh\n")
            try await again.mustDo(["resume"])
            try await again.drain()
            #expect(again.cloud.text("plain") == "mine\n")
        }
    }

    @Test func `what waits for nobody is queued`() async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.mustDo(["pause"])
            try await drive.run("mv plain elsewhere; chmod 600 folder/other; mkdir made")
            try await drive.mount.stop()
            let catalog = "\(drive.mount.state)/catalog.sqlite"
            let sql = "DELETE FROM outbox"
            #expect(try await Shell.run(["sqlite3", catalog, sql]).status == 0)
            let again = try await drive.again()
            try await again.mustDo(["resume"])
            try await repairs(again, "change-queued")
            let there = try again.cloud.paths()
            #expect(there.contains("elsewhere") && there.contains("made"))
        }
    }

    @Test func `an item that nothing leads to any more is brought back`() async throws {
        try await broken(
            by: "UPDATE name SET parent = 9999 WHERE CAST(name AS TEXT) = 'plain'"
        ) { drive in
            let found = try await drive.cloudfs(["check"])
            #expect(found.output.contains("catalog-intact"), "\(found)")
            #expect(found.output.contains("name-reachable plain"), "\(found)")
            let repaired = try await drive.cloudfs(["check", "--repair"])
            #expect(repaired.output.contains("recovered-"), "\(repaired)")
            let name = try #require(try await drive.names().first { $0.hasPrefix("recovered-") })
            #expect(try await drive.text(name) == "plain")
        }
    }

    /// Nothing is deleted in the cloud because a row is missing here.
    @Test func `a name that nobody removed comes back, and the cloud keeps what had it`()
        async throws
    {
        try await broken(
            by: "DELETE FROM name WHERE CAST(name AS TEXT) IN ('new', 'other')"
        ) { drive in
            let found = try await drive.cloudfs(["check"])
            #expect(found.output.contains("name-reachable new"), "\(found)")
            #expect(found.output.contains("name-reachable folder/other"), "\(found)")
            // Somebody takes the name for something else.
            try await drive.mustDo(["pause"])
            try await drive.run("mkdir folder/other")
            let repaired = try await drive.cloudfs(["check", "--repair"])
            #expect(repaired.status == 0, "\(repaired)")
            try await drive.mustDo(["resume"])
            try await drive.drain()
            #expect(try await drive.text("new") == "new\n")
            #expect(drive.cloud.text("new") == "new\n")
            let recovered = try drive.cloud.paths().filter { $0.hasPrefix("recovered-") }
            #expect(recovered.compactMap { drive.cloud.text($0) } == ["other"])
            #expect(try await drive.run("[ -d \"$CLOUD/folder/other\" ] && echo yes") == "yes")
            let last = try await drive.cloudfs(["check"])
            #expect(last.status == 0, "\(last)")
        }
    }

    @Test func `content that belongs to nothing is kept where a person finds it`() async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            let stray = "\(drive.mount.state)/content/61/7777.1"
            let script = "mkdir -p $(dirname \(stray)) && echo stray > \(stray)"
            let made = try await Shell.script(script)
            #expect(made.status == 0)
            // One that is new is the drive's own business.
            let first = try await drive.cloudfs(["check"])
            #expect(first.status == 0, "\(first)")
            try await eventually("it is old enough to be found", within: .seconds(30)) {
                try await drive.cloudfs(["check", "--quick"]).output.contains("content-named")
            }
            try await repairs(drive, "content-named")
            #expect(Shell.text(of: "\(drive.mount.state)/lost+found/7777.1") == "stray\n")
        }
    }

    @Test func `it stops with what cannot be asked of the cloud`() async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.run("find . > /dev/null; mv \"$CLOUD\" \"$CLOUD.away\"")
            let quick = try await drive.cloudfs(["check", "--quick"])
            #expect(quick.status == 0, "\(quick)")
            let whole = try await drive.cloudfs(["check"])
            #expect(whole.status == 1, "\(whole)")
            try await drive.run("mv \"$CLOUD.away\" \"$CLOUD\"")
        }
    }

    @Test func `it asks a cloud that was out of reach a moment ago`() async throws {
        try await TestDrive.with(prepare: Filling(Self.filled)) { drive in
            try await drive.run("find . > /dev/null; mv \"$CLOUD\" \"$CLOUD.away\"")
            try await drive.mount.stop()
            let again = try await drive.again()
            try await UnreachableTests.untilOffline(again)
            try await again.run("mv \"$CLOUD.away\" \"$CLOUD\"")
            let result = try await again.cloudfs(["check"])
            #expect(result.status == 0, "\(result)")
        }
    }
}
