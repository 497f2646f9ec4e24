/// Where a bucket is served, and how its name and its keys go into a URL.
struct S3Endpoint: Sendable, Equatable {
    enum Scheme: String, Sendable {
        case http
        case https

        var defaultPort: Int { self == .http ? 80 : 443 }
    }

    /// Where the bucket's name stands.
    enum Style: String, Sendable {
        /// `https://host/bucket/key`.
        case path
        /// `https://bucket.host/key`.
        case virtualHost = "virtual-host"
    }

    var scheme: Scheme
    /// Name or address of the server, without the bucket; an IPv6 address without brackets.
    var host: String
    var port: Int
    var bucket: String
    var region: String
    var style: Style
}

extension S3Endpoint {
    /// A bucket at an endpoint as options and `AWS_ENDPOINT_URL` name it, or at AWS.
    ///
    /// - Parameters:
    ///   - url: `https://host:port`; `nil`: AWS's own for the region.
    ///   - bucket: 3 to 63 of the characters that a bucket's name may have.
    ///   - region: As signatures carry it.
    ///   - style: `nil`: in the host's name at AWS, in the path elsewhere.
    /// - Throws: `invalidArgument`, saying what is wrong.
    static func parse(
        url: String?,
        bucket: String,
        region: String,
        style: Style? = nil
    ) throws(CloudFSError) -> S3Endpoint {
        try check(bucket: bucket, region: region)
        let text = url ?? "https://s3.\(region).\(awsDomain(of: region))"
        guard let separator = text.firstRange(of: "://"),
            let scheme = Scheme(rawValue: text[..<separator.lowerBound].lowercased())
        else { throw invalid(text, "it must begin with http:// or https://") }
        var address = text[separator.upperBound...]
        if address.last == "/" { address.removeLast() }
        guard !address.contains(where: { "/?#@ %\\".contains($0) }), address.allSatisfy(\.isASCII)
        else { throw invalid(text, "it must be a host and perhaps a port, and nothing more") }
        let (host, port) = try split(address, scheme, text)
        // A name with dots is covered by no certificate for the names below a host.
        let isHostName = !(scheme == .https && bucket.contains("."))
        let atAWS = host.hasSuffix(".amazonaws.com") || host.hasSuffix(".amazonaws.com.cn")
        return S3Endpoint(
            scheme: scheme,
            host: host,
            port: port,
            bucket: bucket,
            region: region,
            style: style ?? (atAWS && isHostName ? .virtualHost : .path)
        )
    }

    /// AWS's regions in China are a cloud of their own.
    private static func awsDomain(of region: String) -> String {
        region.lowercased().hasPrefix("cn-") ? "amazonaws.com.cn" : "amazonaws.com"
    }

    private static func split(
        _ address: Substring,
        _ scheme: Scheme,
        _ text: String
    ) throws(CloudFSError) -> (host: String, port: Int) {
        var host = address
        var digits: Substring?
        if address.first == "[", let end = address.firstIndex(of: "]") {
            host = address[address.index(after: address.startIndex)..<end]
            let rest = address[address.index(after: end)...]
            guard rest.isEmpty || rest.first == ":" else { throw invalid(text, "its port is none") }
            digits = rest.isEmpty ? nil : rest.dropFirst()
        } else if let colon = address.lastIndex(of: ":") {
            host = address[..<colon]
            digits = address[address.index(after: colon)...]
            guard !host.contains(":") else {
                throw invalid(text, "an address with colons stands in brackets")
            }
        }
        guard !host.isEmpty else { throw invalid(text, "it names no host") }
        guard let digits else { return (host.lowercased(), scheme.defaultPort) }
        guard let port = S3Number.parse(digits.utf8), (1...65_535).contains(port) else {
            throw invalid(text, "its port is none")
        }
        return (host.lowercased(), Int(port))
    }

    private static func check(bucket: String, region: String) throws(CloudFSError) {
        let isBucket =
            (3...63).contains(bucket.utf8.count)
            && bucket.utf8.allSatisfy { byte in
                isWord(byte) || ".-_".utf8.contains(byte)
            } && bucket.utf8.first.map(isWord) ?? false
        guard isBucket else {
            throw CloudFSError(
                .invalidArgument,
                "\(S3ErrorMapping.shown(bucket)) cannot be the name of a bucket"
            )
        }
        guard !region.isEmpty, region.utf8.allSatisfy({ isWord($0) || "-_".utf8.contains($0) })
        else {
            throw CloudFSError(
                .invalidArgument,
                "\(S3ErrorMapping.shown(region)) cannot be the name of a region"
            )
        }
    }

    private static func isWord(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
            || (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(byte)
    }

    private static func invalid(_ url: String, _ reason: String) -> CloudFSError {
        CloudFSError(
            .invalidArgument,
            "the endpoint \(S3ErrorMapping.shown(url)) cannot be used: \(reason)"
        )
    }
}
