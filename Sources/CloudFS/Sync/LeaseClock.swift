/// How leases tell time: only by durations, since a clock's own moments mean nothing elsewhere.
struct LeaseClock: Sendable {
    /// Since the clock was taken; goes on while the machine sleeps.
    let elapsed: @Sendable () -> Duration
    /// Waits until that much has elapsed.
    let sleep: @Sendable (_ until: Duration) async throws -> Void

    /// - Parameter clock: `ContinuousClock` goes on while a Linux machine sleeps
    ///   (`CLOCK_BOOTTIME`); `Clocks.elapsed` does not.
    static func from(_ clock: some Clock<Duration>) -> LeaseClock {
        let start = clock.now
        return LeaseClock(
            elapsed: { start.duration(to: clock.now) },
            sleep: { try await clock.sleep(until: start.advanced(by: $0), tolerance: nil) }
        )
    }
}
