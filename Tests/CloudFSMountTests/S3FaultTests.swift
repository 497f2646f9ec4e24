import CloudFSTestSupport
import Testing

/// Drives on a bucket in memory, whose server misbehaves as told.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3FaultTests {
    static func options(_ server: FakeS3Server) -> TestMount.Options {
        var options = TestMount.Options(["--poll-interval", "100ms", "--endpoint", server.endpoint])
        options.container = "s3://bucket/prefix"
        options.environment = [
            "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/nonexistent",
        ]
        return options
    }

    @Test func `a drive works on while its server is down, and catches up`() async throws {
        let server = try await FakeS3Server.start()
        _ = server.put("prefix/known", "here")
        _ = server.put("prefix/folder/absent", "there")
        try await TestDrive.with(options: Self.options(server)) { drive in
            try await drive.run("[ \"$(cat known)\" = here ]; ls -R > /dev/null")
            try await server.goDown()
            try await drive.run(
                """
                [ "$(cat known)" = here ]; ls -lR . > /dev/null
                echo offline > made; mkdir deep; mv known deep/; rm -f nothing
                """
            )
            try await server.goUp()
            try await drive.drain()
            try await drive.run("[ \"$(cat folder/absent)\" = there ]")
        }
        #expect(server.object("prefix/made")?.bytes == Array("offline\n".utf8))
        #expect(server.object("prefix/deep/known")?.bytes == Array("here".utf8))
        #expect(server.object("prefix/known") == nil)
    }

    @Test func `slow answers, broken connections and refusals now and then lose nothing`()
        async throws
    {
        let server = try await FakeS3Server.start()
        try await TestDrive.with(options: Self.options(server)) { drive in
            // A name in a folder that nobody has listed yet waits for the cloud.
            try await drive.run("ls")
            server.add(
                FakeS3Fault(.fail(status: 503, code: "SlowDown"), count: 20) { $0.number % 3 == 0 }
            )
            server.add(
                FakeS3Fault(.cutAnswer(afterBytes: nil), count: 10) { $0.number % 7 == 0 }
            )
            try await drive.run("for i in {1..30}; do echo $i > file$i; done")
            try await drive.drain()
        }
        for number in 1...30 {
            let object = server.object(FakeS3Key(Array("prefix/file\(number)".utf8)))
            #expect(object?.bytes == Array("\(number)\n".utf8))
        }
    }

    @Test func `links among many objects come out as links, each under its own name`()
        async throws
    {
        let server = try await FakeS3Server.start()
        for number in 10..<70 {
            let key = FakeS3Key(Array("prefix/links/link\(number)".utf8))
            // As s3fs writes them: a file's content is where the link leads.
            _ = server.put(key, "target\(number)", metadata: ["mode": "41471"])
        }
        try await TestDrive.with(options: Self.options(server)) { drive in
            try await eventually("all are links") {
                #expect(
                    try await drive.run("ls links | grep -v '^link[1-6][0-9]$' || true").isEmpty
                )
                return try await drive.run("find links -type l | wc -l") == "60"
            }
            try await drive.run(
                "for n in {10..69}; do [ \"$(readlink links/link$n)\" = target$n ]; done"
            )
        }
    }

    /// What a listing does not tell is first heard of with its bytes.
    @Test func `the time of an object is right as soon as it was read, and while it is open`()
        async throws
    {
        let server = try await FakeS3Server.start()
        for number in 0..<200 {
            let key = FakeS3Key(Array("prefix/many/\(number)".utf8))
            _ = server.put(key, "bytes", metadata: ["mtime": "1111111111.5"])
        }
        server.add(FakeS3Fault(.wait(FakeS3Gate()), count: nil, on: .head))
        try await TestDrive.with(options: Self.options(server)) { drive in
            try await drive.python(
                """
                os.listdir("many")
                file = os.open("many/150", os.O_RDONLY)
                assert os.fstat(file).st_mtime > 1_600_000_000
                os.read(file, 10)
                end = time.monotonic() + 5
                while os.fstat(file).st_mtime != 1_111_111_111.5:
                    assert time.monotonic() < end, os.fstat(file)
                    time.sleep(0.05)
                os.close(file)
                assert os.stat("many/150").st_mtime == 1_111_111_111.5
                """
            )
        }
    }

    /// One that is encrypted with a key of somebody's own, for instance.
    @Test func `an object that is listed and may not be looked at hides no other`() async throws {
        let server = try await FakeS3Server.start()
        for name in ["closed", "gone", "open", "deep/file"] {
            _ = server.put(FakeS3Key("prefix/\(name)"), name)
        }
        let refusal = FakeS3Fault.Action.fail(status: 400, code: "InvalidRequest")
        server.add(FakeS3Fault(refusal, count: nil) { $0.key.text == "prefix/closed" })
        try await TestDrive.with(options: Self.options(server)) { drive in
            try await drive.run("[ \"$(ls | tr '\\n' ' ')\" = 'closed deep gone open ' ]; cat open")
            #expect(try await drive.run("cat deep/file") == "deep/file")
            try await drive.run("! cat closed 2> /dev/null")
            // Changed, it is still there, and what else happens in its folder is seen.
            _ = server.put("prefix/closed", "something else")
            server.remove("prefix/gone")
            _ = server.put("prefix/new", "new")
            try await eventually("the folder is as in the bucket", within: .seconds(20)) {
                try await drive.mustDo(["refresh", drive.path])
                return try await drive.names() == ["closed", "deep", "new", "open"]
            }
            #expect(try await drive.run("cat new") == "new")
        }
    }

    @Test func `regression: a large file whose move was interrupted is nobody else's`()
        async throws
    {
        let server = try await FakeS3Server.start()
        try await TestDrive.with(options: Self.options(server)) { drive in
            // Sent in parts, it has another tag as soon as it was copied.
            try await drive.run("head -c 9000000 /dev/zero > file")
            try await drive.drain()
            server.add(FakeS3Fault(.slowDown(), count: nil, on: .copy))
            try await drive.run(
                """
                head -c 9000000 /dev/urandom > "$SCRATCH/new"
                cp "$SCRATCH/new" file; mv file moved
                """
            )
            try await eventually("the move is tried") { server.requestCount(.copy) > 0 }
            try await drive.mount.kill9()
            server.removeFaults()
            let drive = try await drive.again()
            try await drive.drain()
            try await drive.run("[ \"$(ls)\" = moved ]; cmp moved \"$SCRATCH/new\"")
        }
    }

    /// What is wrong with a bucket, and words that the sentence must have.
    enum Fault: String, CaseIterable, Sendable {
        case noBucket
        case wrongKey
        case serverDown
        case noCredentials

        var words: [String] {
            switch self {
            case .noBucket: ["no bucket", "nowhere"]
            case .wrongKey: ["cloudfs login"]
            case .serverDown: ["127.0.0.1"]
            case .noCredentials: ["AWS_ACCESS_KEY_ID"]
            }
        }
    }

    @Test(arguments: Fault.allCases)
    func `a bucket that cannot be had is refused with one sentence`(fault: Fault) async throws {
        var settings = FakeS3Settings()
        settings.accessKeyID = "key"
        let server = try await FakeS3Server.start(settings: settings)
        var options = Self.options(server)
        switch fault {
        case .noBucket: options.container = "s3://nowhere"
        case .wrongKey: options.environment["AWS_ACCESS_KEY_ID"] = "other"
        case .serverDown: try await server.goDown()
        case .noCredentials:
            options.environment["AWS_ACCESS_KEY_ID"] = ""
            options.environment["AWS_SECRET_ACCESS_KEY"] = ""
        }
        let chosen = options
        let error = await #expect(throws: TestMount.NotReady.self) {
            try await TestDrive.with(options: chosen, ending: .killed) { _ in }
        }
        let lines = error?.log.split(separator: "\n").filter { $0.hasPrefix("cloudfs-mount: ") }
        for word in fault.words {
            #expect(lines?.last?.contains(word) == true, "\(error?.log ?? "")")
        }
        #expect(error?.status != 0)
    }
}
