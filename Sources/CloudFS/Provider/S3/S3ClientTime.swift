/// Reads the two forms in which S3 servers write times.
enum S3ClientTime {
    /// `2009-10-12T17:50:30.000Z`; fractions of a second are dropped.
    static func iso8601(_ text: some Collection<UInt8>) -> Timestamp? {
        let bytes = Array(text)
        guard bytes.count >= 20, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            bytes[10] == UInt8(ascii: "T"), bytes[13] == UInt8(ascii: ":"),
            bytes[16] == UInt8(ascii: ":"), bytes.last == UInt8(ascii: "Z"),
            let year = S3Number.parse(bytes[0..<4]), let month = S3Number.parse(bytes[5..<7]),
            let day = S3Number.parse(bytes[8..<10]), let hour = S3Number.parse(bytes[11..<13]),
            let minute = S3Number.parse(bytes[14..<16]), let second = S3Number.parse(bytes[17..<19])
        else { return nil }
        return moment(year, month, day, hour, minute, second)
    }

    private static let months: [String] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// `Wed, 21 Oct 2015 07:28:00 GMT`, as HTTP's headers carry it.
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
        // Years that begin in March: the leap day is the last of its year.
        let shifted = month > 2 ? year : year - 1
        let era = (shifted >= 0 ? shifted : shifted - 399) / 400
        let yearOfEra = shifted - era * 400
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        let days = era * 146_097 + dayOfEra - 719_468
        let seconds = days * 86_400 + hour * 3_600 + minute * 60 + second
        return Timestamp(seconds: seconds, nanoseconds: 0)
    }
}
