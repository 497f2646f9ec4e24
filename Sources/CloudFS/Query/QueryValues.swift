import Glibc

/// Sizes and times as people write them in a query.
enum QueryValues {
    /// `500`, `10M`, `10MiB` (powers of 1,024), `10MB` (powers of 1,000), `1.5G`.
    static func byteCount(_ text: String) -> Int64? {
        let digits = text.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
        guard digits.utf8.count <= 24, digits.first != ".", let number = Double(digits) else {
            return nil
        }
        let factors: [String: Double] = [
            "": 1, "b": 1,
            "k": 0x1p10, "m": 0x1p20, "g": 0x1p30, "t": 0x1p40, "p": 0x1p50,
            "kib": 0x1p10, "mib": 0x1p20, "gib": 0x1p30, "tib": 0x1p40, "pib": 0x1p50,
            "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "pb": 1e15,
        ]
        guard let factor = factors[text.dropFirst(digits.count).lowercased()] else { return nil }
        let bytes = number * factor
        guard bytes.isFinite, bytes < 0x1p63 else { return nil }
        return Int64(bytes)
    }

    /// The nanoseconds since 1970 that a text means, from the first to the last.
    ///
    /// A date is the whole day where this machine is, `2026-01` the month, `2026-01-31T18:00` the
    /// minute; `-7d` and the like are one moment.
    static func moments(_ text: String, now: Timestamp) -> ClosedRange<Int64>? {
        switch text.lowercased() {
        case "today": return day(now, 0)
        case "yesterday": return day(now, -1)
        case _ where text.hasPrefix("-"):
            return ago(text.dropFirst()).map { seconds in
                let moment = now + .seconds(-seconds)
                return moment.nanoseconds...moment.nanoseconds
            }
        default: return calendar(text)
        }
    }

    private static func ago(_ text: Substring) -> Int64? {
        let units: [Character: Int64] = [
            "s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800, "y": 31_556_952,
        ]
        guard let last = text.last, let unit = units[last],
            let number = number(text.dropLast(), 1...9),
            number <= 1_000_000_000
        else { return nil }
        let seconds = number * unit
        return seconds <= 8_000_000_000 ? seconds : nil
    }

    private static func day(_ now: Timestamp, _ offset: Int32) -> ClosedRange<Int64>? {
        var seconds = time_t(now.seconds)
        var fields = tm()
        localtime_r(&seconds, &fields)
        var first = tm()
        (first.tm_year, first.tm_mon) = (fields.tm_year, fields.tm_mon)
        first.tm_mday = fields.tm_mday + offset
        var next = first
        next.tm_mday += 1
        return period(first, next)
    }

    private static func calendar(_ text: String) -> ClosedRange<Int64>? {
        let halves = text.split(separator: "T", maxSplits: 1, omittingEmptySubsequences: false)
        let date = halves[0].split(separator: "-", omittingEmptySubsequences: false)
        guard (1...3).contains(date.count), let year = number(date[0], 4...4), year >= 1_678,
            year <= 2_261
        else { return nil }
        var first = tm()
        first.tm_year = Int32(year) - 1_900
        first.tm_mday = 1
        var next = first
        next.tm_year += 1
        if date.count > 1 {
            guard let month = number(date[1], 2...2), (1...12).contains(month) else { return nil }
            first.tm_mon = Int32(month) - 1
            next = first
            next.tm_mon += 1
        }
        if date.count > 2 {
            guard let day = number(date[2], 2...2), (1...31).contains(day) else { return nil }
            first.tm_mday = Int32(day)
            next = first
            next.tm_mday += 1
        }
        guard halves.count > 1 else { return period(first, next) }
        guard date.count == 3, let clock = clock(halves[1]) else { return nil }
        (first.tm_hour, first.tm_min, first.tm_sec) = (clock.hour, clock.minute, clock.second ?? 0)
        next = first
        if clock.second == nil { next.tm_min += 1 } else { next.tm_sec += 1 }
        return period(first, next)
    }

    private static func clock(_ text: Substring) -> (hour: Int32, minute: Int32, second: Int32?)? {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let numbers = parts.compactMap { number($0, 2...2) }
        guard (2...3).contains(parts.count), numbers.count == parts.count, numbers[0] < 24,
            numbers[1] < 60, numbers.count < 3 || numbers[2] < 60
        else { return nil }
        return (
            Int32(numbers[0]), Int32(numbers[1]), numbers.count > 2 ? Int32(numbers[2]) : nil
        )
    }

    private static func period(_ first: tm, _ next: tm) -> ClosedRange<Int64>? {
        func start(_ fields: tm) -> Int64? {
            var fields = fields
            // Whether summer time was in force is for the C library to say.
            fields.tm_isdst = -1
            let (nanoseconds, isOver) = Int64(mktime(&fields))
                .multipliedReportingOverflow(by: 1_000_000_000)
            return isOver ? nil : nanoseconds
        }
        guard let low = start(first), let high = start(next), low < high else { return nil }
        return low...(high - 1)
    }

    private static func number(_ text: Substring, _ length: ClosedRange<Int>) -> Int64? {
        guard length.contains(text.utf8.count),
            text.utf8.allSatisfy({ (UInt8(ascii: "0")...UInt8(ascii: "9")).contains($0) })
        else { return nil }
        return Int64(text)
    }
}
