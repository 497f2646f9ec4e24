import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// Servers that say what is not so, or stop in the middle, whatever they are asked.
@Suite(.timeLimit(.minutes(10))) struct S3HostileTests {
    private typealias Bench = S3ProviderBench

    enum Fault: CaseIterable, Sendable {
        case xmlBomb, nestedXML, truncatedBody, corruptBody
        case tooLong, tooShort
        case redirect, stall, trickle
        case cutRequest, cutBody, cutAnswer, cutBeforeAnswer
        case noRange, noConditions, noProgress, noEnd
        case noHTTP

        func action(_ elsewhere: FakeS3Server) -> FakeS3Fault.Action {
            switch self {
            case .xmlBomb: .xmlBomb
            case .nestedXML: .nestedXML(depth: 100)
            case .truncatedBody: .truncatedBody(byteCount: 100)
            case .corruptBody: .corruptBody
            case .tooLong: .wrongLength(by: 7)
            case .tooShort: .wrongLength(by: -7)
            case .redirect: .redirect(to: elsewhere.endpoint)
            case .stall: .stallAnswer(afterBytes: 100)
            case .trickle: .trickle(bytesPerSecond: 2_000)
            case .cutRequest: .cutRequest(afterBytes: 0)
            case .cutBody: .cutRequest(afterBytes: 40_000)
            case .cutAnswer: .cutAnswer(afterBytes: 100)
            case .cutBeforeAnswer: .cutAnswer(afterBytes: nil)
            case .noRange: .disregard(.range)
            case .noConditions: .disregard(.conditions)
            case .noProgress: .disregard(.progress)
            case .noEnd: .disregard(.end)
            case .noHTTP: .raw(Array("HTP/9 what\r\n\r\n".utf8))
            }
        }

        /// What an operation may fail with, if it does not succeed; or because nothing moves.
        var codes: Set<CloudFSError.Code> {
            switch self {
            case .xmlBomb, .nestedXML, .truncatedBody: [.corrupt, .remoteChanged]
            // The number of an upload may be what is wrong.
            case .corruptBody: [.corrupt, .remoteChanged, .notFound]
            case .tooLong, .tooShort: [.corrupt, .remoteChanged, .offline]
            case .redirect: [.invalidArgument]
            case .stall, .trickle, .cutRequest, .cutBody, .cutAnswer, .cutBeforeAnswer: [.offline]
            case .noRange, .noProgress, .noEnd, .noHTTP: [.corrupt]
            case .noConditions: []
            }
        }

        /// Whether it makes objects look longer or shorter than they are.
        var fakesLengths: Bool {
            [.xmlBomb, .nestedXML, .truncatedBody, .tooLong, .tooShort].contains(self)
        }

        /// Whether a part of an object cannot be had.
        var keepsBytesBack: Bool {
            ![.corruptBody, .cutBody, .noConditions, .noProgress, .noEnd].contains(self)
        }

        /// Everything that is asked about the objects of the trials; one wrong byte of an object,
        /// under its own tag, is what nobody could tell.
        func isFor(_ request: FakeS3Request) -> Bool {
            if self == .corruptBody, request.kind == .get { return false }
            return request.key.text.hasPrefix("d/")
                || request.parameter("prefix")?.hasPrefix("d/") == true
        }
    }

    /// Short, as all of them are waited for.
    private static let limits: S3Limits = {
        var limits = S3Limits()
        limits.firstByte = .seconds(2)
        limits.idle = .seconds(2)
        limits.data = .seconds(4)
        limits.serverWork = .seconds(3)
        return limits
    }()

    private static func make(
        _ limits: S3Limits = Self.limits
    ) async throws -> (bench: Bench, provider: S3Provider) {
        var settings = FakeS3Settings()
        settings.minimumPartByteCount = 1
        settings.maximumPage = 2
        let bench = try await Bench.make(settings)
        let provider = bench.unconnected(
            try bench.client(limits: limits),
            settings: Bench.smallParts
        )
        try await Bench.connect(provider)
        return (bench, provider)
    }

    @Test(arguments: Fault.allCases)
    func `whatever a server does, each operation soon ends, rightly or with an error`(
        fault: Fault
    ) async throws {
        let elsewhere = try await FakeS3Server.start()
        let (bench, provider) = try await Self.make()
        var trials: [S3HostileTrial] = []
        for operation in S3HostileTrial.Operation.allCases {
            trials.append(try await S3HostileTrial(operation, "first", bench, provider))
        }
        let hits = Mutex(0)
        bench.fake.add(
            FakeS3Fault(fault.action(elsewhere), count: nil) { request in
                guard fault.isFor(request) else { return false }
                hits.withLock { $0 += 1 }
                return true
            }
        )
        let clock = ContinuousClock()
        let begin = clock.now
        try await withThrowingTaskGroup(of: Void.self) { group in
            for trial in trials { group.addTask { try await trial.run(against: fault) } }
            try await group.waitForAll()
        }
        // A listing without an end is given up after a thousand pages, however fast they come.
        if fault != .noEnd { #expect(clock.now - begin < Duration.seconds(40).patient) }
        #expect(hits.withLock { $0 } > 0)
        #expect(elsewhere.requests.isEmpty, "nothing is said to whom the options do not name")

        bench.fake.removeFaults()
        for trial in trials {
            if let claimed = trial.claimed { try await trial.expectNoBytes(of: claimed) }
            // What was to be changed may have been.
            let again =
                trial.operation.changes
                ? try await S3HostileTrial(trial.operation, "again", bench, provider) : trial
            try await again.run(against: nil)
        }
    }

    // MARK: - In the middle

    /// What becomes of the request with which a broken download goes on.
    enum Resumption: CaseIterable, Sendable {
        case whole, otherRange, tooLong, tooShort, bomb, truncated, redirect, stall, cut, noHTTP
        case otherVersion, gone

        func action(_ elsewhere: FakeS3Server) -> FakeS3Fault.Action {
            switch self {
            case .whole: .disregard(.range)
            case .otherRange: .replaceHeaders([("Content-Range", "bytes 0-69999/100000")])
            case .tooLong: .wrongLength(by: 7)
            case .tooShort: .wrongLength(by: -7)
            case .bomb: .xmlBomb
            case .truncated: .truncatedBody(byteCount: 1_000)
            case .redirect: .redirect(to: elsewhere.endpoint)
            case .stall: .stallAnswer(afterBytes: 1_000)
            case .cut: .cutAnswer(afterBytes: 1_000)
            case .noHTTP: .raw(Array("what\r\n\r\n".utf8))
            case .otherVersion: .disregard(.conditions)
            case .gone: .fail(status: 404, code: "NoSuchKey")
            }
        }

        var code: CloudFSError.Code {
            switch self {
            case .whole, .otherRange, .tooLong, .tooShort, .bomb, .truncated, .noHTTP: .corrupt
            case .redirect: .invalidArgument
            case .stall: .timedOut
            case .cut: .offline
            case .otherVersion: .remoteChanged
            case .gone: .notFound
            }
        }

        /// Only who stands still is to be given up by the clock, however busy the machine is.
        var limits: S3Limits {
            var limits = S3Limits()
            limits.attempts = 3
            if self == .stall {
                limits.idle = .seconds(2)
                limits.data = .seconds(4)
            }
            return limits
        }
    }

    @Test(arguments: Resumption.allCases)
    func `a download that goes on after a break believes no more than one that begins`(
        resumption: Resumption
    ) async throws {
        let elsewhere = try await FakeS3Server.start()
        let (bench, provider) = try await Self.make(resumption.limits)
        let bytes = S3HostileTrial.content
        bench.fake.put("d/file", bytes)
        let path = try Bench.path("d/file")
        let version = try await provider.item(at: path).version
        bench.fake.forgetRequests()
        bench.fake.add(FakeS3Fault(.cutAnswer(afterBytes: 30_000), on: .get))
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: 1, on: .get))
        bench.fake.add(
            FakeS3Fault(resumption.action(elsewhere), skipping: 1, count: nil, on: .get)
        )
        let delivered = S3Delivered()
        let outcome = try await Bench.during(gate) {
            guard resumption == .otherVersion else { return }
            bench.fake.put("d/file", [UInt8](repeating: 0x21, count: bytes.count))
        } _: {
            try await provider.fetch(path, range: 0..<100_000, version: version) {
                offset,
                piece async throws(CloudFSError) in
                try delivered.take(offset, piece.bytes)
            }
        }
        let code = await s3Failure { _ = try outcome.get() }
        #expect(code == resumption.code)
        #expect(bytes.starts(with: delivered.bytes))
        #expect(delivered.bytes.count < bytes.count)
        #expect(bench.fake.requestCount(.get) >= 2)
        #expect(elsewhere.requests.isEmpty)

        bench.fake.removeFaults()
        bench.fake.put("d/file", bytes)
        let item = try await provider.item(at: path)
        #expect(
            try await Bench.read(path, item.version, size: item.size, of: provider) == bytes
        )
    }

    @Test(arguments: [false, true])
    func `an upload whose connection breaks in its body is sent again, and is whole`(
        isInParts: Bool
    ) async throws {
        let (bench, provider) = try await Self.make()
        let bytes = isInParts ? Bench.content(5, parts: 3) : S3HostileTrial.content
        let kind: FakeS3RequestKind = isInParts ? .uploadPart : .put
        bench.fake.put("d/", "")
        bench.fake.add(FakeS3Fault(.cutRequest(afterBytes: 40_000), on: kind, key: "d/file"))
        let item = try await Bench.upload(bytes, to: "d/file", of: provider)
        #expect(item.size == Int64(bytes.count))
        #expect(bench.fake.object("d/file")?.bytes == bytes)
        let sent = bench.fake.requests(kind).filter { $0.key == "d/file" }
        #expect(sent.count == (isInParts ? 4 : 2))
        #expect(bench.fake.faultsLeft == 0)
        #expect(bench.fake.uploads().isEmpty)
    }

    // MARK: - Numbers that do not fit each other

    @Test(arguments: [8, 12])
    func `an object that is listed with another size than its own is not read`(
        size: Int64
    ) async throws {
        let (bench, provider) = try await Self.make()
        bench.fake.put("d/file", "0123456789")
        bench.fake.add(
            FakeS3Fault(
                .rewriteBody {
                    Array(
                        String(decoding: $0, as: UTF8.self)
                            .replacing("<Size>10<", with: "<Size>\(size)<").utf8
                    )
                },
                count: nil,
                on: .list
            )
        )
        let listed = try await Bench.list(Bench.path("d"), of: provider)
        let item = try #require(listed.first)
        #expect(item.size == size)
        let delivered = S3Delivered()
        let code = await s3Failure {
            try await provider.fetch(Bench.path("d/file"), range: 0..<size, version: item.version) {
                offset,
                piece async throws(CloudFSError) in
                try delivered.take(offset, piece.bytes)
            }
        }
        #expect(code == .remoteChanged)
        #expect(Array("0123456789".utf8).starts(with: delivered.bytes))
    }

    /// Answers to the question for the bytes 2 to 4 of ten.
    @Test(arguments: [
        // The length is neither that of the range nor that of what comes.
        ("Content-Length: 5\r\nContent-Range: bytes 2-4/10", "cdefg"),
        ("Content-Length: 2\r\nContent-Range: bytes 2-4/10", "cd"),
        // No length, and more or less than the range.
        ("Transfer-Encoding: chunked\r\nContent-Range: bytes 2-4/10", "5\r\ncdefg\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\nContent-Range: bytes 2-4/10", "2\r\ncd\r\n0\r\n\r\n"),
        // Other bytes than were asked for.
        ("Content-Length: 3\r\nContent-Range: bytes 1-3/10", "bcd"),
        ("Content-Length: 4\r\nContent-Range: bytes 2-5/10", "cdef"),
        ("Content-Length: 2\r\nContent-Range: bytes 2-3/10", "cd"),
        ("Content-Length: 3", "cde"),
    ])
    func `a part that is longer, shorter or another one than it says is refused`(
        headers: String,
        body: String
    ) async throws {
        try await withS3Client { _ in
            [
                .text("HTTP/1.1 206 Part\r\n\(headers)\r\nETag: \"tag\"\r\n"),
                .text("Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n\(body)"), .close,
            ]
        } _: { fixture in
            let delivered = S3Delivered()
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", range: 2..<5, into: delivered)
            }
            #expect(error?.code == .corrupt)
            #expect(Array("cde".utf8).starts(with: delivered.bytes))
            #expect(fixture.server.requests.count <= 2)
        }
    }
}
