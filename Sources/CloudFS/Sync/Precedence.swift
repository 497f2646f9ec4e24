import Synchronization

/// Lets work that nobody waits for make room for programs that use the drive.
///
/// Both need the same cores and the catalog's one writer. Background work asks between small
/// pieces; it is held back, but never stopped.
final class Precedence: Sendable {
    /// When a program last asked for something, in nanoseconds of `Clocks.elapsed`.
    private let lastUse = Atomic<Int64>(.min)
    private let clocks: Clocks

    /// How long after a request the next one is expected.
    private static let rest = Duration.milliseconds(10)
    /// How long one piece of background work waits at most.
    private static let limit = Duration.milliseconds(200)

    init(clocks: Clocks) {
        self.clocks = clocks
    }

    /// Notes a request of a program.
    func noteUse() {
        lastUse.store(Self.nanoseconds(clocks.elapsed()), ordering: .relaxed)
    }

    /// Waits until no program has asked for anything for a moment, or for long enough.
    func giveWay() async {
        let end = clocks.elapsed() + Self.limit
        while isUsed, clocks.elapsed() < end, !Task.isCancelled {
            // Cancelled, there is nothing to make room for.
            try? await Task.sleep(for: Self.rest)
        }
    }

    private var isUsed: Bool {
        let last = lastUse.load(ordering: .relaxed)
        return last != .min
            && Self.nanoseconds(clocks.elapsed()) - last < Self.nanoseconds(Self.rest)
    }

    private static func nanoseconds(_ duration: Duration) -> Int64 {
        let (seconds, attoseconds) = duration.components
        return seconds * 1_000_000_000 + attoseconds / 1_000_000_000
    }
}
