import Crypto

/// Signs requests with AWS Signature Version 4, in their headers.
///
/// Pure: the same arguments always give the same signature. The path is signed as it is sent, so
/// whoever encoded it decides once for both.
/// - Source: AWS, "Create a signed AWS API request" and "Authenticating Requests (AWS Signature
///   Version 4)" of the S3 API reference.
struct SigV4: Sendable {
    /// What stands in the signature for the request's body.
    enum PayloadHash: Sendable {
        case bytes([UInt8])
        /// The SHA-256 of the body, in small hexadecimal digits.
        case sha256Hex(String)
        /// The body is not part of the signature.
        case unsigned
    }

    var region: String
    /// `s3` signs the path as it is sent; every other service normalises it and encodes it again.
    var service: String

    init(region: String, service: String = "s3") {
        self.region = region
        self.service = service
    }

    /// Signs a request whose query is percent-encoded already: values may be no UTF-8.
    ///
    /// - Parameters:
    ///   - method: In capital letters.
    ///   - host: The `Host` header as sent, with the port unless it is the scheme's own.
    ///   - encodedPath: The path as sent, percent-encoded, beginning with `/`.
    ///   - encodedQuery: Names and values as `URIEncoding` gives them, slashes encoded too.
    ///   - headers: What to send and sign beside the headers that signing adds.
    ///   - payload: What is said of the body.
    ///   - credentials: Whose signature it is.
    ///   - date: The time as the server sees it.
    func sign(
        method: String,
        host: String,
        encodedPath: String,
        encodedQuery: [(name: String, value: String?)],
        headers: [(name: String, value: String)],
        payload: PayloadHash,
        credentials: S3Credentials,
        date: Timestamp
    ) -> SignedRequest {
        let time = S3Time.basic(date)
        // Other services know x-amz-content-sha256 only from callers that set it themselves.
        let own = Self.ownHeaders.union(service == "s3" ? ["x-amz-content-sha256"] : [])
        var sent = headers.filter { !own.contains($0.name.lowercased()) }
        sent.append((name: "host", value: host))
        sent.append((name: "x-amz-date", value: time))
        let payloadHash = Self.text(of: payload)
        if service == "s3" { sent.append((name: "x-amz-content-sha256", value: payloadHash)) }
        if let token = credentials.sessionToken {
            sent.append((name: "x-amz-security-token", value: token))
        }

        let signed = Self.canonicalHeaders(sent)
        let signedNames = signed.map(\.name).joined(separator: ";")
        let request = [
            method,
            canonicalPath(encodedPath),
            Self.canonicalQuery(encodedQuery),
            signed.map { "\($0.name):\($0.value)\n" }.joined(),
            signedNames,
            payloadHash,
        ].joined(separator: "\n")
        let scope = "\(time.prefix(8))/\(region)/\(service)/aws4_request"
        let text = "AWS4-HMAC-SHA256\n\(time)\n\(scope)\n\(Self.sha256Hex(request.utf8))"
        let signature = signature(of: text, day: time.prefix(8), credentials: credentials)
        sent.append(
            (
                name: "authorization",
                value: "AWS4-HMAC-SHA256 Credential=\(credentials.accessKeyID)/\(scope), "
                    + "SignedHeaders=\(signedNames), Signature=\(signature)"
            )
        )
        return SignedRequest(
            pathAndQuery: SignedRequest.pathAndQuery(encodedPath, encodedQuery),
            headers: sent,
            canonicalRequest: request
        )
    }

    // MARK: - The canonical request

    /// The headers that signing sets; a caller's are dropped.
    private static let ownHeaders: Set<String> = [
        "host", "x-amz-date", "x-amz-security-token", "authorization",
    ]

    /// The headers that clients and proxies set or change on the way: signing them breaks requests.
    private static let unsignedHeaders: Set<String> = [
        "connection", "expect", "te", "transfer-encoding", "upgrade", "user-agent",
        "x-amzn-trace-id",
    ]

