import CloudFSTestSupport
import Testing

/// What a drive on a bucket says at its mount when the bucket is not as its options say.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct S3BadBucketTests {
    /// What is wrong, and stays so.
    enum Fault: String, CaseIterable, Sendable {
        case noBucket
        case wrongKey
        case wrongSecret
        case noCredentials
        case mayNotList
        case clockStaysWrong
        case regionElsewhere
        case regionUnknown
        case serverDown
        case noServerOfObjects
        case redirect

        /// What the sentence must have; the last says what to do.
        var words: [String] {
            switch self {
            case .noBucket: ["\"nowhere\"", "127.0.0.1", "check the name and the endpoint"]
            case .wrongKey: ["access key", "cloudfs login"]
            case .wrongSecret: ["secret key", "cloudfs login"]
            case .noCredentials: ["AWS_ACCESS_KEY_ID"]
            case .mayNotList: ["127.0.0.1", "\"bucket\"", "s3:ListBucket"]
            case .clockStaysWrong: ["the clock of this machine is wrong", "set it right"]
            case .regionElsewhere: ["\"bucket\"", "eu-west-1", "name it", "options"]
            case .regionUnknown: ["region", "name it", "options"]
            case .serverDown: ["127.0.0.1", "cannot be reached", "check the endpoint"]
            case .noServerOfObjects: ["127.0.0.1", "check the endpoint"]
            case .redirect: ["redirects", "name the right endpoint"]
            }
        }

        /// 64 where the options are wrong.
        var status: Int32 {
            switch self {
            case .regionElsewhere, .regionUnknown, .redirect: 64
            default: 1
            }
        }

        /// What the server answers to everything.
        var answer: FakeS3Fault.Action? {
            switch self {
            case .noBucket, .wrongKey, .noCredentials, .serverDown, .mayNotList: nil
            case .wrongSecret: .fail(status: 403, code: "SignatureDoesNotMatch")
            case .clockStaysWrong: .fail(status: 403, code: "RequestTimeTooSkewed")
            case .regionElsewhere:
                .fail(
                    status: 301,
                    code: "PermanentRedirect",
                    headers: [("x-amz-bucket-region", "eu-west-1")]
                )
            case .regionUnknown: .fail(status: 400, code: "AuthorizationHeaderMalformed")
            case .noServerOfObjects:
                .raw(
                    Array(
                        """
                        HTTP/1.1 404 Not Found\r\nContent-Type: text/html\r\n\
                        Content-Length: 16\r\nConnection: close\r\n\r\n<h1>No such</h1>
                        """.utf8
                    )
                )
            case .redirect: .redirect(to: "http://127.0.0.2:9")
            }
        }

        /// Makes it so, for a drive that is mounted with these options.
        func spoil(_ server: FakeS3Server, _ options: inout TestMount.Options) async throws {
            if let answer { server.add(FakeS3Fault(answer, count: nil)) }
            switch self {
            case .noBucket: options.container = "s3://nowhere"
            case .wrongKey: options.environment["AWS_ACCESS_KEY_ID"] = "other"
            case .noCredentials:
                options.environment["AWS_ACCESS_KEY_ID"] = ""
                options.environment["AWS_SECRET_ACCESS_KEY"] = ""
            case .mayNotList:
                let refusal = FakeS3Fault.Action.fail(status: 403, code: "AccessDenied")
                server.add(FakeS3Fault(refusal, count: nil, on: .list))
            case .serverDown: try await server.goDown()
            default: break
            }
        }
    }

    private static func server() async throws -> FakeS3Server {
        var settings = FakeS3Settings()
        settings.accessKeyID = "key"
        return try await FakeS3Server.start(settings: settings)
    }

    @Test(arguments: Fault.allCases)
    func `a mount that fails says why and what to do in one sentence`(fault: Fault) async throws {
        let server = try await Self.server()
        var options = S3FaultTests.options(server)
        try await fault.spoil(server, &options)
        let chosen = options
        let error = await #expect(throws: TestMount.NotReady.self) {
            try await TestDrive.with(options: chosen, ending: .killed) { _ in }
        }
        let log = error?.log ?? ""
        let lines = log.split(separator: "\n").filter { $0.hasPrefix("cloudfs-mount: ") }
        #expect(lines.count == 1, "\(log)")
        for word in fault.words {
            #expect(lines.first?.contains(word) == true, "\(word) in \(log)")
        }
        // Neither a type's name nor a number of the system's.
        #expect(lines.first?.contains(/Error|errno|\(\d+\)/) == false, "\(log)")
        #expect(error?.status == fault.status)
        #expect(server.keys().isEmpty)
    }

    /// What is known of the drive is shown meanwhile, and what is wrong is in its status.
    @Test(arguments: [Fault.wrongKey, .mayNotList, .clockStaysWrong, .serverDown])
    func `a drive that was mounted before mounts, and its status says what to do`(
        fault: Fault
    ) async throws {
        let server = try await Self.server()
        server.put("prefix/known", "here")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("[ \"$(cat known)\" = here ]")
            try await drive.mount.stop()
            var options = S3FaultTests.options(server)
            try await fault.spoil(server, &options)
            drive.mount.change(environment: options.environment)
            let again = try await drive.again()
            try await again.run("[ \"$(cat known)\" = here ]; ls -l")
            let word = try #require(fault.words.last)
            try await eventually("the status says it") {
                let status = try await again.mustDo(["status"])
                return status.contains("offline") && status.contains(word)
            }
        }
    }

    // MARK: - What mends itself

    @Test func `a clock that is an hour wrong is made up for, and told`() async throws {
        var settings = FakeS3Settings()
        settings.checksRequestTime = true
        settings.clockOffset = .seconds(-3_600)
        let server = try await FakeS3Server.start(settings: settings)
        server.put("prefix/known", "here")
        try await TestDrive.with(options: S3FaultTests.options(server)) { drive in
            try await drive.run("[ \"$(cat known)\" = here ]; echo new > made")
            try await drive.drain()
            #expect(drive.mount.logText.contains("clock differs"))
        }
        #expect(server.object("prefix/made")?.bytes == Array("new\n".utf8))
        let refused = server.requests.count { $0.status == 403 }
        #expect((1...10).contains(refused), "\(refused)")
    }

    @Test(arguments: [false, true])
    func `a bucket in another region is used there, whether it is named or learned`(
        isNamed: Bool
    ) async throws {
        var settings = FakeS3Settings()
        settings.region = "eu-west-1"
        let server = try await FakeS3Server.start(settings: settings)
        server.put("prefix/known", "here")
        var options = S3FaultTests.options(server)
        if isNamed { options.arguments += ["--region", "eu-west-1"] }
        try await TestDrive.with(options: options) { drive in
            try await drive.run("[ \"$(cat known)\" = here ]; echo new > made")
            try await drive.drain()
            #expect(drive.mount.logText.contains("another region") == !isNamed)
        }
        #expect(server.object("prefix/made")?.bytes == Array("new\n".utf8))
        let wrong = server.requests.filter { $0.credentialScope?[2] != "eu-west-1" }
        #expect(wrong.isEmpty == isNamed)
        #expect(wrong.count <= 10, "\(wrong.count)")
    }
}
