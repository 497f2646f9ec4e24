import CloudFSTestSupport
import Foundation
import Testing

/// What a drive on a bucket never tells anybody.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3SecretsTests {
    private static let secret = "hush-secret-7f3a9c"
    private static let token = "hush-token-51d0be"
    private static let entered = "hush-entered-20c4e8"
    private static let uploaded = "private-words-uploaded-e4b1"
    private static let downloaded = "private-words-downloaded-93aa"

    /// What nobody may find, and what a request is signed with.
    private static let secrets = [
        secret, token, entered, uploaded, downloaded, "AWS4-HMAC-SHA256", "Signature=",
    ]

    /// The arguments of our processes: those of others may tell of other tests' requests.
    private static func commandLines() throws -> String {
        try SystemCall.names(in: "/proc").filter { Int($0) != nil }
            .map { Shell.text(of: "/proc/\($0)/cmdline") }
            .filter { $0.prefix { $0 != "\0" }.contains("cloudfs") }
            .joined(separator: "\n")
    }

    private static func check(_ text: String, _ what: String) {
        for secret in secrets {
            #expect(!text.contains(secret), "\(secret) in \(what)")
        }
    }

    @Test func `neither keys nor contents are in log, status or arguments`() async throws {
        let server = try await FakeS3Server.start()
        server.put("prefix/known", Self.downloaded)
        server.put("prefix/closed", Self.downloaded)
        var options = S3FaultTests.options(server)
        options.arguments += ["--log-level", "trace"]
        options.environment["AWS_SECRET_ACCESS_KEY"] = Self.secret
        options.environment["AWS_SESSION_TOKEN"] = Self.token
        try await TestDrive.with(options: options) { drive in
            #expect(try await drive.text("known") == Self.downloaded)
            try await drive.write("made", Self.uploaded)
            try await drive.drain()
            // Refused for a while, and for good; with what servers tell of the signature.
            server.add(FakeS3Fault(.slowDown(), count: 3))
            server.add(FakeS3Fault(.cutAnswer(afterBytes: nil), count: 2))
            server.add(
                FakeS3Fault(
                    .fail(status: 403, code: "AccessDenied"),
                    count: nil,
                    key: "prefix/closed"
                )
            )
            try await drive.run("! cat closed 2> /dev/null")
            try await drive.write("made", Self.uploaded + Self.uploaded)
            try await drive.drain()

            let gate = FakeS3Gate()
            server.add(FakeS3Fault(.wait(gate), on: .list))
            let input = TestFolder("\(drive.folder)/run")
            try input.write("login", "key\n\(Self.entered)\n")
            let login = try drive.start("cloudfs login . < \"$SCRATCH/login\"")
            try await eventually("the login waits") { gate.waitingCount > 0 }
            let worker = try #require(drive.mount.worker)
            let supervisor = try #require(drive.mount.pid)
            let lines = try Self.commandLines()
            for pid in [worker, supervisor] {
                #expect(lines.contains(Shell.text(of: "/proc/\(pid)/cmdline")))
            }
            #expect(lines.contains("cloudfs\0login"))
            Self.check(lines, "arguments")
            gate.open()
            #expect(try await login.wait(within: .seconds(15)) == 0)

            server.add(FakeS3Fault(.fail(status: 403, code: "SignatureDoesNotMatch"), count: nil))
            try await eventually("the status says what failed") {
                try await drive.mustDo(["status"]).contains("cloudfs login")
            }
            for command in ["status", "queue", "activity", "mounts"] {
                let result = try await drive.cloudfs([command, "--json"])
                Self.check(result.output + result.errors, command)
                #expect(result.output.contains("{") || result.output.contains("["), "\(result)")
            }
            Self.check(drive.mount.logText, "the log")
            // What failed is told, and all of what is traced.
            #expect(drive.mount.logText.contains("level=debug"))
            server.removeFaults()
            try await drive.drain()
        }
        #expect(
            server.object("prefix/made")?.bytes == Array((Self.uploaded + Self.uploaded).utf8)
        )
        // They were really used.
        #expect(server.requests.contains { $0.header("x-amz-security-token") == Self.token })
        let signatures = server.requests.compactMap { $0.header("authorization") }
        for part in ["AWS4-HMAC-SHA256", "Signature="] {
            #expect(signatures.contains { $0.contains(part) })
        }
    }
}
