import Synchronization
import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct S3ClientRetryTests {
    private let key = Array("key".utf8)

    @Test(arguments: [
        (500, "InternalError"), (502, ""), (503, "SlowDown"), (504, ""), (429, ""),
        (400, "RequestTimeout"), (409, "OperationAborted"),
    ])
    func `a passing refusal is followed by another try`(status: Int, code: String) async throws {
        try await withS3Client { request in
            request.number < 3 ? .refusal(status, code) : .object("abc")
        } _: { fixture in
            let delivered = S3Delivered()
            _ = try await fixture.client.get("key", into: delivered)
            #expect(delivered.bytes == Array("abc".utf8))
            #expect(fixture.server.requests.count == 3)
            #expect(fixture.notes.count == 2)
        }
    }

    @Test(arguments: [
        (403, "AccessDenied", CloudFSError.Code.denied), (404, "NoSuchKey", .notFound),
        (404, "NoSuchBucket", .offline), (501, "NotImplemented", .unsupported),
        (400, "InvalidArgument", .invalidArgument), (400, "EntityTooLarge", .tooLarge),
        (403, "QuotaExceeded", .quotaExceeded), (400, "KeyTooLongError", .nameTooLong),
    ])
    func `a refusal for good is the last try`(
        status: Int,
        code: String,
        meaning: CloudFSError.Code
    ) async throws {
        try await withS3Client { _ in
            .refusal(status, code)
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.put(key, body: .bytes([1]))
            }
            #expect(error?.code == meaning)
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `tries end, and the last reason is told`() async throws {
        try await withS3Client { _ in
            .refusal(503, "SlowDown")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.head(key)
            }
            #expect(error?.code == .offline)
            // On a busy machine a try may be over before the server hears of it.
            let count = fixture.server.requests.count
            #expect(count <= S3Limits.quick.attempts && count > S3Limits.quick.attempts / 2)
        }
    }

    @Test func `a wait that the server asks for is kept within bounds`() async throws {
        var limits = S3Limits.quick
        limits.longestRetryAfter = .milliseconds(300)
        try await withS3Client(limits: limits) { request in
            request.number == 1
                ? .refusal(503, "SlowDown", headers: ["Retry-After: 3600"]) : .object("abc")
        } _: { fixture in
            let clock = ContinuousClock()
            let took = try await clock.measure { _ = try await fixture.client.get("key") }
            #expect(took >= .milliseconds(300))
            #expect(took < .seconds(30))
        }
    }

    @Test func `the deadline of the whole ends the tries`() async throws {
        var limits = S3Limits.quick
        limits.metadata = .milliseconds(200)
        limits.backoff = Backoff(first: .seconds(50), longest: .seconds(50), certainPart: 1)
        try await withS3Client(limits: limits) { _ in
            .refusal(503, "SlowDown")
        } _: { fixture in
            await #expect(throws: CloudFSError.self) { try await fixture.client.head(key) }
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `an unanswered conditional upload that happened is not a conflict`() async throws {
        let body = Array("content".utf8)
        let tag = "9a0364b9e99bb480dd25e1f0284c8555"
        try await withS3Client { request in
            switch (request.method, request.number) {
            case ("PUT", 1): [.close]
            case ("PUT", _): .refusal(412, "PreconditionFailed")
            default:
                [
                    .text("HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: \"\(tag)\"\r\n"),
                    .text(
                        "x-amz-meta-cloudfs-id: mine\r\n\([ScriptedServer.Step].modified)\r\n\r\n"
                    ),
                ]
            }
        } _: { fixture in
            let written = try await fixture.client.put(
                key,
                body: .bytes(body),
                metadata: ["cloudfs-id": "mine"],
                condition: .ifNoneMatchAny
            )
            #expect(written.entityTag == tag)

            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.put(
                    key,
                    body: .bytes(body),
                    metadata: ["cloudfs-id": "other"],
                    condition: .ifNoneMatchAny
                )
            }
            #expect(error?.code == .exists)
        }
    }

    @Test func `an unanswered upload that another overtook is a conflict`() async throws {
        try await withS3Client { request in
            switch (request.method, request.number) {
            case ("PUT", 1): [.close]
            case ("PUT", _): .refusal(412, "PreconditionFailed")
            default: .object("theirs!", tag: "other")
            }
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.put(
                    key,
                    body: .bytes(Array("content".utf8)),
                    condition: .ifMatch("base", quoted: false)
                )
            }
            #expect(error?.code == .remoteChanged)
            #expect(fixture.server.requests.first?.header("if-match") == "base")
        }
    }

    // MARK: - Clocks, credentials, regions

    @Test func `a wrong clock is made up for, and noted once`() async throws {
        try await withS3Client { request in
            let isFirst = request.number == 1
            return isFirst
                ? .refusal(
                    403,
                    "RequestTimeTooSkewed",
                    headers: ["Date: Thu, 01 Jan 2015 00:00:00 GMT"]
                )
                : .object("abc")
        } _: { fixture in
            _ = try await fixture.client.get("key")
            _ = try await fixture.client.get("key")

            let dates = fixture.server.requests.map { $0.header("x-amz-date")?.prefix(8) }
            #expect(dates.dropFirst().allSatisfy { $0 == "20150101" })
            #expect(fixture.notes.count == 1)
            guard case .clockSkew = fixture.notes.first else {
                Issue.record("noted \(fixture.notes)")
                return
            }
        }
    }

    @Test func `a clock that stays wrong is told`() async throws {
        try await withS3Client { _ in
            .refusal(403, "RequestTimeTooSkewed", headers: ["Date: Thu, 01 Jan 2015 00:00:00 GMT"])
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key")
            }
            #expect(error?.code == .unauthenticated)
            #expect(error?.message.contains("clock") == true)
            #expect(fixture.server.requests.count == 2)
        }
    }

    @Test func `a refused HEAD is explained by a GET`() async throws {
        try await withS3Client { request in
            request.method == "HEAD"
                ? [.text("HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n")]
                : .refusal(403, "InvalidAccessKeyId")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.headBucket()
            }
            #expect(error?.code == .unauthenticated)
            #expect(error?.cause as? S3Failure == .unknownAccessKey)
        }
    }

    @Test func `expired credentials are replaced and the request repeated`() async throws {
        let source = ChangingCredentials()
        try await withS3Client(credentials: source) { request in
            request.header("authorization")?.contains("Credential=NEW/") == true
                ? .object("abc") : .refusal(400, "ExpiredToken")
        } _: { fixture in
            _ = try await fixture.client.get("key")
            #expect(fixture.server.requests.count == 2)
            #expect(fixture.notes == [.credentialsRefreshed])
        }
    }

    @Test func `credentials that stay refused are not tried again`() async throws {
        try await withS3Client { _ in
            .refusal(403, "SignatureDoesNotMatch")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key")
            }
            #expect(error?.code == .unauthenticated)
            #expect(error?.message.contains("cloudfs login") == true)
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `the bucket's region is learned and kept`() async throws {
        try await withS3Client { request in
            request.header("authorization")?.contains("/eu-central-1/s3/") == true
                ? .object("abc")
                : .refusal(400, "AuthorizationHeaderMalformed", "<Region>eu-central-1</Region>")
        } _: { fixture in
            _ = try await fixture.client.get("key")
            _ = try await fixture.client.get("key")
            #expect(fixture.server.requests.count == 3)
            #expect(fixture.client.region == "eu-central-1")
        }
    }

    @Test(arguments: [301, 302, 307, 308])
    func `a redirect to another host gets no credentials`(status: Int) async throws {
        let other = try ScriptedServer { _ in .object("stolen") }
        defer { other.stop() }
        let location = "Location: http://127.0.0.1:\(other.port)/bucket/key"
        try await withS3Client { _ in
            .answer(status, [location])
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key")
            }
            #expect(error?.code == .invalidArgument)
            #expect(error?.message.contains("redirects") == true)
            #expect(other.requests.isEmpty)
        }
    }

    @Test func `without credentials requests are not signed`() async throws {
        try await withS3Client(credentials: S3FixedCredentials.anonymous) { _ in
            .object("abc")
        } _: { fixture in
            _ = try await fixture.client.get("key")
            let request = try #require(fixture.server.requests.first)
            #expect(request.header("authorization") == nil)
            #expect(request.target == "/bucket/key")
        }
    }

    @Test func `the server's date is kept`() async throws {
        try await withS3Client { _ in
            .answer(200, ["Date: Wed, 21 Oct 2015 07:28:00 GMT", "ETag: \"tag\""])
        } _: { fixture in
            #expect(fixture.client.serverNow == nil)
            let written = try await fixture.client.put(key, body: .none)
            #expect(written.serverDate?.seconds == 1_445_412_480)
            #expect(fixture.client.lastServerDate?.seconds == 1_445_412_480)
            let now = try #require(fixture.client.serverNow)
            #expect(now.seconds - 1_445_412_480 < 60)
        }
    }
}

/// Credentials that are others once they were refused.
private final class ChangingCredentials: S3CredentialSource {
    private let isNew = Mutex(false)

    func credentials() async throws(CloudFSError) -> S3Credentials? {
        S3Credentials(
            accessKeyID: isNew.withLock { $0 } ? "NEW" : "OLD",
            secretAccessKey: "secret"
        )
    }

    func invalidate(_ rejected: S3Credentials?) { isNew.withLock { $0 = true } }
}
