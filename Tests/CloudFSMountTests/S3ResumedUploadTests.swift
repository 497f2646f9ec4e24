import CloudFSTestSupport
import Foundation
import Testing

/// Uploads in parts: how many are under way, and what a crash leaves of them.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3ResumedUploadTests {
    private static func number(_ request: FakeS3Request) -> Int? {
        request.kind == .uploadPart ? request.parameter("partNumber").flatMap { Int($0) } : nil
    }

    /// The numbers of the parts that the server has, in the order in which they came.
    private static func parts(_ server: FakeS3Server) -> [Int] {
        server.requests(.uploadPart).filter { $0.status == 200 }.compactMap { number($0) }
    }

    /// Six parts of 8 MiB, the last one shorter.
    private static let make = """
        head -c 42000000 /dev/urandom > "$SCRATCH/large"; cp "$SCRATCH/large" large
        """

    private static func content(_ drive: TestDrive) throws -> Data {
        try Data(contentsOf: URL(filePath: "\(drive.folder)/run/large"))
    }

    @Test func `an upload in parts goes on after a crash, and sends no part twice`()
        async throws
    {
        let server = try await FakeS3Server.start()
        let gate = FakeS3Gate()
        server.add(FakeS3Fault(.wait(gate), count: nil) { (Self.number($0) ?? 0) >= 3 })
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run(Self.make)
            try await eventually("two parts are there, others wait", within: .seconds(30)) {
                Self.parts(server).sorted() == [1, 2] && gate.waitingCount > 0
            }
            // Nothing of what waits at the gate arrives: it is never opened.
            try await drive.mount.kill9()
            #expect(server.object("prefix/large") == nil)
            #expect(server.uploads() == ["prefix/large"])
            server.removeFaults()
            let again = try await drive.again()
            try await again.drain()
            let content = try Self.content(again)
            #expect(server.object("prefix/large").map { Data($0.bytes) == content } == true)
            try await again.mustDo(["evict", "large"])
            try await again.run(#"cmp large "$SCRATCH/large""#)
        }
        #expect(Self.parts(server).sorted() == Array(1...6))
        #expect(server.requests(.uploadPart).count { [1, 2].contains(Self.number($0)) } == 2)
        #expect(server.requestCount(.createUpload) == 1)
        #expect(server.requestCount(.completeUpload) == 1)
        #expect(server.uploads().isEmpty)
    }

    @Test func `four parts of a file are under way at once, and no more`() async throws {
        let server = try await FakeS3Server.start()
        let gate = FakeS3Gate()
        server.add(FakeS3Fault(.wait(gate), count: nil, on: .uploadPart))
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run(Self.make)
            try await eventually("four parts wait", within: .seconds(30)) {
                gate.waitingCount == 4
            }
            // A fifth would be there before three more looks for news.
            let polls = server.requestCount(.list)
            try await eventually("time goes by") { server.requestCount(.list) >= polls + 3 }
            #expect(gate.waitingCount == 4)
            #expect(Set(server.requests(.uploadPart).map { Self.number($0) }) == [1, 2, 3, 4])
            gate.open()
            try await drive.drain()
            let content = try Self.content(drive)
            #expect(server.object("prefix/large").map { Data($0.bytes) == content } == true)
        }
        #expect(Self.parts(server).sorted() == Array(1...6))
    }

    @Test func `a busy drive keeps to its number of connections, and uses many of them`()
        async throws
    {
        var settings = FakeS3Settings()
        settings.latency = .milliseconds(100)
        let server = try await FakeS3Server.start(settings: settings)
        for number in 0..<100 {
            server.putSynthetic(FakeS3Key("prefix/films/\(number)"), byteCount: 1 << 20)
        }
        try await TestDrive.with(options: S3FaultTests.options(server), slots: 2) { drive in
            #expect(try await drive.run("ls films | wc -l") == "100")
            server.forgetRequests()
            try await drive.run(
                """
                for i in {0..99}; do cat films/$i > /dev/null & done
                for i in {0..99}; do head -c 100000 /dev/urandom > made$i & done
                wait
                """,
                within: .seconds(60)
            )
            try await drive.drain()
        }
        #expect(server.requests(.get).count { $0.key.hasPrefix("prefix/films/") } >= 100)
        #expect(server.keys("prefix/made").count == 100)
        // The drive's own bound; half of it is for what is sent.
        #expect((25...48).contains(server.mostActiveRequests), "\(server.mostActiveRequests)")
        #expect(server.mostConnections <= 48, "\(server.mostConnections)")
    }
}
