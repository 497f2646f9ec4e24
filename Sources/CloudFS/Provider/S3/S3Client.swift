import Synchronization

/// The requests of S3 that CloudFS makes, each with its retries, its deadline and its checks.
///
/// What an answer says is believed only where it fits the question: range, length, tag and prefix
/// are compared. All errors are `CloudFSError`, with an `S3Failure` as cause where the server
/// answered and an `HTTPFailure` where it did not.
final class S3Client: Sendable {
    /// What a client learned of its server.
    struct Learned: Sendable {
        var region: String
        /// What is added to this machine's clock in signatures.
        var clockOffset = Duration.zero
        var serverDate: Timestamp?
        var serverDateReadAt = Duration.zero
        var hasNotedSkew = false
        /// Whether it does not delete many objects at once.
        var lacksBatches = false
    }

    let endpoint: S3Endpoint
    let limits: S3Limits
    let clocks: Clocks
    let transport: HTTPTransport
    let credentials: any S3CredentialSource
    let note: @Sendable (S3Note) -> Void
    let learned: Mutex<Learned>

    init(
        endpoint: S3Endpoint,
        credentials: any S3CredentialSource,
        transport: HTTPTransport,
        clocks: Clocks = .system,
        limits: S3Limits = S3Limits(),
        note: @escaping @Sendable (S3Note) -> Void = { _ in }
    ) {
        self.endpoint = endpoint
        self.limits = limits
        self.clocks = clocks
        self.transport = transport
        self.credentials = credentials
        self.note = note
        learned = Mutex(Learned(region: endpoint.region))
    }

    /// The region requests are signed for now; another than the endpoint's once a server said so.
    var region: String { learned.withLock { $0.region } }

    /// The last `Date` the server sent, as it stood there.
    var lastServerDate: Timestamp? { learned.withLock { $0.serverDate } }

    /// The server's time of day, going by the last `Date` it sent; `nil` before the first answer.
    var serverNow: Timestamp? {
        let now = clocks.elapsed()
        return learned.withLock { learned in
            learned.serverDate.map { $0 + (now - learned.serverDateReadAt) }
        }
    }
}
