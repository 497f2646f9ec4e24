/// A moment as the control API writes it: ISO 8601 in UTC, `2026-11-20T14:30:05.123456789Z`.
///
/// Text, because nanoseconds since 1970 do not fit the numbers of JSON readers that know only
/// doubles; written by hand, because the shared values need no Foundation.
public struct WireTime: Codable, Sendable, Hashable, Comparable, CustomStringConvertible {
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    public let nanoseconds: Int64

    public init(nanoseconds: Int64) {
        self.nanoseconds = nanoseconds
    }

    /// Reads `YYYY-MM-DDTHH:MM:SS[.fraction]Z`; `nil` for anything else.
    public init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes.last == UInt8(ascii: "Z"),
            bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"),
            bytes[16] == UInt8(ascii: ":"),
            let year = Self.number(bytes[0..<4]), let month = Self.number(bytes[5..<7]),
            let day = Self.number(bytes[8..<10]), let hour = Self.number(bytes[11..<13]),
            let minute = Self.number(bytes[14..<16]), let second = Self.number(bytes[17..<19]),
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second <= 60, let fraction = Self.fraction(bytes[19..<(bytes.count - 1)])
        else { return nil }
        let days = Self.days(year: year, month: month, day: day)
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
        // A second that has begun before the first moment, and ends after it, counts from its end.
        let (whole, rest) =
            seconds < 0 ? (seconds + 1, fraction - 1_000_000_000) : (seconds, fraction)
        let (product, isTooFar) = whole.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isOver) = product.addingReportingOverflow(rest)
        guard !isTooFar, !isOver else { return nil }
        nanoseconds = sum
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let time = WireTime(text) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "not a time in UTC: \(text)"
            )
        }
        self = time
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(description)
    }

    public var description: String {
        let (seconds, fraction) = Self.floored(nanoseconds, by: 1_000_000_000)
        let (days, ofDay) = Self.floored(seconds, by: 86_400)
        let date = Self.date(days: days)
        let day = "\(Self.padded(date.year, 4))-\(Self.padded(date.month))-\(Self.padded(date.day))"
        let time = [ofDay / 3_600, ofDay / 60 % 60, ofDay % 60].map { Self.padded($0) }
            .joined(separator: ":")
        return fraction == 0 ? "\(day)T\(time)Z" : "\(day)T\(time).\(Self.padded(fraction, 9))Z"
    }

    public static func < (left: WireTime, right: WireTime) -> Bool {
        left.nanoseconds < right.nanoseconds
    }

    // MARK: - Digits

    private static func padded(_ value: Int64, _ width: Int = 2) -> String {
        let digits = String(value)
        return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
    }

    private static func number(_ digits: ArraySlice<UInt8>) -> Int64? {
        var value: Int64 = 0
        for digit in digits {
            guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(digit) else { return nil }
            value = value * 10 + Int64(digit - UInt8(ascii: "0"))
        }
        return value
    }

    /// Nanoseconds of `.fraction`; an empty one is 0, digits beyond the ninth are dropped.
    private static func fraction(_ bytes: ArraySlice<UInt8>) -> Int64? {
        guard let point = bytes.first else { return 0 }
        guard point == UInt8(ascii: "."), bytes.count > 1,
            number(bytes.dropFirst().prefix(18)) != nil
        else { return nil }
        let kept = Array(bytes.dropFirst().prefix(9))
        return number((kept + Array(repeating: UInt8(ascii: "0"), count: 9 - kept.count))[...])
    }

    // MARK: - Calendar

    private static func floored(_ value: Int64, by divisor: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: divisor)
        return remainder < 0 ? (quotient - 1, remainder + divisor) : (quotient, remainder)
    }

    /// Days from 1970-01-01 to a date of the Gregorian calendar.
    ///
    /// Years are counted from March, so that the leap day is the last of its year.
    private static func days(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shiftedYear = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = floored(shiftedYear, by: 400)
        let monthFromMarch = (month + 9) % 12
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func date(days: Int64) -> (year: Int64, month: Int64, day: Int64) {
        let (era, dayOfEra) = floored(days + 719_468, by: 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1_460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * monthFromMarch + 2) / 5 + 1
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        let year = yearOfEra + era * 400
        return (month <= 2 ? year + 1 : year, month, day)
    }
}
