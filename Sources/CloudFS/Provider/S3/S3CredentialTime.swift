/// The times in signatures and in credentials.
enum S3CredentialTime {
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

    /// Reads `2013-05-24T00:00:00Z`, with or without a fraction, with `Z` or a distance from UTC.
    static func moment(_ text: String) -> Timestamp? {
        var rest = Substring(text).utf8
        guard let year = number(&rest, digits: 4), take("-", &rest),
            let month = number(&rest, digits: 2), take("-", &rest),
            let day = number(&rest, digits: 2), take("T", &rest) || take(" ", &rest),
            let hour = number(&rest, digits: 2), take(":", &rest),
            let minute = number(&rest, digits: 2), take(":", &rest),
            let second = number(&rest, digits: 2),
            (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60, second <= 60
        else { return nil }
        if take(".", &rest) { rest = rest.drop { (0x30...0x39).contains($0) } }
        guard let distance = distance(&rest), rest.isEmpty else { return nil }
        let days = self.day(ofYear: year, month: month, day: day)
        return Timestamp(
            seconds: days * 86_400 + hour * 3_600 + minute * 60 + second - distance,
            nanoseconds: 0
        )
    }

    // MARK: - Digits

    private static func padded(_ number: Int64, _ width: Int) -> String {
        let digits = String(number)
        return String(repeating: "0", count: max(0, width - digits.count)) + digits
    }

    private static func number(_ rest: inout Substring.UTF8View, digits: Int) -> Int64? {
        let found = rest.prefix(digits)
        guard found.count == digits, found.allSatisfy({ (0x30...0x39).contains($0) })
        else { return nil }
        rest = rest.dropFirst(digits)
        return found.reduce(0) { $0 * 10 + Int64($1 - 0x30) }
    }

    private static func take(_ character: Unicode.Scalar, _ rest: inout Substring.UTF8View) -> Bool
    {
        guard let first = rest.first, UInt32(first) == character.value else { return false }
        rest = rest.dropFirst()
        return true
    }

    /// Seconds that the clock shown is ahead of UTC.
    private static func distance(_ rest: inout Substring.UTF8View) -> Int64? {
        if take("Z", &rest) || take("z", &rest) { return 0 }
        let isAhead = take("+", &rest)
        guard isAhead || take("-", &rest), let hours = number(&rest, digits: 2) else { return nil }
        _ = take(":", &rest)
        guard let minutes = number(&rest, digits: 2), hours < 24, minutes < 60 else { return nil }
        return (isAhead ? 1 : -1) * (hours * 3_600 + minutes * 60)
    }

    // MARK: - The calendar

    /// Years begin in March here, so that the day that leap years add is the last one.
    private static let daysBeforeMonth: [Int64] = [
        0, 31, 61, 92, 122, 153, 184, 214, 245, 275, 306, 337,
    ]
    private static let daysUntil1970: Int64 = 719_468

    private static func day(ofYear year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month > 2 ? year : year - 1
        let leapDays = shifted / 4 - shifted / 100 + shifted / 400
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
