import CloudFS
import NIOCore

/// The buckets of a server and what requests do to them; knows nothing of connections.
struct FakeS3Store: Sendable {
    var settings = FakeS3Settings()
    var buckets: [String: FakeS3Bucket] = [:]
    var lastUpload = 0
    /// What the faults of the present request make the server disregard.
    var isIgnoring: Set<FakeS3Fault.Disregard> = []

    /// The time by the server's clock, which may be wrong.
    var now: Timestamp {
        let moment = settings.now.map { $0() } ?? FakeS3Time.now()
        let (seconds, attoseconds) = settings.clockOffset.components
        return Timestamp(
            seconds: moment.seconds + seconds,
            nanoseconds: moment.nanosecondsOfSecond + attoseconds / 1_000_000_000
        )
    }

    mutating func perform(
        _ request: FakeS3Request,
        body: ByteBuffer
    ) throws(FakeS3Failure) -> FakeS3Answer {
        try check(request)
        let body = try decoded(body, of: request)
        switch request.kind {
        case .listBuckets: return listBuckets()
        case .createBucket: return createBucket(request)
        case .other: return try answerOther(request)
        default: break
        }
        guard var bucket = buckets[request.bucket] else {
            throw FakeS3Failure(404, "NoSuchBucket", "The specified bucket does not exist")
        }
        // So that the bucket is changed in place instead of copied.
        buckets[request.bucket] = nil
        defer { buckets[request.bucket] = bucket }
        switch request.kind {
        case .headBucket: return FakeS3Answer()
        case .list: return try list(request, in: bucket)
        case .head, .get: return try get(request, in: bucket)
        case .put: return try put(request, body, in: &bucket)
        case .delete: return try delete(request, in: &bucket)
        case .deleteBatch: return try deleteBatch(request, body, in: &bucket)
        case .copy: return try copy(request, in: &bucket)
        case .createUpload: return try createUpload(request, in: &bucket)
        case .uploadPart: return try uploadPart(request, body, in: &bucket)
        case .copyPart: return try copyPart(request, in: &bucket)
        case .listParts: return try listParts(request, in: bucket)
        case .listUploads: return try listUploads(request, in: bucket)
        case .completeUpload: return try completeUpload(request, body, in: &bucket)
        case .abortUpload: return try abortUpload(request, in: &bucket)
        case .listBuckets, .createBucket, .deleteBucket, .other: break
        }
        guard bucket.isEmpty else {
            throw FakeS3Failure(409, "BucketNotEmpty", "The bucket is not empty.")
        }
        return FakeS3Answer(status: 204)
    }

    /// The bucket of that name, also while the request is about another one.
    func bucket(
        _ name: String,
        besides own: FakeS3Bucket,
        of request: FakeS3Request
    )
        -> FakeS3Bucket?
    {
        name == request.bucket ? own : buckets[name]
    }
}

// MARK: - Whole buckets

extension FakeS3Store {
    private func listBuckets() -> FakeS3Answer {
        var document = FakeS3XML()
        document.open("ListAllMyBucketsResult")
        document.raw("<Owner><ID>owner</ID><DisplayName>owner</DisplayName></Owner>")
        document.open("Buckets")
        for name in buckets.keys.sorted() {
            document.open("Bucket")
            document.element("Name", name)
            document.element("CreationDate", FakeS3Time.iso(now))
            document.close("Bucket")
        }
        document.close("Buckets")
        document.close("ListAllMyBucketsResult")
        return FakeS3Answer(document: document)
    }

    private mutating func createBucket(_ request: FakeS3Request) -> FakeS3Answer {
        if buckets[request.bucket] == nil { buckets[request.bucket] = FakeS3Bucket() }
        return FakeS3Answer(headers: [("Location", "/" + request.bucket)])
    }