    /// What stands in the signature for the body.
    private static func text(of payload: PayloadHash) -> String {
        switch payload {
        case .bytes(let bytes): sha256Hex(bytes)
        case .sha256Hex(let hash): hash
        case .unsigned: "UNSIGNED-PAYLOAD"
        }
    }

    /// Names in small letters and in order, values with single spaces, equal names joined.
    private static func canonicalHeaders(
        _ headers: [(name: String, value: String)]
    ) -> [(name: String, value: String)] {
        var values: [String: [String]] = [:]
        for header in headers {
            let name = header.name.lowercased()
            guard !unsignedHeaders.contains(name) else { continue }
            values[name, default: []].append(withSingleSpaces(header.value))
        }
        return values.map { (name: $0.key, value: $0.value.joined(separator: ",")) }
            .sorted { isBefore($0.name, $1.name) }
    }

    /// Trims white space and makes every run of it one space.
    private static func withSingleSpaces(_ value: String) -> String {
        let words = value.utf8.split { byte in
            byte == UInt8(ascii: " ") || (UInt8(ascii: "\t")...UInt8(ascii: "\r")).contains(byte)
        }
        return words.map { String(decoding: $0, as: UTF8.self) }.joined(separator: " ")
    }

    private static func canonicalQuery(_ query: [(name: String, value: String?)]) -> String {
        query.map { (name: $0.name, value: $0.value ?? "") }
            .sorted { left, right in
                left.name == right.name
                    ? isBefore(left.value, right.value) : isBefore(left.name, right.name)
            }
            .map { "\($0.name)=\($0.value)" }
            .joined(separator: "&")
    }

    /// The order of bytes; `String`'s own follows Unicode.
    private static func isBefore(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }

    private func canonicalPath(_ path: String) -> String {
        guard service != "s3" else { return path.isEmpty ? "/" : path }
        var names: [Substring.UTF8View] = []
        for name in path.utf8.split(separator: UInt8(ascii: "/")) {
            switch String(Substring(name)) {
            case ".": continue
            case "..": _ = names.popLast()
            default: names.append(Substring(name).utf8)
            }
        }
        let isFolder = path.utf8.last == UInt8(ascii: "/") && !names.isEmpty
        let bytes = names.joined(separator: [UInt8(ascii: "/")])
        return "/" + URIEncoding.encode(bytes, keepingSlash: true) + (isFolder ? "/" : "")
    }

    // MARK: - The signature

    private func signature(
        of text: String,
        day: Substring,
        credentials: S3Credentials
    ) -> String {
        var key = SymmetricKey(data: Array("AWS4\(credentials.secretAccessKey)".utf8))
        for part in [String(day), region, service, "aws4_request"] {
            key = SymmetricKey(
                data: HMAC<SHA256>.authenticationCode(for: Array(part.utf8), using: key)
            )
        }
        return Hexadecimal.text(
            HMAC<SHA256>.authenticationCode(for: Array(text.utf8), using: key)
        )
    }

    private static func sha256Hex(_ bytes: some Sequence<UInt8>) -> String {
        Hexadecimal.text(SHA256.hash(data: Array(bytes)))
    }
}

/// A request's target and headers as they are to be sent, byte for byte.
struct SignedRequest: Sendable {
    var pathAndQuery: String
    /// The caller's headers in their order, then those that signing added, in small letters.
    var headers: [(name: String, value: String)]
    /// What was signed, as a server shows it when it disagrees.
    var canonicalRequest: String

    /// The request target of a path and a query that are percent-encoded already.
    static func pathAndQuery(
        _ encodedPath: String,
        _ encodedQuery: [(name: String, value: String?)]
    ) -> String {
        let path = encodedPath.isEmpty ? "/" : encodedPath
        guard !encodedQuery.isEmpty else { return path }
        let items = encodedQuery.map { item in
            item.value.map { "\(item.name)=\($0)" } ?? item.name
        }
        return "\(path)?\(items.joined(separator: "&"))"
    }
}
