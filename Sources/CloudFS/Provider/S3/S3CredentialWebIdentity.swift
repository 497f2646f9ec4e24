/// The request that turns a token of another identity provider into credentials.
struct S3WebIdentityRequest: Sendable, CustomStringConvertible {
    /// Sends a request once and gives its answer, whatever its status; has its own deadline.
    typealias Exchange =
        @Sendable (S3WebIdentityRequest) async throws(CloudFSError) -> S3WebIdentityAnswer

    /// `POST` it there, unsigned, and follow no redirect: the body holds the token.
    var url: String
    var headers: [(name: String, value: String)]
    var body: [UInt8]

    var description: String { "web identity request to \(url)" }
}

extension S3WebIdentityRequest: CustomReflectable {
    var customMirror: Mirror { Mirror(self, children: [("url", url)]) }
}

/// What the security token service answered.
struct S3WebIdentityAnswer: Sendable, CustomStringConvertible {
    /// An answer is a small document; a longer one is none.
    static let byteLimit = 64 * 1_024

    var status: Int
    var body: [UInt8]

    var description: String { "web identity answer \(status)" }
}

extension S3WebIdentityAnswer: CustomReflectable {
    var customMirror: Mirror { Mirror(self, children: [("status", status)]) }
}

/// A role that is taken on by showing a token: what AssumeRoleWithWebIdentity needs.
struct S3CredentialWebIdentity: Sendable, Equatable {
    var roleARN: String
    var tokenPath: String
    var sessionName: String
    /// Where the security token service is.
    var url: String

    /// - Parameters:
    ///   - roleARN: The role to take on.
    ///   - tokenPath: The file with the token, read anew for each request: others renew it.
    ///   - sessionName: Shown in the service's records.
    ///   - environment: May say where the service is.
    ///   - profile: May say so too.
    init(
        roleARN: String,
        tokenPath: String,
        sessionName: String?,
        environment: [String: String],
        profile: S3Profile
    ) throws(CloudFSError) {
        self.roleARN = roleARN
        self.tokenPath = tokenPath
        self.sessionName = sessionName ?? "cloudfs"
        let settings = S3ProfileSettings(environment: environment, profile: profile)
        url = try Self.url(
            configured: S3ProfileSettings.endpointURL(
                of: "STS",
                environment: environment,
                profile: profile
            ),
            region: settings.region
        )
    }

    private static func url(
        configured: String?,
        region: String?
    ) throws(CloudFSError) -> String {
        if let configured { return configured.hasSuffix("/") ? configured : configured + "/" }
        guard let region else { return "https://sts.amazonaws.com/" }
        let isName = region.utf8.allSatisfy { byte in
            (0x61...0x7a).contains(byte) || (0x30...0x39).contains(byte) || byte == 0x2d
        }
        guard isName else {
            throw CloudFSError(.invalidArgument, "\(region) is no region that AWS could have")
        }
        let isChinese = region.hasPrefix("cn-")
        return "https://sts.\(region).amazonaws.com\(isChinese ? ".cn" : "")/"
    }

    // MARK: - The exchange

    /// The request with the token as it is now; blocks, but briefly.
    ///
    /// - Throws: `unauthenticated` when there is no token; what is wrong with its file.
    func request() throws(CloudFSError) -> S3WebIdentityRequest {
        let limit = 20_000
        guard let bytes = try S3ProfileFile(path: tokenPath).read(limit: limit) else {
            throw CloudFSError(
                .unauthenticated,
                "there is no web identity token at \(tokenPath)"
            )
        }
        let token = bytes.split { byte in
            byte == 0x20 || (0x09...0x0d).contains(byte)
        }
        guard let only = token.first, token.count == 1 else {
            throw CloudFSError(.unauthenticated, "\(tokenPath) holds no web identity token")
        }
        let fields: [(String, [UInt8])] = [
            ("Action", Array("AssumeRoleWithWebIdentity".utf8)),
            ("Version", Array("2011-06-15".utf8)), ("RoleArn", Array(roleARN.utf8)),
            ("RoleSessionName", Array(sessionName.utf8)), ("WebIdentityToken", Array(only)),
        ]
        let form = fields.map { "\($0)=\(URIEncoding.encode($1, keepingSlash: false))" }
        return S3WebIdentityRequest(
            url: url,
            headers: [
                (name: "content-type", value: "application/x-www-form-urlencoded"),
                (name: "accept", value: "application/xml"),
            ],
            body: Array(form.joined(separator: "&").utf8)
        )
    }

    /// The credentials in the service's answer.
    ///
    /// - Throws: `unauthenticated` with the service's reason; `offline` when it may yet agree.
    func credentials(in answer: S3WebIdentityAnswer) throws(CloudFSError) -> S3Credentials {
        let host = url.split(separator: "/").dropFirst().first.map(String.init) ?? url
        guard answer.body.count <= S3WebIdentityAnswer.byteLimit,
            let text = String(validating: answer.body, as: UTF8.self)
        else {
            throw CloudFSError(.offline, "\(host) answered nonsense about the role \(roleARN)")
        }
        guard (200..<300).contains(answer.status) else {
            throw refusal(answer.status, text, host: host)
        }
        guard
            let credentials = try S3Credentials(
                accessKeyID: Self.value(of: "AccessKeyId", in: text),
                secretAccessKey: Self.value(of: "SecretAccessKey", in: text),
                sessionToken: Self.value(of: "SessionToken", in: text),
                expiration: Self.value(of: "Expiration", in: text).flatMap(S3Time.iso8601),
                source: "the answer of \(host)"
            )
        else {
            throw CloudFSError(.offline, "\(host) answered without credentials for \(roleARN)")
        }
        return credentials
    }

    private func refusal(_ status: Int, _ text: String, host: String) -> CloudFSError {
        let code = Self.value(of: "Code", in: text).map { String($0.prefix(100)) }
        let reason = code ?? "status \(status)"
        if status >= 500 || status == 429 || code == "IDPCommunicationError" {
            return CloudFSError(.offline, "\(host) cannot give credentials now (\(reason))")
        }
        return CloudFSError(
            .unauthenticated,
            "\(host) refuses the role \(roleARN) for the token in \(tokenPath) (\(reason))"
        )
    }

    /// The text of the first element of that name that holds nothing but text.
    ///
    /// All that is wanted of the answer are four such elements, so no parser is needed: nothing
    /// is expanded but the five entities of XML, and nothing nests.
    private static func value(of name: String, in text: String) -> String? {
        let bytes = Array(text.utf8)
        guard let start = bytes.firstRange(of: Array("<\(name)>".utf8)) else { return nil }
        let rest = bytes[start.upperBound...]
        guard let end = rest.firstIndex(of: UInt8(ascii: "<")),
            bytes[end...].starts(with: "</\(name)>".utf8)
        else { return nil }
        var value = String(decoding: rest[..<end], as: UTF8.self)
        for (entity, character) in [
            ("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&"),
        ] {
            value = value.replacing(entity, with: character)
        }
        let trimmed = value.drop(while: \.isWhitespace)
        return trimmed.isEmpty ? nil : String(trimmed)
    }
}
