import CloudFSTestSupport
import Foundation
import Testing

/// With whose keys a drive asks: those of a profile, which end and are renewed, or none at all.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3KeyholderTests {
    // MARK: - A profile

    /// A program that gives another key each time, good for two seconds more than the five minutes
    /// before the end when keys are renewed.
    private static let keys = """
        #!/bin/bash
        exec 9>>"${0%/*}/lock"; flock 9
        echo key >> "${0%/*}/given"
        printf '{"Version": 1, "AccessKeyId": "key-%s",' "$(wc -l < "${0%/*}/given")"
        printf '"SecretAccessKey": "secret", "SessionToken": "token", "Expiration": "%s"}' \
            "$(date -u -d '302 seconds' +%Y-%m-%dT%H:%M:%SZ)"
        """

    @Test func `keys of a profile's program are renewed before they end, with nobody noticing`()
        async throws
    {
        let server = try await FakeS3Server.start()
        server.put("prefix/known", "here")
        let home = try TemporaryDirectory()
        try home.write(Self.keys.utf8, to: "keys")
        let config = "[profile work]\ncredential_process = bash \(home.path("keys"))\n"
        try home.write(config.utf8, to: ".aws/config")
        var options = S3FaultTests.options(server)
        options.arguments += ["--profile", "work"]
        options.environment = [
            "HOME": home.path,
            // What a profile is named for is not looked for elsewhere.
            "AWS_ACCESS_KEY_ID": "wrong", "AWS_SECRET_ACCESS_KEY": "wrong",
        ]
        try await TestDrive.with(options: options) { drive in
            try await eventually("the third key is used", within: .seconds(60)) {
                try await drive.run("[ \"$(cat known)\" = here ]; echo \"$RANDOM\" > made")
                return Self.keys(of: server).contains("key-3")
            }
            try await drive.drain()
            #expect(try await drive.mustDo(["status"]).contains("online"))
        }
        let used = Self.keys(of: server)
        #expect(!used.contains("wrong"))
        #expect(Array(used.prefix(3)) == ["key-1", "key-2", "key-3"])
        #expect(server.requests.allSatisfy { $0.header("x-amz-security-token") == "token" })
    }

    /// The keys that requests were signed with, each once, in their order.
    private static func keys(of server: FakeS3Server) -> [String] {
        server.requests.reduce(into: []) { keys, request in
            let authorization = request.header("authorization") ?? ""
            let key = authorization.split(separator: "Credential=").last?.prefix { $0 != "/" }
            if let key, !keys.contains(String(key)) { keys.append(String(key)) }
        }
    }

    // MARK: - What the documents say has to be allowed

    /// The policy that `docs/providers/s3.md` shows, for everybody.
    ///
    /// - Parameter actions: Which of its actions stay; `nil`: all.
    private static func policy(
        _ bucket: String,
        actions: Set<String>? = nil
    ) throws -> String {
        let document = URL(filePath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "docs/providers/s3.md")
        let text = try String(contentsOf: document, encoding: .utf8)
        let parts = text.split(separator: "```json\n", maxSplits: 1)
        let shown = try #require(parts.last?.split(separator: "```", maxSplits: 1).first)
            .replacing("arn:aws:s3:::bucket", with: "arn:aws:s3:::\(bucket)")
        var policy = try #require(
            try JSONSerialization.jsonObject(with: Data(shown.utf8)) as? [String: Any]
        )
        let statements = try #require(policy["Statement"] as? [[String: Any]])
        policy["Statement"] = statements.map { statement in
            var statement = statement
            statement["Principal"] = "*"
            if let actions, let all = statement["Action"] as? [String] {
                statement["Action"] = all.filter(actions.contains)
            }
            return statement
        }
        let data = try JSONSerialization.data(withJSONObject: policy)
        return String(decoding: data, as: UTF8.self)
    }

    private static func anonymous(_ bucket: String, on server: S3TestServer) -> TestMount.Options {
        var options = S3DriveTests.options(server, "\(bucket)/prefix")
        options.arguments.append("--anonymous")
        return options
    }

    @Test(.enabled(if: S3TestServers.ceph != nil, "needs a server that knows policies: Ceph"))
    func `the policy that the documents show is enough for all that a drive does`() async throws {
        let server = try #require(S3TestServers.ceph)
        try await S3TestServers.withBucket(on: server) { bucket in
            try await S3TestServers.setPolicy(Self.policy(bucket), of: bucket, on: server)
            try await TestDrive.with(options: Self.anonymous(bucket, on: server)) { drive in
                try await drive.run(
                    """
                    mkdir -p folder/deep; echo text > folder/file; ln -s file folder/link
                    head -c 20M /dev/urandom > large; cp large "$SCRATCH/large"
                    """
                )
                try await drive.drain()
                try await drive.run(
                    """
                    chmod 600 folder/file; setfattr -n user.xdg.tags -v red folder
                    mv large folder/deep/larger; mv folder moved; echo more >> moved/file
                    cloudfs evict moved/deep/larger
                    """
                )
                try await drive.drain()
                try await drive.run(
                    """
                    cloudfs refresh; cloudfs evict moved/deep/larger
                    cmp moved/deep/larger "$SCRATCH/large"
                    [ "$(cat moved/link)" = "text\nmore" ]
                    rm -r moved; [ -z "$(ls -A)" ]
                    """
                )
                try await drive.drain()
                let left = try await S3Programs.rclone(
                    ["lsf", "-R", "--exclude", "/.cloudfs/**", "cloud:\(bucket)/prefix"],
                    on: server
                )
                #expect(left.output.isEmpty)
                #expect(!drive.mount.logText.contains("level=error"))
            }
        }
    }

    @Test(.enabled(if: S3TestServers.ceph != nil, "needs a server that knows policies: Ceph"))
    func `who may only list and get has a drive that is only read`() async throws {
        let server = try #require(S3TestServers.ceph)
        try await S3TestServers.withBucket(on: server) { bucket in
            try await S3TestServers.setPolicy(Self.policy(bucket), of: bucket, on: server)
            let options = Self.anonymous(bucket, on: server)
            try await TestDrive.with(options: options) { drive in
                try await drive.run("echo text > file")
                try await drive.drain()
            }
            for actions in [["s3:GetObject"], ["s3:GetObject", "s3:PutObject"]] {
                try await S3TestServers.setPolicy(
                    Self.policy(bucket, actions: Set(actions)),
                    of: bucket,
                    on: server
                )
                try await TestDrive.with(options: options) { drive in
                    try await drive.run(
                        """
                        [ "$(cat file)" = text ]
                        ! touch made 2> "$SCRATCH/errors"; grep -q 'Read-only' "$SCRATCH/errors"
                        [[ $(cloudfs status) == *read-only* ]]
                        """
                    )
                }
            }
        }
    }
}
