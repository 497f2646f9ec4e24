import Synchronization

/// A limit of bytes per second that all transfers share.
///
/// Each piece reserves the time it takes, after everything that was reserved before it. Large
/// pieces are reserved in small portions, so that several transfers advance side by side and one
/// that is cancelled has taken no more than a moment from the others.
public final class BandwidthLimiter: Sendable {
    private let bytesPerSecond: Int64
    private let portionByteCount: Int
    private let elapsed: @Sendable () -> Duration
    private let sleep: @Sendable (_ until: Duration) async throws -> Void

    /// Until when the time is given away, counted from the limiter's beginning.
    private let reserved = Mutex(Duration.zero)

    /// How much time may be used at once after a rest.
    private static let burst = Duration.milliseconds(50)
    /// Portions a second; also what a cancelled transfer takes with it.
    private static let portionsPerSecond: Int64 = 20

    /// - Parameters:
    ///   - bytesPerSecond: The limit; at least 1.
    ///   - clock: What time is measured and waited with.
    public init(
        bytesPerSecond: Int64,
        clock: any Clock<Duration> = ContinuousClock()
    ) {
        precondition(bytesPerSecond > 0, "a limit of nothing would wait for ever")
        self.bytesPerSecond = bytesPerSecond
        let portion = max(1, bytesPerSecond / Self.portionsPerSecond)
        portionByteCount = Int(clamping: portion)
        (elapsed, sleep) = Self.functions(of: clock)
    }

    /// Waits until `byteCount` bytes may be moved.
    ///
    /// - Throws: `cancelled`.
    public func take(_ byteCount: Int) async throws(CloudFSError) {
        var left = byteCount
        while left > 0 {
            let portion = min(left, portionByteCount)
            left -= portion
            try await wait(for: reserve(portion))
        }
    }

    /// Gives a portion its time and returns when it begins.
    private func reserve(_ byteCount: Int) -> Duration {
        let duration = Duration.seconds(1) * (Double(byteCount) / Double(bytesPerSecond))
        return reserved.withLock { reserved in
            // Time nobody wanted is lost, but for a little.
            let start = max(reserved, elapsed() - Self.burst)
            reserved = start + duration
            return reserved
        }
    }

    private func wait(for moment: Duration) async throws(CloudFSError) {
        do {
            try Task.checkCancellation()
            if moment > elapsed() { try await sleep(moment) }
        } catch {
            throw CloudFSError(.cancelled, "a transfer was cancelled")
        }
    }

    /// A clock's own type of moments is not known here; durations since the beginning are.
    private static func functions<C: Clock>(
        of clock: C
    ) -> (@Sendable () -> Duration, @Sendable (Duration) async throws -> Void)
    where C.Duration == Duration {
        let start = clock.now
        return (
            { start.duration(to: clock.now) },
            { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
        )
    }
}
