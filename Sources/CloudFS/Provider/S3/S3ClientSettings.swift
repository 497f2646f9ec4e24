/// The bounds of one client: no request goes without.
struct S3Limits: Sendable {
    /// For requests without a body worth mentioning, with all their retries.
    var metadata: Duration = .seconds(30)
    /// For requests that carry bytes, beside the time their bytes take; for what is sent, from
    /// its answer on.
    var data: Duration = .seconds(60)
    /// What is expected at least of a link, in bytes per second; what is sent goes on more slowly
    /// too, but is then not repeated.
    var slowestRate: Int64 = 50_000
    /// For copies and completions, which a server does with all the bytes before it answers.
    var serverWork: Duration = .seconds(600)
    /// Until the first byte of an answer.
    var firstByte: Duration = .seconds(20)
    /// Without any byte in either direction.
    var idle: Duration = .seconds(20)
    /// How often one request is sent.
    var attempts = 8
    /// How often a connection is tried: who waits for a machine without network should hear soon.
    var connectAttempts = 3
    var backoff = Backoff(first: .milliseconds(100), longest: .seconds(5), certainPart: 0.5)
    /// The longest wait that a server's `Retry-After` is granted.
    var longestRetryAfter: Duration = .seconds(20)
}

/// What a client does by itself and its owner may want to log.
enum S3Note: Sendable, Equatable {
    case retried(method: String, attempt: Int, reason: String)
    /// The server's clock differs by more than it tolerates; its time is used from now on.
    case clockSkew(Duration)
    case regionLearned(String)
    case credentialsRefreshed
}
