/// The forms in which S3 servers, signatures and files with credentials write times.
enum S3Time {
    // MARK: - Reading

    /// Reads `2013-05-24T00:00:00.000Z`: fractions of a second are dropped; instead of `Z` there
    /// may be a distance from UTC.
    static func iso8601(_ text: some Sequence<UInt8>) -> Timestamp? {
        var rest = Array(text)[...]
        guard let year = number(&rest, digits: 4), take("-", &rest),
            let month = number(&rest, digits: 2), take("-", &rest),
            let day = number(&rest, digits: 2), take("T", &rest) || take(" ", &rest),
            let hour = number(&rest, digits: 2), take(":", &rest),
            let minute = number(&rest, digits: 2), take(":", &rest),
            let second = number(&rest, digits: 2)
        else { return nil }
        if take(".", &rest) { rest = rest.drop { (0x30...0x39).contains($0) } }
        guard let distance = distance(&rest), rest.isEmpty,
            let moment = moment(year, month, day, hour, minute, second)
        else { return nil }
        return Timestamp(seconds: moment.seconds - distance, nanoseconds: 0)
    }

    static func iso8601(_ text: String) -> Timestamp? { iso8601(text.utf8) }

    private static let months: [String] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// Reads `Wed, 21 Oct 2015 07:28:00 GMT`, as HTTP's headers carry it.
    static func http(_ text: String) -> Timestamp? {
        let parts = text.split(separator: " ")
        guard parts.count == 6, parts[5] == "GMT" || parts[5] == "UTC",
            let day = S3Number.parse(parts[1].utf8), let year = S3Number.parse(parts[3].utf8),
            let month = months.firstIndex(of: String(parts[2]))
        else { return nil }
        let time = parts[4].split(separator: ":").map { S3Number.parse($0.utf8) }
        guard time.count == 3, let hour = time[0], let minute = time[1], let second = time[2]
        else { return nil }
        return moment(year, Int64(month) + 1, day, hour, minute, second)
    }

    // MARK: - Writing

    /// `20130524T000000Z`, as signatures carry it.
    static func basic(_ moment: Timestamp) -> String {
        let second = ((moment.seconds % 86_400) + 86_400) % 86_400
        let (year, month, day) = date(ofDay: (moment.seconds - second) / 86_400)
        return padded(year, 4) + padded(month, 2) + padded(day, 2) + "T"
            + padded(second / 3_600, 2) + padded(second / 60 % 60, 2) + padded(second % 60, 2)
            + "Z"
    }

    /// `2013-05-24T00:00:00Z`, as people and files have it.
    static func extended(_ moment: Timestamp) -> String {
        let digits = Array(basic(moment))
        return String(digits[0..<4]) + "-" + String(digits[4..<6]) + "-" + String(digits[6..<11])
            + ":" + String(digits[11..<13]) + ":" + String(digits[13...])
    }

    // MARK: - Digits

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    private static func number(_ rest: inout ArraySlice<UInt8>, digits: Int) -> Int64? {
        let found = rest.prefix(digits)
        guard found.count == digits, found.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        rest = rest.dropFirst(digits)
        return found.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }

    private static func take(_ character: Unicode.Scalar, _ rest: inout ArraySlice<UInt8>) -> Bool {
        guard let first = rest.first, UInt32(first) == character.value else { return false }
        rest = rest.dropFirst()
        return true
    }

    /// Seconds that the clock shown is ahead of UTC.
    private static func distance(_ rest: inout ArraySlice<UInt8>) -> Int64? {
        if take("Z", &rest) || take("z", &rest) { return 0 }
        let isAhead = take("+", &rest)
        guard isAhead || take("-", &rest), let hours = number(&rest, digits: 2) else { return nil }
        _ = take(":", &rest)
        guard let minutes = number(&rest, digits: 2), hours < 24, minutes < 60 else { return nil }
        return (isAhead ? 1 : -1) * (hours * 3_600 + minutes * 60)
    }

    // MARK: - The calendar

    private static func moment(
        _ year: Int64,
        _ month: Int64,
        _ day: Int64,
        _ hour: Int64,
        _ minute: Int64,
        _ second: Int64
    ) -> Timestamp? {
        guard (0...9_999).contains(year), (1...12).contains(month), (1...31).contains(day),
            (0...23).contains(hour), (0...59).contains(minute), (0...60).contains(second)
        else { return nil }
        let days = self.day(ofYear: year, month: month, day: day)
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
        return Timestamp(seconds: seconds, nanoseconds: 0)
    }

    /// Years begin in March here, so that the day that leap years add is the last one.
    private static let daysBeforeMonth: [Int64] = [
        0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337,
    ]
    private static let daysUntil1970: Int64 = 719_468

    private static func day(ofYear year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month > 2 ? year : year - 1
        // Rounded down also before the year 0, which January of that year belongs to.
        let century = (shifted >= 0 ? shifted : shifted - 399) / 400
        let rest = shifted - century * 400
        let leapDays = century * 97 + rest / 4 - rest / 100
        let months = daysBeforeMonth[Int((month + 9) % 12)]
        return shifted * 365 + leapDays + months + day - 1 - daysUntil1970
    }

    private static func date(ofDay day: Int64) -> (year: Int64, month: Int64, day: Int64) {
        // Estimated by the longest year, so that it is never too late; mended by counting up.
        var year = (day + daysUntil1970) / 366
        while self.day(ofYear: year + 1, month: 3, day: 1) <= day { year += 1 }
        let ofYear = day - self.day(ofYear: year, month: 3, day: 1)
        let month = Int64((daysBeforeMonth.lastIndex { $0 <= ofYear }) ?? 0)
        return (
            year: month < 10 ? year : year + 1,
            month: (month + 2) % 12 + 1,
            day: ofYear - daysBeforeMonth[Int(month)] + 1
        )
    }
}
