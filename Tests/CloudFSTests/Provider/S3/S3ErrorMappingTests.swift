import Testing

@testable import CloudFS

@Suite struct S3ErrorMappingTests {
    private static let endpoint = S3Endpoint(
        scheme: .https,
        host: "s3.example.org",
        port: 443,
        bucket: "photos",
        region: "us-east-1",
        style: .virtualHost
    )

    private func error(
        _ status: Int,
        _ code: String = "",
        key: String? = "a/b",
        method: String = "GET",
        condition: S3Condition = .none,
        headers: [(name: String, value: String)] = []
    ) -> CloudFSError {
        let document = code.isEmpty ? "" : "<Error><Code>\(code)</Code></Error>"
        return S3ErrorMapping.error(
            for: S3Refusal(status: status, headers: headers, document: Array(document.utf8)),
            to: S3Question(
                endpoint: Self.endpoint,
                method: method,
                key: key.map { Array($0.utf8) },
                condition: condition
            )
        )
    }

    @Test func `a missing bucket is not a missing object`() {
        let bucket = error(404, "NoSuchBucket")
        // Nothing in it is absent: it cannot be reached.
        #expect(bucket.code == .offline)
        #expect(bucket.cause as? S3Failure == .noSuchBucket)
        #expect(
            bucket.message
                == "there is no bucket \"photos\" at s3.example.org; "
                + "check the name and the endpoint"
        )
        let headers = [(name: "X-Amz-Request-Id", value: "1")]
        #expect(error(404, headers: headers).cause as? S3Failure == .noSuchKey)
        #expect(error(404, key: nil, headers: headers).cause as? S3Failure == .noSuchBucket)
    }

    @Test func `what a server says at length is cut`() throws {
        let long = String(repeating: "A", count: 200_000)
        let document = "<Error><Code>\(long)</Code><Message>\(long)</Message></Error>"
        let refusal = S3Refusal(status: 500, headers: [], document: Array(document.utf8))
        #expect(refusal.code.utf8.count == 100)
        #expect(refusal.message.utf8.count == 1_024)
        let many = "<Error>" + String(repeating: "<a><b/></a>", count: 20_000) + "</Error>"
        #expect(throws: CloudFSError.self) {
            _ = try S3XMLFields.read(Array(many.utf8), roots: ["Error"])
        }
    }

    @Test func `what a proxy does not find is not absent`() {
        #expect(error(404).code == .offline)
        #expect(error(404, key: nil).code == .offline)
    }

    @Test func `a failed condition depends on what was asked`() {
        #expect(error(412, condition: .ifNoneMatchAny).code == .exists)
        #expect(error(412, condition: .ifMatch("t", quoted: true)).code == .remoteChanged)
        #expect(
            error(404, "NoSuchKey", method: "PUT", condition: .ifMatch("t", quoted: true)).code
                == .remoteChanged
        )
        #expect(error(404, "NoSuchKey", condition: .ifMatch("t", quoted: true)).code == .notFound)
    }

    @Test(arguments: [
        (403, "AccessDenied", CloudFSError.Code.denied),
        (403, "InvalidAccessKeyId", .unauthenticated), (403, "ExpiredToken", .unauthenticated),
        (403, "SignatureDoesNotMatch", .unauthenticated), (401, "", .unauthenticated),
        (403, "RequestTimeTooSkewed", .unauthenticated), (416, "InvalidRange", .remoteChanged),
        (400, "EntityTooLarge", .tooLarge), (413, "", .tooLarge),
        (400, "KeyTooLongError", .nameTooLong),
        (400, "MetadataTooLarge", .attributesFull), (507, "QuotaExceeded", .quotaExceeded),
        (501, "", .unsupported), (503, "", .offline), (429, "", .offline), (500, "", .offline),
        (400, "Weird", .invalidArgument), (418, "", .offline), (301, "", .invalidArgument),
    ])
    func `every refusal has a code`(status: Int, code: String, meaning: CloudFSError.Code) {
        #expect(error(status, code).code == meaning)
    }

    @Test func `a region is taken only if it looks like one`() {
        let good = error(301, headers: [(name: "x-amz-bucket-region", value: "eu-west-1")])
        #expect(good.cause as? S3Failure == .wrongRegion("eu-west-1"))
        #expect(good.message.contains("eu-west-1"))
        let bad = error(301, headers: [(name: "x-amz-bucket-region", value: "eu/../\nx")])
        #expect(bad.cause as? S3Failure == .redirected(nil))
    }

    @Test func `a clock is blamed only for a refusal without a reason`() {
        var refusal = S3Refusal(status: 403, headers: [], document: [])
        refusal.clockDifference = .seconds(3_600)
        let question = S3Question(endpoint: Self.endpoint, method: "HEAD", key: nil)
        #expect(S3ErrorMapping.failure(of: refusal, to: question) == .clockSkew(.seconds(3_600)))
        #expect(
            S3ErrorMapping.error(for: refusal, to: question).message
                == "the clock of this machine is 60 minutes behind; set it right"
        )
        refusal.code = "AccessDenied"
        #expect(S3ErrorMapping.failure(of: refusal, to: question) == .accessDenied)
    }

    @Test func `what a server says cannot disturb a message`() {
        #expect(S3ErrorMapping.shown("a\u{1b}[31m\n\u{202e}b\"") == "\"a�[31m��b�\"")
        #expect(S3ErrorMapping.shown(String(repeating: "x", count: 1_000)).count < 250)
    }

    @Test(arguments: [
        ("Wed, 21 Oct 2015 07:28:00 GMT", Int64(1_445_412_480)),
        ("Thu, 01 Jan 1970 00:00:00 GMT", 0), ("Tue, 29 Feb 2000 23:59:59 GMT", 951_868_799),
    ])
    func `dates of headers are read`(text: String, seconds: Int64) {
        #expect(S3Time.http(text)?.seconds == seconds)
    }

    @Test(arguments: [
        "", "Wed", "Wed, 21 Foo 2015 07:28:00 GMT", "Wed, 99 Oct 2015 07:28:00 GMT",
        "Wed, 21 Oct 2015 25:28:00 GMT", "Wed, 21 Oct 2015 07:28 GMT", "2015-10-21T07:28:00Z",
    ])
    func `what is no date of a header is refused`(text: String) {
        #expect(S3Time.http(text) == nil)
    }
}
