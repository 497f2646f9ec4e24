/// When a change in the outbox is tried again, and whether the user has to do something first.
struct RetrySchedule: Sendable {
    /// What follows a failed attempt.
    struct Decision: Hashable, Sendable {
        var delay: Duration
        /// Whether trying again cannot help until somebody acts, so that it must be seen.
        var needsUser: Bool
    }

    /// How long somebody's action can go unnoticed.
    static let userInterval = Duration.seconds(300)

    // At least half of each wait is certain: an upload may be large, and its cloud in trouble.
    private let backoff = Backoff(
        first: .seconds(1),
        longest: .seconds(300),
        certainPart: 0.5
    )

    /// No cloud is spared by waiting for a local disk, and its user waits for each minute of it.
    private let localBackoff = Backoff(
        first: .seconds(1),
        longest: .seconds(60),
        certainPart: 0.5
    )

    /// The decision after `failureCount` failed attempts in a row, the last with `code`.
    func decision(
        after code: CloudFSError.Code,
        failureCount: Int,
        using random: inout some RandomNumberGenerator
    ) -> Decision {
        guard !Self.needsUser(code) else {
            return Decision(delay: Self.userInterval, needsUser: true)
        }
        let delay = (Self.isLocal(code) ? localBackoff : backoff).delay(
            afterFailures: failureCount,
            using: &random
        )
        return Decision(delay: delay, needsUser: false)
    }

    /// Whether a disk, a limit or a program of this machine is to blame: no cloud far away says
    /// these.
    private static func isLocal(_ code: CloudFSError.Code) -> Bool {
        switch code {
        case .diskFull, .diskQuotaExceeded, .tooManyOpen, .lockHeld, .internalFailure: true
        default: false
        }
    }

    /// Whether only a person can make such an attempt succeed.
    static func needsUser(_ code: CloudFSError.Code) -> Bool {
        switch code {
        case .unauthenticated, .quotaExceeded, .denied, .notPermitted, .invalidName, .nameTooLong,
            .tooLarge, .readOnly, .unsupported:
            true
        default:
            false
        }
    }
}
