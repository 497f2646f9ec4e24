/// An answer that is no success, as the server put it.
struct S3Refusal: Sendable, Equatable {
    var status: Int
    /// Empty when the answer had no document, as those to HEAD.
    var code: String
    var message: String
    /// The region that the server named.
    var region: String?
    /// Where the server would rather be asked.
    var location: String?
    var retryAfter: Duration?
    /// Whether a server of objects says so, and no proxy before it: such number their answers.
    var isOfServer: Bool
    /// The server's clock minus this machine's, when it told its own.
    var clockDifference: Duration?

    /// - Parameter document: The body; what cannot be understood of it is left out.
    init(
        status: Int,
        headers: [(name: String, value: String)],
        document: [UInt8],
        clockDifference: Duration? = nil
    ) {
        self.status = status
        self.clockDifference = clockDifference
        func header(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name }?.value
        }
        isOfServer = ["x-amz-request-id", "x-amzn-requestid"].contains { header($0) != nil }
        var fields: [String: String] = [:]
        do throws(CloudFSError) {
            fields = try S3XMLFields.read(document, roots: ["Error"]).fields
        } catch {
            // The status alone tells enough; proxies answer with pages of their own.
        }
        code = Self.cut(fields["Code"] ?? "", to: 100)
        message = Self.cut(fields["Message"] ?? "", to: 1_024)
        region = Self.region(header("x-amz-bucket-region") ?? fields["Region"])
        location = (header("location") ?? fields["Endpoint"]).map { Self.cut($0, to: 1_024) }
        retryAfter = header("retry-after").flatMap { S3Number.parse($0.utf8) }
            .map { .seconds(min($0, 3_600)) }
    }

    /// What the server says goes into the log.
    private static func cut(_ text: String, to byteCount: Int) -> String {
        text.utf8.count <= byteCount
            ? text : String(decoding: text.utf8.prefix(byteCount), as: UTF8.self)
    }

    /// A region's name goes into signatures and messages: only what looks like one is taken.
    private static func region(_ text: String?) -> String? {
        guard let text, !text.isEmpty, text.utf8.count <= 64 else { return nil }
        let isName = text.utf8.allSatisfy { byte in
            (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte)
                || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
                || byte == UInt8(ascii: "-")
        }
        return isName ? text : nil
    }
}

/// What a server was asked for, as far as the meaning of its refusal depends on it.
struct S3Question: Sendable {
    var endpoint: S3Endpoint
    var method: String
    /// `nil`: the bucket itself.
    var key: [UInt8]?
    /// Whether the question was about a multipart upload.
    var isUpload = false
    var condition = S3Condition.none
}

/// Gives every refusal of an S3 server its meaning.
enum S3ErrorMapping {
    /// Beyond this a signature is refused for its time.
    static let toleratedSkew = Duration.seconds(900)

    // MARK: - Meaning

    static func failure(of refusal: S3Refusal, to question: S3Question) -> S3Failure {
        if let known = failure(ofCode: refusal.code, refusal) { return known }
        switch refusal.status {
        case 301, 302, 303, 307, 308:
            return refusal.region.map { .wrongRegion($0) } ?? .redirected(refusal.location)
        case 304: return .conditionFailed
        case 400:
            if let region = refusal.region { return .wrongRegion(region) }
            return .invalidRequest(code: refusal.code)
        case 401: return .signatureMismatch
        case 403: return isSkewed(refusal) ? .clockSkew(refusal.clockDifference) : .accessDenied
        case 404:
            // A proxy whose server is away may say the same: that is no certain absence.
            guard refusal.isOfServer else { return .serverFault(status: 404, code: "") }
            if question.key == nil { return .noSuchBucket }
            return question.isUpload ? .noSuchUpload : .noSuchKey
        case 408, 429: return .throttled
        case 409: return .conditionConflict
        case 412: return .conditionFailed
        case 413: return .tooLarge
        case 416: return .rangeNotSatisfiable
        case 431: return .metadataTooLarge
        case 405, 501: return .unsupported
        case 500...: return .serverFault(status: refusal.status, code: refusal.code)
        default: return .other(status: refusal.status, code: refusal.code)
        }
    }

