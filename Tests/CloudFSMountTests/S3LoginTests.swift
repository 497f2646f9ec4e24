import CloudFSTestSupport
import Foundation
import Testing

/// Drives whose keys are wrong, and what mends them.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3LoginTests {
    /// A server that takes the key which `S3FaultTests.options` gives.
    static func server() async throws -> FakeS3Server {
        var settings = FakeS3Settings()
        settings.accessKeyID = "key"
        return try await FakeS3Server.start(settings: settings)
    }

    /// What `cloudfs login` says, and how it ends, after two lines of input.
    static func logIn(
        _ drive: TestDrive,
        _ name: String,
        _ secret: String,
        status: Int32 = 0
    ) async throws -> String {
        try await drive.run(
            "printf '%s\\n' '\(name)' '\(secret)' | cloudfs login . 2>&1",
            status: status
        )
    }

    @Test func `a login mends a drive whose key has become another, without remounting`()
        async throws
    {
        let server = try await Self.server()
        _ = server.put("prefix/known", "here")
        _ = server.put("prefix/folder/absent", "there")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("[ \"$(cat known)\" = here ]; ls -R > /dev/null")
            try await drive.mount.stop()
            server.settings.accessKeyID = "renewed"
            let drive = try await drive.again()
            let pid = drive.mount.worker
            try await drive.run(
                """
                [ "$(cat known)" = here ]; echo offline > made
                until cloudfs status | grep -q 'offline.*cloudfs login'; do sleep 0.05; done
                """
            )

            let refusal = try await Self.logIn(drive, "mistyped", "secret", status: 1)
            #expect(refusal.contains("does not know the access key"))
            #expect(!FileManager.default.fileExists(atPath: drive.mount.state + "/login"))

            #expect(try await Self.logIn(drive, "renewed", "hush-hush").hasSuffix(": online"))
            #expect(drive.mount.worker == pid)
            try await drive.drain()
            try await drive.run("[ \"$(cat folder/absent)\" = there ]")
            #expect(server.object("prefix/made")?.bytes == Array("offline\n".utf8))

            let login = drive.mount.state + "/login"
            let mode = try FileManager.default.attributesOfItem(atPath: login)[.posixPermissions]
            #expect(mode as? Int == 0o600)
            #expect(!drive.mount.logText.contains("hush-hush"))

            // The next mount finds what was entered.
            try await drive.restart().run("[ \"$(cat folder/absent)\" = there ]; cloudfs refresh")
        }
    }

    @Test func `a login of a drive that needs none is refused`() async throws {
        try await TestDrive.with { drive in
            let answer = try await Self.logIn(drive, "key", "secret", status: 1)
            #expect(answer.contains("needs no login"))
        }
    }

    @Test func `the status says which conditions the server honours`() async throws {
        for (settings, writes) in [
            (FakeS3Settings(), "conditional: If-None-Match, If-Match without quotes"),
            (.ceph, "conditional: If-None-Match, If-Match without quotes"),
            (.unconditional, "unconditional: what is there is looked at before"),
        ] {
            let server = try await FakeS3Server.start(settings: settings)
            try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
                let table = try await drive.mustDo(["status"])
                #expect(table.contains("  writes      \(writes)\n"))
                #expect(try await drive.mustDo(["status", "--json"]).contains("\"\(writes)\""))
            }
        }
    }

    @Test func `a refresh finds what another tool did, at once`() async throws {
        let server = try await FakeS3Server.start()
        _ = server.put("prefix/folder/deep/old", "old")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("ls -R > /dev/null; [ -e folder/deep/old ]")
            _ = server.put("prefix/folder/new", "new")
            _ = server.put("prefix/folder/deep/newer", "newer")
            server.remove("prefix/folder/deep/old")
            try await drive.mustDo(["refresh", "folder"])
            try await drive.run(
                """
                [ "$(cat folder/new)" = new ]
                until [ -e folder/deep/newer ] && [ ! -e folder/deep/old ]; do sleep 0.05; done
                """
            )
            let result = try await drive.cloudfs(["refresh", "nowhere"])
            #expect(result.status == 1)
            try await server.goDown()
            let offline = try await drive.cloudfs(["refresh", "folder"])
            #expect(offline.status == 1)
            #expect(offline.errors.contains("127.0.0.1"))
            try await server.goUp()
            try await drive.drain()
        }
    }
}
