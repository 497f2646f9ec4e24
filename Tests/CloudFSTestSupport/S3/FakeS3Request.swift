/// What a request wants of an S3 server.
public enum FakeS3RequestKind: String, Sendable, CaseIterable {
    case listBuckets
    case createBucket
    case headBucket
    case deleteBucket
    /// Version 1 or 2.
    case list
    case head
    case get
    case put
    case copy
    case delete
    case deleteBatch
    case createUpload
    case uploadPart
    case copyPart
    case listParts
    case listUploads
    case completeUpload
    case abortUpload
    /// Anything else about a bucket or an object: `?location`, `?acl`, `?versioning`.
    case other

    var isWrite: Bool {
        switch self {
        case .listBuckets, .headBucket, .list, .head, .get, .listParts, .listUploads, .other: false
        case .createBucket, .deleteBucket, .put, .copy, .delete, .deleteBatch, .createUpload,
            .uploadPart, .copyPart, .completeUpload, .abortUpload:
            true
        }
    }
}

/// A request as a `FakeS3Server` got it; kept for tests to look at.
public struct FakeS3Request: Sendable {
    /// Counted from 1 over all connections of a server.
    public internal(set) var number = 0
    /// Which connection it came on, counted from 1.
    public internal(set) var connection = 0
    public let kind: FakeS3RequestKind
    public let method: String
    /// Path and query as they were sent.
    public let target: String
    /// Empty if the request is not about a bucket.
    public let bucket: String
    /// Empty if the request is about no single object.
    public let key: FakeS3Key
    /// Decoded, but perhaps no valid text.
    let parameters: [(name: String, value: [UInt8])]
    public let headers: [(name: String, value: String)]
    /// The bytes of the body that arrived.
    public internal(set) var bodyByteCount: Int64 = 0
    /// The status of the answer; `nil` before it, or if there was none.
    public internal(set) var status: Int?

    /// The decoded parameters of the query, in their order.
    public var query: [(name: String, value: String)] {
        parameters.map { ($0.name, String(decoding: $0.value, as: UTF8.self)) }
    }

    /// The decoded value of the first query parameter of that name; empty if it has none.
    public func parameter(_ name: String) -> String? {
        parameterBytes(name).map { String(decoding: $0, as: UTF8.self) }
    }

    func parameterBytes(_ name: String) -> [UInt8]? {
        parameters.first { $0.name == name }?.value
    }

    /// The value of the first header of that name, whatever its case.
    public func header(_ name: String) -> String? {
        let name = name.lowercased()
        return headers.first { $0.name.lowercased() == name }?.value
    }

    /// What the signature or the presigned address says: access key, date, region, service.
    public var credentialScope: [String]? {
        let credential: Substring?
        if let header = header("authorization"),
            let start = header.firstRange(of: "Credential=")
        {
            credential = header[start.upperBound...].prefix { $0 != "," && $0 != " " }
        } else {
            credential = parameter("X-Amz-Credential").map { $0[...] }
        }
        return credential?.split(separator: "/", omittingEmptySubsequences: false).map(String.init)
    }
}

extension FakeS3Request {
    /// Reads a request's head; `nil` if its address is broken.
    init?(
        method: String,
        target: String,
        headers: [(name: String, value: String)],
        virtualHostDomain: String
    ) {
        let parts = target.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        guard let path = FakeS3Encoding.decoded(parts[0]), path.first == UInt8(ascii: "/"),
            let parameters = Self.parameters(parts.count > 1 ? parts[1] : "")
        else { return nil }
        var rest = path.dropFirst()
        func value(_ name: String) -> String? {
            headers.first { $0.name.lowercased() == name }?.value
        }
        let host = (value("host") ?? "").prefix { $0 != ":" }
        if !virtualHostDomain.isEmpty, host.hasSuffix("." + virtualHostDomain) {
            bucket = String(host.dropLast(virtualHostDomain.utf8.count + 1))
        } else {
            bucket = String(decoding: rest.prefix { $0 != UInt8(ascii: "/") }, as: UTF8.self)
            rest = rest.drop { $0 != UInt8(ascii: "/") }.dropFirst()
        }
        key = FakeS3Key(Array(rest))
        kind = Self.kind(
            method: method,
            isBucket: !bucket.isEmpty,
            isObject: !rest.isEmpty,
            has: { name in parameters.contains { $0.name == name } },
            isCopy: value("x-amz-copy-source") != nil
        )
        self.method = method
        self.target = target
        self.parameters = parameters
        self.headers = headers
    }

    private static func parameters(_ text: Substring) -> [(name: String, value: [UInt8])]? {
        var parameters: [(name: String, value: [UInt8])] = []
        for pair in text.split(separator: "&") {
            let parts = pair.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            guard let name = FakeS3Encoding.decoded(parts[0], plusAsSpace: true),
                let value = FakeS3Encoding.decoded(
                    parts.count > 1 ? parts[1] : "",
                    plusAsSpace: true
                )
            else { return nil }
            parameters.append((String(decoding: name, as: UTF8.self), value))
        }
        return parameters
    }

    private static func kind(
        method: String,
        isBucket: Bool,
        isObject: Bool,
        has: (String) -> Bool,
        isCopy: Bool
    ) -> FakeS3RequestKind {
        guard isBucket else { return method == "GET" ? .listBuckets : .other }
        guard isObject else { return bucketKind(method: method, has: has) }
        let others = ["acl", "tagging", "retention", "legal-hold", "torrent", "attributes"]
        if others.contains(where: has) { return .other }
        switch (method, has("uploadId")) {
        case ("GET", true): return .listParts
        case ("GET", false): return .get
        case ("HEAD", _): return .head
        case ("PUT", true): return isCopy ? .copyPart : .uploadPart
        case ("PUT", false): return isCopy ? .copy : .put
        case ("DELETE", true): return .abortUpload
        case ("DELETE", false): return .delete
        case ("POST", true): return .completeUpload
        case ("POST", false): return has("uploads") ? .createUpload : .other
        default: return .other
        }
    }

    private static func bucketKind(method: String, has: (String) -> Bool) -> FakeS3RequestKind {
        let others = [
            "acl", "cors", "encryption", "lifecycle", "location", "logging", "notification",
            "object-lock", "policy", "replication", "requestPayment", "tagging", "versioning",
            "versions", "website",
        ]
        if others.contains(where: has) { return .other }
        switch method {
        case "GET": return has("uploads") ? .listUploads : .list
        case "HEAD": return .headBucket
        case "PUT": return .createBucket
        case "DELETE": return .deleteBucket
        case "POST": return has("delete") ? .deleteBatch : .other
        default: return .other
        }
    }
}
