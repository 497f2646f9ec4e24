import CloudFSTestSupport
import Glibc
import Testing

/// Saves over documents of a bucket, by the requests that they cost.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3SavingTests {
    /// What may be written by passthrough is taken for changed until it is closed, and so for what
    /// the document's deletion has to wait for; and waits for that itself.
    @Test(arguments: Reads.allCases)
    func `a draft that is kept open and saved over a document moves there, and nothing moves aside`(
        reads: Reads
    ) async throws {
        let server = try await FakeS3Server.start()
        _ = server.put("prefix/document", "before")
        _ = server.put("prefix/draft", "draft")
        var options = S3FaultTests.options(server)
        options.arguments += reads.arguments
        try await TestDrive.with(options: options) { drive in
            try await drive.run("cat document draft > /dev/null")
            for name in ["document", "draft"] {
                try await eventually("it is here") { try await drive.state(name) == "local" }
            }
            let program = try drive.start("exec 3<> draft; mv draft document; exec sleep 60 <&3")
            try await eventually("it is saved") { try await !drive.exists("draft") }
            #expect(try await drive.text("document") == "draft")
            try await eventually("the bucket has it so", within: .seconds(20)) {
                server.object("prefix/document")?.bytes == Array("draft".utf8)
                    && server.object("prefix/draft") == nil
            }
            #expect(program.status == nil)
            program.send(SIGKILL)
            try await drive.drain()
            #expect(!server.requests.contains { $0.key.text.contains("cloudfs-moving") })
            #expect(server.object("prefix/document")?.bytes == Array("draft".utf8))
        }
    }
}
