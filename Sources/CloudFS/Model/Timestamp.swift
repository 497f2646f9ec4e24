/// A moment: nanoseconds since 1970-01-01 00:00 UTC, from the year 1678 to 2262.
public struct Timestamp: Hashable, Sendable, Comparable, CustomStringConvertible {
    public let nanoseconds: Int64

    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// The moment of a `timespec`, clamped to what can be represented.
    public init(seconds: Int64, nanoseconds: Int64) {
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else {
            self.nanoseconds = seconds < 0 ? .min : .max
            return
        }
        let (sum, sumOverflow) = product.addingReportingOverflow(nanoseconds)
        self.nanoseconds = sumOverflow ? (seconds < 0 ? .min : .max) : sum
    }

    /// Whole seconds, rounded towards the past, as `timespec` wants them.
    public var seconds: Int64 {
        let (quotient, remainder) = nanoseconds.quotientAndRemainder(dividingBy: 1_000_000_000)
        return remainder < 0 ? quotient - 1 : quotient
    }

    /// The nanoseconds beyond `seconds`: 0 to 999,999,999.
    public var nanosecondsOfSecond: Int64 {
        // `seconds` in nanoseconds may be too early to be represented.
        let remainder = nanoseconds % 1_000_000_000
        return remainder < 0 ? remainder + 1_000_000_000 : remainder
    }

    public var description: String { "\(seconds).\(nanosecondsOfSecond)" }

    public static func < (left: Timestamp, right: Timestamp) -> Bool {
        left.nanoseconds < right.nanoseconds
    }
}

extension Timestamp {
    /// The moment that much later; clamped to what can be represented.
    static func + (moment: Timestamp, duration: Duration) -> Timestamp {
        let (seconds, attoseconds) = duration.components
        let (scaled, overflow) = seconds.multipliedReportingOverflow(by: 1_000_000_000)
        guard !overflow else { return Timestamp(nanoseconds: seconds < 0 ? .min : .max) }
        let nanoseconds = scaled + attoseconds / 1_000_000_000
        let (sum, sumOverflow) = moment.nanoseconds.addingReportingOverflow(nanoseconds)
        return Timestamp(nanoseconds: sumOverflow ? (nanoseconds < 0 ? .min : .max) : sum)
    }

    /// The time from `earlier` until this moment.
    func since(_ earlier: Timestamp) -> Duration {
        .nanoseconds(nanoseconds.subtractingReportingOverflow(earlier.nanoseconds).partialValue)
    }
}
