/// What proves to an S3 server who asks.
///
/// Its description and its mirror hide the secrets, so that no log or crash report shows them.
struct S3Credentials: Sendable, Equatable {
    var accessKeyID: String
    var secretAccessKey: String
    /// Comes with temporary credentials, and goes into every request made with them.
    var sessionToken: String?
    /// When the server stops accepting them; `nil`: not known or never.
    var expiration: Timestamp?

    init(
        accessKeyID: String,
        secretAccessKey: String,
        sessionToken: String? = nil,
        expiration: Timestamp? = nil
    ) {
        self.accessKeyID = accessKeyID
        self.secretAccessKey = secretAccessKey
        self.sessionToken = sessionToken
        self.expiration = expiration
    }
}

extension S3Credentials: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    var description: String {
        // The end of a key's name tells keys apart, and is what consoles show too.
        let shown = accessKeyID.count > 8 ? "…" + accessKeyID.suffix(4) : "…"
        return "S3 credentials \(shown)\(sessionToken == nil ? "" : ", temporary")"
    }

    var debugDescription: String { description }

    var customMirror: Mirror {
        Mirror(self, children: [("credentials", description)])
    }
}

/// Where requests get their credentials from, each time they are signed.
protocol S3CredentialSource: Sendable {
    /// The credentials to sign with now; `nil`: the request goes out unsigned.
    func credentials() async throws(CloudFSError) -> S3Credentials?

    /// Says that a server refused `rejected`, so that the next call looks for newer ones.
    ///
    /// Credentials that were replaced in the meantime stay: of many requests refused together only
    /// the first makes the source look again. `nil` forgets whatever there is.
    func invalidate(_ rejected: S3Credentials?)
}

extension S3CredentialSource {
    /// Makes the next call look for credentials again, whatever there is.
    func invalidate() { invalidate(nil) }
}

/// Credentials that never change, or none: requests are not signed.
struct S3FixedCredentials: S3CredentialSource {
    /// Requests go out unsigned, as public buckets take them.
    static let anonymous = S3FixedCredentials(nil)

    private let fixed: S3Credentials?

    init(_ fixed: S3Credentials?) {
        self.fixed = fixed
    }

    func credentials() async throws(CloudFSError) -> S3Credentials? { fixed }

    func invalidate(_ rejected: S3Credentials?) {
        // There is nowhere to look for others.
    }
}
