import CloudFSTestSupport
import Testing

/// Reading from a bucket that is far away, where each connection has its share only.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3StreamTests {
    private static let piece = 256 << 10

    /// Lends a drive that knows all names, and begins to be far away then.
    private static func with(
        _ reads: Reads,
        on server: FakeS3Server,
        latency: Duration,
        bandwidth: Int,
        body: (TestDrive) async throws -> Void
    ) async throws {
        var options = S3FaultTests.options(server)
        options.arguments = ["--endpoint", server.endpoint] + reads.arguments
        try await TestDrive.with(options: options, slots: 4) { drive in
            try await eventually("the first comparison is over") {
                try await drive.mustDo(["status", "--json"]).contains(/"isComplete"\s*:\s*true/)
            }
            try await drive.run("ls -l > /dev/null")
            server.change { settings in
                settings.latency = latency
                settings.bandwidth = bandwidth
            }
            server.forgetRequests()
            try await body(drive)
            // Or its end would take as long.
            server.change { settings in
                settings.latency = .zero
                settings.bandwidth = nil
            }
        }
    }

    /// Four times the latency and the time of the piece is the limit: what is asked for first is
    /// not behind anything that nobody waits for.
    @Test(arguments: Reads.allCases)
    func `a player opens a film, looks at its end, jumps into its middle and plays`(
        reads: Reads
    ) async throws {
        let size: Int64 = 1 << 30
        let server = try await FakeS3Server.start()
        server.putSynthetic("prefix/film", byteCount: size)
        try await Self.with(
            reads,
            on: server,
            latency: .milliseconds(250),
            bandwidth: 4_000_000
        ) { drive in
            let output = try await drive.python(
                """
                piece, size, rate = \(Self.piece), os.path.getsize("film"), 2e6
                scratch = os.environ["SCRATCH"]
                begin = time.monotonic()
                film = os.open("film", os.O_RDONLY)
                for name, offset in (("head", 0), ("tail", size - piece), ("middle", size // 2)):
                    got = os.pread(film, piece, offset)
                    print(time.monotonic() - begin)
                    with open(f"{scratch}/{name}", "wb") as copy: copy.write(got)
                    begin = time.monotonic()
                late = 0
                for number in range(1, 16):
                    due = begin + number * piece / rate
                    while time.monotonic() < due: time.sleep(0.01)
                    assert len(os.pread(film, piece, size // 2 + number * piece)) == piece
                    late = max(late, time.monotonic() - due)
                print(late)
                """
            )
            let requests = server.requestCount(.get)
            let sent = server.sentByteCount
            let times = output.split(separator: "\n").compactMap { Double($0) }
            try #require(times.count == 4, "\(output)")
            #expect(times.allSatisfy { $0 < 1.1 }, "\(output)")
            // Eighteen pieces were read, of 4.7 MB; what comes after them is wanted soon.
            #expect(requests <= 40 && sent < 24 << 20, "\(requests), \(sent)")
            let scratch = TestFolder("\(drive.folder)/run")
            let count = Int64(Self.piece)
            let places: [(String, Int64)] = [
                ("head", 0), ("tail", size - count), ("middle", size / 2),
            ]
            for (name, offset) in places {
                let isRight =
                    scratch.bytes(name) == SyntheticContent.bytes(offset..<(offset + count))
                #expect(isRight, "\(name)")
            }
        }
    }

    /// The kernel asks for one piece of what is read after the other, and for one more.
    @Test(arguments: Reads.allCases)
    func `what is read after a jump comes with one answer`(reads: Reads) async throws {
        let size: Int64 = 1 << 30
        let server = try await FakeS3Server.start()
        server.putSynthetic("prefix/film", byteCount: size)
        try await Self.with(
            reads,
            on: server,
            latency: .zero,
            bandwidth: 100_000_000
        ) { drive in
            let gate = FakeS3Gate()
            defer { gate.open() }
            server.add(FakeS3Fault(.wait(gate), skipping: 1, count: nil, on: .get))
            try await drive.python(
                """
                film = os.open("film", os.O_RDONLY)
                got = os.pread(film, \(Self.piece), \(size / 2))
                with open(os.environ["SCRATCH"] + "/middle", "wb") as copy: copy.write(got)
                """
            )
            let range = size / 2..<size / 2 + Int64(Self.piece)
            let scratch = TestFolder("\(drive.folder)/run")
            #expect(scratch.bytes("middle") == SyntheticContent.bytes(range))
        }
    }

    /// Sixteen connections with 2 MB/s each would need two seconds.
    @Test(arguments: Reads.allCases)
    func `reading from beginning to end takes what many connections give`(
        reads: Reads
    ) async throws {
        let bytes = HydrationTests.bytes(64_000_000)
        let server = try await FakeS3Server.start()
        server.put("prefix/film", bytes)
        try await Self.with(
            reads,
            on: server,
            latency: .milliseconds(40),
            bandwidth: 2_000_000
        ) { drive in
            let begin = ContinuousClock.now
            try await drive.run("cat film > \"$SCRATCH/film\"")
            let time = ContinuousClock.now - begin
            #expect(time < .seconds(4), "\(time)")
            #expect(server.mostActiveRequests >= 12)
            #expect(server.sentByteCount < 66_000_000)
            try drive.cloud.write("film", bytes)
            try await drive.run("cmp \"$SCRATCH/film\" \"$CLOUD/film\"")
        }
    }

    /// As a database or a search in an archive reads: what is beside it is not wanted.
    @Test func `what is read here and there is asked for once, and little beside it`()
        async throws
    {
        let size: Int64 = 256 << 20
        var random = SeededRandom(seed: 8)
        let offsets = (0..<Int64(256)).shuffled(using: &random).prefix(100)
            .map { $0 << 20 + Int64(random.below(1 << 20 - 8_192)) | 1 }
        let server = try await FakeS3Server.start()
        server.putSynthetic("prefix/archive", byteCount: size)
        try await Self.with(
            .byKernel,
            on: server,
            latency: .zero,
            bandwidth: 100_000_000
        ) { drive in
            try await drive.python(
                """
                archive = os.open("archive", os.O_RDONLY)
                with open(os.environ["SCRATCH"] + "/read", "wb") as copy:
                    for offset in \(offsets): copy.write(os.pread(archive, 4096, offset))
                """
            )
            let (requests, sent) = (server.requestCount(.get), server.sentByteCount)
            #expect(requests <= 105 && sent < 2_000_000, "\(requests), \(sent)")
            let expected = offsets.flatMap { SyntheticContent.bytes($0..<($0 + 4_096)) }
            let isRight = TestFolder("\(drive.folder)/run").bytes("read") == expected
            #expect(isRight)
        }
    }
}