    private func answerOther(_ request: FakeS3Request) throws(FakeS3Failure) -> FakeS3Answer {
        var document = FakeS3XML()
        if request.method == "GET", request.parameter("location") != nil {
            document.open("LocationConstraint")
            document.raw(FakeS3XML.escaped(settings.region ?? "us-east-1"))
            document.close("LocationConstraint")
        } else if request.method == "GET", request.parameter("versioning") != nil {
            document.open("VersioningConfiguration")
            document.close("VersioningConfiguration")
        } else {
            throw FakeS3Failure.notImplemented
        }
        return FakeS3Answer(document: document)
    }
}

// MARK: - Before anything is done

extension FakeS3Store {
    private func check(_ request: FakeS3Request) throws(FakeS3Failure) {
        let scope = request.credentialScope
        if let accessKeyID = settings.accessKeyID {
            guard let scope else { throw FakeS3Failure.accessDenied }
            guard scope.first == accessKeyID else {
                throw FakeS3Failure(
                    403,
                    "InvalidAccessKeyId",
                    "The AWS Access Key Id you provided does not exist in our records."
                )
            }
        }
        if let region = settings.region, let scope, scope.count >= 3, scope[2] != region {
            var failure = FakeS3Failure(
                400,
                "AuthorizationHeaderMalformed",
                "The authorization header is malformed; the region '\(scope[2])' is wrong; "
                    + "expecting '\(region)'"
            )
            failure.details = [("Region", region)]
            failure.headers = [("x-amz-bucket-region", region)]
            throw failure
        }
        let date = request.header("x-amz-date").flatMap { FakeS3Time.parsedBasic($0) }
        if settings.checksRequestTime, let date, abs(date - now.seconds) >= 15 * 60 {
            throw FakeS3Failure(
                403,
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large."
            )
        }
        if settings.isReadOnly, request.kind.isWrite { throw FakeS3Failure.accessDenied }
        if request.key.bytes.count > 1_024 {
            throw FakeS3Failure(400, "KeyTooLongError", "Your key is too long")
        }
    }

    /// The bytes that were meant, out of chunks if they came in such, if their digests are right.
    private func decoded(
        _ body: ByteBuffer,
        of request: FakeS3Request
    ) throws(FakeS3Failure) -> ByteBuffer {
        let digest = request.header("x-amz-content-sha256") ?? ""
        var body = body
        if digest.hasPrefix("STREAMING-") {
            guard let plain = Self.withoutChunks(body) else {
                throw FakeS3Failure(400, "IncompleteBody", "The chunks are broken.")
            }
            body = plain
        } else if digest.utf8.count == 64, digest != FakeS3Digest.sha256(body) {
            throw FakeS3Failure(
                400,
                "XAmzContentSHA256Mismatch",
                "The provided 'x-amz-content-sha256' header does not match what was computed."
            )
        }
        if let expected = request.header("content-md5"),
            expected != FakeS3Encoding.base64(FakeS3Digest.md5(body))
        {
            throw FakeS3Failure(400, "BadDigest", "The Content-MD5 did not match.")
        }
        if body.readableBytes > settings.maximumBodyByteCount {
            throw FakeS3Failure(400, "EntityTooLarge", "The body is too large.")
        }
        return body
    }

    /// `size;chunk-signature=…\r\n` + bytes + `\r\n`, until a size of 0; then perhaps trailers.
    private static func withoutChunks(_ body: ByteBuffer) -> ByteBuffer? {
        var body = body
        var plain = ByteBuffer()
        while true {
            guard let end = body.readableBytesView.firstIndex(of: UInt8(ascii: "\r")),
                let line = body.readString(length: end - body.readerIndex),
                body.readString(length: 2) == "\r\n",
                let count = Int(line.prefix { $0 != ";" }, radix: 16)
            else { return nil }
            if count == 0 { return plain }
            guard var chunk = body.readSlice(length: count), body.readString(length: 2) == "\r\n"
            else { return nil }
            plain.writeBuffer(&chunk)
        }
    }
}