    /// The meaning of one entry's code in an answer about many.
    static func failure(ofCode code: String, to question: S3Question) -> S3Failure {
        var refusal = S3Refusal(status: 500, headers: [], document: [])
        refusal.code = code
        return failure(of: refusal, to: question)
    }

    private static func failure(ofCode code: String, _ refusal: S3Refusal) -> S3Failure? {
        switch code {
        case "NoSuchKey", "NoSuchVersion": .noSuchKey
        case "NoSuchBucket": .noSuchBucket
        case "NoSuchUpload": .noSuchUpload
        case "InvalidPart", "InvalidPartOrder": .invalidPart
        case "InvalidAccessKeyId": .unknownAccessKey
        case "SignatureDoesNotMatch": .signatureMismatch
        case "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidSecurity":
            .expiredCredentials
        case "RequestTimeTooSkewed", "RequestExpired": .clockSkew(refusal.clockDifference)
        case "AuthorizationHeaderMalformed", "IllegalLocationConstraintException":
            .wrongRegion(refusal.region)
        case "PermanentRedirect", "TemporaryRedirect", "Redirect":
            refusal.region.map { .wrongRegion($0) } ?? .redirected(refusal.location)
        case "AccessDenied", "AllAccessDisabled", "AccountProblem":
            .accessDenied
        case "PreconditionFailed": .conditionFailed
        case "ConditionalRequestConflict", "OperationAborted": .conditionConflict
        case "InvalidRange": .rangeNotSatisfiable
        case "EntityTooLarge": .tooLarge
        case "EntityTooSmall": .tooSmall
        case "QuotaExceeded", "InsufficientStorage", "XMinioStorageFull": .quotaExceeded
        case "KeyTooLong", "KeyTooLongError": .keyTooLong
        case "MetadataTooLarge", "RequestHeaderSectionTooLarge": .metadataTooLarge
        case "NotImplemented", "MethodNotAllowed": .unsupported
        case "SlowDown", "Throttling", "ThrottlingException", "TooManyRequests",
            "RequestLimitExceeded", "RequestTimeout", "SlowDownRead", "SlowDownWrite":
            .throttled
        case "InternalError", "ServiceUnavailable":
            .serverFault(status: refusal.status, code: code)
        default: nil
        }
    }

    /// Whether a refusal without a reason has its reason in the clocks.
    private static func isSkewed(_ refusal: S3Refusal) -> Bool {
        guard refusal.code.isEmpty, let difference = refusal.clockDifference else { return false }
        return difference > toleratedSkew || difference < .zero - toleratedSkew
    }

    /// Whether the same request may succeed a little later.
    static func isWorthRepeating(_ failure: S3Failure) -> Bool {
        switch failure {
        case .throttled, .conditionConflict, .noAnswer: true
        case .serverFault(let status, _): [500, 502, 503, 504].contains(status)
        default: false
        }
    }

    // MARK: - Words

    static func error(for refusal: S3Refusal, to question: S3Question) -> CloudFSError {
        let failure = failure(of: refusal, to: question)
        return error(for: failure, to: question, saying: refusal.message)
    }

