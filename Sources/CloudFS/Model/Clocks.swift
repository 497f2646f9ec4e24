import Glibc

/// Reads the clocks.
///
/// Tests give the engine others.
struct Clocks: Sendable {
    /// The time of day, as files carry it.
    var now: @Sendable () -> Timestamp
    /// Time since some fixed moment, which never goes back; for deadlines and pacing.
    var elapsed: @Sendable () -> Duration

    static let system = Clocks(
        now: {
            var time = timespec()
            clock_gettime(CLOCK_REALTIME, &time)
            return Timestamp(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
        },
        elapsed: {
            var time = timespec()
            clock_gettime(CLOCK_MONOTONIC, &time)
            return .seconds(time.tv_sec) + .nanoseconds(time.tv_nsec)
        }
    )
}
