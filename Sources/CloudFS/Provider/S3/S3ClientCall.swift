/// One request to S3 before it is signed; signed anew each time it is sent.
struct S3Call: Sendable {
    /// What the answer waits for, which decides how long it may take.
    enum Weight: Sendable {
        case metadata
        case data(byteCount: Int64)
        /// The server moves so many bytes before it answers.
        case serverWork
    }

    var method: String
    /// `nil`: the bucket itself.
    var key: [UInt8]?
    /// Names and values percent-encoded; `nil`: without `=`.
    var query: [(name: String, value: String?)] = []
    var headers: [(name: String, value: String)] = []
    var body = HTTPBody.none
    var weight = Weight.metadata
    private(set) var condition = S3Condition.none
    /// Whether the server may disregard the condition: who asks has looked already.
    private(set) var isConditionOptional = false
    /// Whether nobody else writes what it changes.
    var isOwn = false
    /// Whether it must not wait for what is sent, as others would take its silence for an end.
    var isUrgent = false
    /// Whether the tag of what it replaces may be there again when it is done, as where only
    /// metadata change or bytes come back: a condition on it then holds whatever others wrote.
    var mayKeepTag = false

    /// Whether it may be sent again when nobody knows what became of it: it then does no harm to
    /// what somebody else has written since.
    var isRepeatable: Bool {
        if isOwn || method == "GET" || method == "HEAD" { return true }
        return switch condition {
        case .none: false
        case .ifNoneMatchAny: !isConditionOptional
        case .ifMatch: !isConditionOptional && !mayKeepTag
        }
    }

    /// Small records of the drive's own are not to wait for files that may be sent for hours.
    var lane: HTTPSlots.Lane? {
        if method == "GET", case .data(let byteCount) = weight, byteCount > Self.longByteCount {
            return .fetching
        }
        let isRecord = isUrgent || isOwn && method != "POST"
        return isRecord && body.byteCount <= Self.recordByteCount ? .receiving : nil
    }

    private static let recordByteCount: Int64 = 64 << 10
    /// More than any record that is read.
    private static let longByteCount: Int64 = 2 << 20

    /// Adds a query item whose value is plain.
    mutating func ask(_ name: String, _ value: some Sequence<UInt8>) {
        query.append((name: name, value: URIEncoding.encode(value, keepingSlash: false)))
    }

    mutating func ask(_ name: String, _ value: String) { ask(name, value.utf8) }

    /// Adds the headers of a condition that keeps a repetition from doing harm.
    mutating func demand(_ condition: S3Condition) {
        self.condition = condition
        switch condition {
        case .none: break
        case .ifNoneMatchAny: headers.append((name: "if-none-match", value: "*"))
        case .ifMatch(let tag, let quoted):
            headers.append(
                (name: "if-match", value: quoted ? S3EntityTag.quoted(tag) : tag)
            )
        }
    }

    /// Adds the headers of a condition that not every server honours, or even permits.
    mutating func prefer(_ condition: S3Condition) {
        demand(condition)
        isConditionOptional = true
    }

    /// Leaves out a condition that the server does not permit.
    mutating func waiveCondition() {
        headers.removeAll { ["if-match", "if-none-match"].contains($0.name) }
        condition = .none
    }

    /// Adds what an object is stored with.
    ///
    /// - Throws: `invalidArgument` for what no header can carry.
    mutating func describe(
        _ metadata: [String: String],
        contentType: String? = nil,
        contentHeaders: [String: String] = [:]
    ) throws(CloudFSError) {
        for (name, value) in metadata.sorted(by: { $0.key < $1.key }) {
            headers.append((name: "x-amz-meta-\(name)", value: value))
        }
        var contentHeaders = contentHeaders
        if let contentType { contentHeaders["content-type"] = contentType }
        for (name, value) in contentHeaders.sorted(by: { $0.key < $1.key }) {
            headers.append((name: name, value: value))
        }
        for (name, value) in headers where !Self.isHeader(name, value) {
            throw CloudFSError(.invalidArgument, "metadata \(name) cannot be sent as it is")
        }
    }

    private static func isHeader(_ name: String, _ value: String) -> Bool {
        name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ":") }
            && value.utf8.allSatisfy { ($0 >= 0x20 && $0 != 0x7f) || $0 == 0x09 }
    }

    func question(at endpoint: S3Endpoint) -> S3Question {
        S3Question(
            endpoint: endpoint,
            method: method,
            key: key,
            isUpload: query.contains { $0.name == "uploadId" },
            condition: condition
        )
    }

    /// How long all of it may take, with its repetitions; a body that moves is not cut off, but
    /// what then fails is not repeated.
    func budget(_ limits: S3Limits) -> Duration {
        switch weight {
        case .metadata: limits.metadata
        case .data(let byteCount):
            limits.data + .milliseconds(byteCount / max(1, limits.slowestRate / 1_000))
        case .serverWork: limits.serverWork
        }
    }

    /// How long one try of it may take; of a body only how long it may stand still.
    func limits(_ limits: S3Limits, within budget: Duration) -> HTTPLimits {
        switch weight {
        case .data where body.byteCount > 0:
            // A slow link may have used up the budget before an answer has one more try made.
            HTTPLimits(total: limits.data, firstByte: limits.firstByte, idle: limits.idle)
        case .metadata, .data:
            HTTPLimits(total: budget, firstByte: limits.firstByte, idle: limits.idle)
        case .serverWork:
            HTTPLimits(total: budget, firstByte: limits.serverWork, idle: limits.serverWork)
        }
    }
}

extension S3Endpoint {
    /// The `Host` header, with the port unless it is the scheme's own.
    var hostHeader: String {
        let name = host.contains(":") ? "[\(host)]" : host
        let address = port == scheme.defaultPort ? name : "\(name):\(port)"
        return style == .virtualHost ? "\(bucket).\(address)" : address
    }

    /// The encoded path of a key, or of the bucket.
    func encodedPath(of key: [UInt8]?) -> String {
        let path = key.map { URIEncoding.encode($0, keepingSlash: true) } ?? ""
        return style == .virtualHost
            ? "/\(path)"
            : "/\(URIEncoding.encode(bucket.utf8, keepingSlash: false))"
                + (key == nil ? "" : "/\(path)")
    }
}