    static func error(
        for failure: S3Failure,
        to question: S3Question,
        saying message: String = ""
    ) -> CloudFSError {
        let host = question.endpoint.host
        let bucket = shown(question.endpoint.bucket)
        let object = question.key.map { shown(String(decoding: $0, as: UTF8.self)) } ?? bucket
        let said = message.isEmpty ? "" : ": \(shown(message))"
        let (code, text): (CloudFSError.Code, String) =
            switch failure {
            // Nothing in it is absent: as long as it is not there, it is out of reach.
            case .noSuchBucket:
                (
                    .offline,
                    "there is no bucket \(bucket) at \(host); check the name and the endpoint"
                )
            case .noSuchKey where question.method != "GET" && question.isConditional:
                (.remoteChanged, "\(object) was deleted in the cloud")
            case .noSuchKey: (.notFound, "there is no object \(object)")
            case .noSuchUpload: (.notFound, "the upload of \(object) is gone")
            case .invalidPart: (.notFound, "a part of the upload of \(object) is gone")
            case .conditionFailed, .conditionConflict:
                question.condition == .ifNoneMatchAny
                    ? (.exists, "\(object) exists") : (.remoteChanged, "\(object) was changed")
            case .rangeNotSatisfiable: (.remoteChanged, "\(object) is shorter than expected")
            case .tooLarge: (.tooLarge, "\(object) is too large for \(host)")
            case .tooSmall: (.invalidArgument, "a part of \(object) is too small for \(host)")
            case .quotaExceeded: (.quotaExceeded, "there is no room left at \(host)")
            case .keyTooLong: (.nameTooLong, "the path of \(object) is too long for \(host)")
            case .metadataTooLarge:
                (.attributesFull, "\(object) has more metadata than \(host) takes")
            case .unsupported: (.unsupported, "\(host) does not offer this\(said)")
            case .serverFault(status: 404, _):
                (.offline, "\(host) answers as no server of objects does; check the endpoint")
            case .throttled, .serverFault:
                (.offline, "\(host) cannot serve now; it is tried again later\(said)")
            case .noAnswer: (.offline, "\(host) does not answer")
            case .wrongAnswer: (.corrupt, "\(host) answered for \(object) what was not asked")
            default: access(failure, question, said)
            }
        return CloudFSError(code, text, cause: failure)
    }

    private static func access(
        _ failure: S3Failure,
        _ question: S3Question,
        _ said: String
    ) -> (CloudFSError.Code, String) {
        let host = question.endpoint.host
        let bucket = shown(question.endpoint.bucket)
        let login = "run \"cloudfs login\" for this drive"
        return switch failure {
        case .accessDenied where question.key == nil && question.method == "GET":
            (
                .denied,
                "\(host) does not permit to list bucket \(bucket); the key needs the permission "
                    + "s3:ListBucket, or run \"cloudfs login\" with another key\(said)"
            )
        case .accessDenied:
            (.denied, "\(host) does not permit this in bucket \(bucket)\(said)")
        case .unknownAccessKey:
            (.unauthenticated, "\(host) does not know the access key; \(login)")
        case .signatureMismatch:
            (.unauthenticated, "\(host) does not accept the secret key; \(login)")
        case .expiredCredentials:
            (.unauthenticated, "the credentials for \(host) have expired; \(login)")
        case .clockSkew(let difference):
            (.unauthenticated, "the clock of this machine is \(skew(difference)); set it right")
        case .wrongRegion(let region):
            (
                .invalidArgument,
                "bucket \(bucket) is in "
                    + (region.map { "region \($0)" } ?? "another region")
                    + "; name it and its endpoint in the drive's options"
                    + (region == nil ? said : "")
            )
        case .redirected(let location):
            (
                .invalidArgument,
                "\(host) redirects to \(location.map(shown) ?? "another address"), where "
                    + "credentials are not sent; name the right endpoint in the drive's options"
            )
        case .invalidRequest(let code):
            (.invalidArgument, "\(host) does not understand the request \(shown(code))\(said)")
        default:
            (.offline, "\(host) answered in a way that is not known\(said)")
        }
    }

    private static func skew(_ difference: Duration?) -> String {
        // What the answer was dated may be right where the server's check is not.
        guard let seconds = difference?.components.seconds, abs(seconds) >= 120 else {
            return "wrong"
        }
        let minutes = abs(seconds) / 60
        return "\(minutes) minutes \(seconds > 0 ? "behind" : "ahead")"
    }

    /// A server's or a bucket's text as it may stand in a message: short, on one line, in quotes.
    static func shown(_ text: String) -> String {
        var shown = ""
        for scalar in text.unicodeScalars.prefix(200) {
            let isControl = scalar.value < 0x20 || (0x7f...0x9f).contains(scalar.value)
            let isBidirectional =
                (0x202a...0x202e).contains(scalar.value) || (0x2066...0x2069).contains(scalar.value)
            shown.unicodeScalars.append(
                isControl || isBidirectional || scalar == "\"" ? "\u{fffd}" : scalar
            )
        }
        return "\"\(shown)\(text.unicodeScalars.count > 200 ? "…" : "")\""
    }
}

extension S3Question {
    fileprivate var isConditional: Bool { condition != .none }
}
