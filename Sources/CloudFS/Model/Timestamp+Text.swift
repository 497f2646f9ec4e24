import Glibc

extension Timestamp {
    /// The moment as ISO 8601 writes it, in UTC and to the second: `2026-11-20T14:30:05Z`.
    var text: String {
        var seconds = time_t(self.seconds)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        func padded(_ number: Int32, _ width: Int = 2) -> String {
            let digits = String(number)
            return String(repeating: "0", count: max(0, width - digits.utf8.count)) + digits
        }
        let day = [parts.tm_mon + 1, parts.tm_mday].map { padded($0) }.joined(separator: "-")
        let time = [parts.tm_hour, parts.tm_min, parts.tm_sec].map { padded($0) }
        return "\(padded(parts.tm_year + 1_900, 4))-\(day)T\(time.joined(separator: ":"))Z"
    }
}
