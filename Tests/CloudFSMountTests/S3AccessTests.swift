import CloudFSTestSupport
import Foundation
import Testing

/// Drives that may only read, drives over TLS, and drives that watch each other's moves.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3AccessTests {
    // MARK: - Reading only

    @Test(arguments: [false, true])
    func
        `a bucket that may only be read is a read-only drive, also offline`(
            isNew: Bool
        ) async throws
    {
        let server = try await FakeS3Server.start()
        _ = server.put("prefix/known", "here")
        if !isNew { try await Self.mountOnce(server) }
        server.settings.isReadOnly = true
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await Self.checkReadOnly(drive)
            try await drive.mount.stop()
            try await server.goDown()
            try await Self.checkReadOnly(drive.again())
            try await server.goUp()
            server.settings.isReadOnly = false
            let drive = try await drive.restart()
            try await drive.run("until echo new > made; do sleep 0.05; done")
            try await drive.drain()
            #expect(server.object("prefix/made")?.bytes == Array("new\n".utf8))
        }
    }

    /// Gives the container its identity.
    private static func mountOnce(_ server: FakeS3Server) async throws {
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("ls")
        }
    }

    private static func checkReadOnly(_ drive: TestDrive) async throws {
        try await drive.run(
            """
            [ "$(cat known)" = here ]
            refused() { ! "$@" 2> "$SCRATCH/errors" && grep -q 'Read-only' "$SCRATCH/errors"; }
            refused touch made; refused mkdir folder; refused rm known; refused mv known other
            refused chmod 600 known; refused ln -s known link; refused truncate -s 0 known
            refused setfattr -n user.x -v y known || ! command -v setfattr
            refused bash -c 'echo more >> known'
            """
        )
        let status = try await drive.mustDo(["status"])
        #expect(status.contains("read-only"))
        try await drive.drain()
    }

    // MARK: - TLS

    @Test(.enabled(if: FakeS3Certificate.canBeMade, "needs openssl"))
    func `a certificate of one's own is accepted if it is named, else refused with one sentence`()
        async throws
    {
        let directory = try TemporaryDirectory()
        let certificate = try await FakeS3Certificate(in: directory)
        let server = try await FakeS3Server.start(certificate: certificate)
        _ = server.put("prefix/known", "here")
        let options = S3FaultTests.options(server)
        let error = await #expect(throws: TestMount.NotReady.self) {
            try await TestDrive.with(options: options, ending: .killed) { _ in }
        }
        let lines = error?.log.split(separator: "\n").filter { $0.hasPrefix("cloudfs-mount: ") }
        #expect(lines?.count == 1, "\(error?.log ?? "")")
        #expect(lines?.last?.contains("its certificate is not trusted") == true)
        #expect(lines?.last?.contains("ca-file") == true)

        var trusting = options
        trusting.arguments += ["--ca-file", certificate.path]
        try await TestDrive.with(options: trusting) { drive in
            try await drive.run(
                """
                [ "$(cat known)" = here ]
                echo new > made; head -c 9000000 /dev/zero > large
                """
            )
            try await drive.drain()
            try await drive.mustDo(["evict", "large"])
            try await drive.run("cmp large <(head -c 9000000 /dev/zero)")
        }
        #expect(server.object("prefix/made")?.bytes == Array("new\n".utf8))
    }

    // MARK: - Two devices

    @Test func `another device sees a folder move whole, and compares nothing else`()
        async throws
    {
        let server = try await FakeS3Server.start()
        for number in 0..<30 { _ = server.put(FakeS3Key("prefix/old/sub/\(number)"), "\(number)") }
        for number in 0..<20 { _ = server.put(FakeS3Key("prefix/other/\(number)/file"), "x") }
        var options = S3FaultTests.options(server)
        try await TestDrive.with(options: options) { first in
            options.arguments += ["--device-name", "second"]
            try await first.withSecondDrive(options: options) { second in
                for drive in [first, second] {
                    try await drive.run("ls -R > /dev/null")
                    try await eventually("all is compared", within: .seconds(60)) {
                        try await drive.mustDo(["status", "--json"]).contains(
                            /"isComplete"\s*:\s*true/
                        )
                    }
                }
                server.forgetRequests()
                try await first.run("echo late > old/sub/late; mv old new")
                try await first.drain()
                try await eventually("the second has all of it", within: .seconds(60)) {
                    let result = try await Shell.script(
                        "cd '\(second.path)' && ls new/sub | wc -l && cat new/sub/late && ls"
                    )
                    return result.output == "31\nlate\nnew\nother\n"
                }
                try await second.run("for i in {0..29}; do [ \"$(cat new/sub/$i)\" = $i ]; done")
                let foreign = server.requests(.list).filter {
                    // Looking whether a folder has a marker is no comparison.
                    $0.parameter("prefix")?.hasPrefix("prefix/other/") == true
                        && $0.parameter("max-keys") == "1000"
                }
                #expect(foreign.isEmpty)
            }
        }
    }
}
