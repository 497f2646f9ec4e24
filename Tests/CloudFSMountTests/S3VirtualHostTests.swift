import CloudFSTestSupport
import Testing

/// Drives on a bucket whose name stands in the host's name.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3VirtualHostTests {
    /// A host, and a bucket before it: together the name of this machine, without asking anybody.
    private static let host = "1"
    private static let bucket = "127.0.0"

    private static func options(
        _ server: FakeS3Server,
        _ addressing: String
    ) -> TestMount.Options {
        var options = S3FaultTests.options(server)
        options.arguments = [
            "--poll-interval", "100ms", "--endpoint", "http://\(host):\(server.port)",
            "--addressing", addressing,
        ]
        options.container = "s3://\(bucket)/prefix"
        return options
    }

    @Test func `a bucket that is named by the host is listed, read and written`() async throws {
        var settings = FakeS3Settings()
        settings.virtualHostDomain = Self.host
        let server = try await FakeS3Server.start(bucket: Self.bucket, settings: settings)
        let bucket = Self.bucket
        server.put("prefix/known", "here", in: bucket)
        server.put("prefix/deep/a b/ü+%&=?#", "there", in: bucket)
        try await TestDrive.with(options: Self.options(server, "virtual-host")) { drive in
            try await drive.run(
                """
                [ "$(ls)" = $'deep\\nknown' ] && [ "$(cat known)" = here ]
                [ "$(cat 'deep/a b/ü+%&=?#')" = there ]
                echo new > made; mv known 'deep/a b/moved'; mkdir empty
                head -c 9000000 /dev/zero > large
                """
            )
            try await drive.drain()
            try await drive.mustDo(["evict", "large"])
            try await drive.run("cmp large <(head -c 9000000 /dev/zero); rm -r 'deep/a b'")
            try await drive.drain()
        }
        #expect(server.object("prefix/made", in: bucket)?.bytes == Array("new\n".utf8))
        #expect(server.object("prefix/large", in: bucket)?.bytes.count == 9_000_000)
        #expect(server.keys("prefix/deep/a b/", in: bucket).isEmpty)
        #expect(server.requestCount(.uploadPart) == 2)
        for request in server.requests {
            #expect(request.header("host") == "\(bucket).\(Self.host):\(server.port)")
            // The path begins with the key, and is nothing but a slash where there is none.
            #expect(request.target.hasPrefix("/prefix/") || request.target.hasPrefix("/?"))
            #expect(request.bucket == bucket)
            #expect(request.credentialScope?.first == "key")
        }
    }
}
