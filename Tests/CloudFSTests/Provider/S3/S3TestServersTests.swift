import CloudFSTestSupport
import Foundation
import Testing

/// The real servers, and the other programs, that tests of the provider rely on.
@Suite struct S3TestServersTests {
    @Test(.enabled(if: ProcessInfo.processInfo.environment["CI"] == "true", "is for CI"))
    func `CI has a real server`() {
        #expect(!S3TestServers.all.isEmpty)
    }

    @Test(
        .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason)),
        .enabled(if: S3Programs.hasRclone, "needs rclone"),
        arguments: S3TestServers.all
    )
    func `rclone writes what rclone reads`(server: S3TestServer) async throws {
        let folder = try TemporaryDirectory()
        try folder.write(Array("hello".utf8), to: "from/a ü/b")
        try await S3TestServers.withBucket(on: server) { bucket in
            try await S3Programs.rclone(
                ["copy", folder.path("from"), "cloud:\(bucket)/top"],
                on: server
            )
            let listed = try await S3Programs.rclone(["lsf", "-R", "cloud:\(bucket)"], on: server)
            let names = Set(listed.output.split(separator: "\n"))
            #expect(names == ["top/", "top/a ü/", "top/a ü/b"])
        }
    }

    @Test(
        .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason)),
        .enabled(if: S3Programs.hasS3fs, "needs s3fs and /dev/fuse"),
        arguments: S3TestServers.all
    )
    func `s3fs writes what s3fs reads`(server: S3TestServer) async throws {
        try await S3TestServers.withBucket(on: server) { bucket in
            try await S3Programs.withS3fs(bucket, on: server) { drive in
                let script = "mkdir '\(drive)/a' && echo hello > '\(drive)/a/b'"
                let result = try await Shell.script(script)
                #expect(result.status == 0, "\(result)")
            }
            try await S3Programs.withS3fs(bucket, on: server) { drive in
                let result = try await Shell.run(["cat", "\(drive)/a/b"])
                #expect(result.output == "hello\n")
            }
        }
    }

    @Test(
        .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason)),
        arguments: S3TestServers.all
    )
    func `a bucket is removed with what is in it`(server: S3TestServer) async throws {
        let name = try await S3TestServers.withBucket(on: server) { $0 }
        let answer = try await Shell.run(
            ["curl", "-s", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}"]
                + ["\(server.endpoint)/\(name)"]
        )
        #expect(answer.output == "404")
    }
}
