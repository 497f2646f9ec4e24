/// How long a drive has had no daemon, for those who wait until another one takes over.
///
/// It counts from the loss: of a daemon that has nothing to tell, nothing is heard either.
public struct DaemonAbsence: Sendable {
    private let patience: Duration
    private let now: @Sendable () -> ContinuousClock.Instant
    /// When it was found to be away; `nil` while it is there.
    private var since: ContinuousClock.Instant?

    /// - Parameters:
    ///   - patience: How long a daemon may be away that is replaced.
    ///   - now: The time.
    public init(
        patience: Duration = .seconds(30),
        now: @escaping @Sendable () -> ContinuousClock.Instant = { ContinuousClock.now }
    ) {
        self.patience = patience
        self.now = now
    }

    /// Notes that the daemon has told something.
    public mutating func end() {
        since = nil
    }

    /// Notes that the daemon does not answer, or not any more.
    ///
    /// - Returns: Whether it has been away for longer than it is waited for.
    public mutating func isTooLong() -> Bool {
        let now = now()
        let start = since ?? now
        since = start
        return now - start > patience
    }
}
