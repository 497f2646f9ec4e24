import ArgumentParser
import CloudFSControlAPI
import Foundation

/// Numbers as a person reads them.
enum Units {
    /// Bytes in powers of 1024: `0 B`, `999 B`, `1.5 KiB`, `12 MiB`, `1023 GiB`.
    ///
    /// One digit after the point below 10, none above; rounded down, so that a file is never said
    /// to be larger than it is, nor a queue empty that is not.
    static func bytes(_ count: Int64) -> String {
        guard count >= 1_024 else { return "\(count) B" }
        let names = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"]
        var index = 0
        var unit: Int64 = 1_024
        while count / unit >= 1_024, index + 1 < names.count {
            unit *= 1_024
            index += 1
        }
        let whole = count / unit
        guard whole < 10 else { return "\(whole) \(names[index])" }
        // Counted in the next smaller unit, because ten times the remainder may not fit.
        let rest = count / (unit / 1_024) % 1_024
        return "\(whole).\(rest * 10 / 1_024) \(names[index])"
    }

    /// A part of a whole in percent, rounded down; all of nothing is everything.
    static func percent(_ part: Int64, of whole: Int64) -> Int {
        guard whole > 0 else { return 100 }
        return Int(Double(max(0, min(part, whole))) / Double(whole) * 100)
    }

    /// A number and what is counted: `1 file`, `2 files`.
    static func count(_ number: Int64, _ one: String, _ many: String? = nil) -> String {
        "\(number) \(number == 1 ? one : many ?? one + "s")"
    }

    /// Seconds as the two largest units: `45 s`, `3 min 20 s`, `2 h 5 min`, `4 d 1 h`.
    static func span(seconds: Int64) -> String {
        let seconds = max(0, seconds)
        let parts = [
            (seconds / 86_400, "d"), (seconds / 3_600 % 24, "h"), (seconds / 60 % 60, "min"),
            (seconds % 60, "s"),
        ]
        guard let first = parts.firstIndex(where: { $0.0 > 0 }) else { return "0 s" }
        return parts[first...].prefix(2).filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }
            .joined(separator: " ")
    }

    /// What was asked to be sent, in words.
    static func outbox(_ counts: OutboxCounts) -> String {
        guard counts.total > 0 else { return "nothing to send" }
        var parts: [String] = []
        if counts.waiting > 0 { parts.append("\(counts.waiting) waiting") }
        if counts.uploading > 0 { parts.append("\(counts.uploading) uploading") }
        if counts.failed > 0 { parts.append("\(counts.failed) failed") }
        return parts.joined(separator: ", ") + " (\(bytes(counts.bytes)))"
    }

    /// A moment in local time, to the second.
    static func moment(_ time: WireTime) -> String {
        let date = Date(timeIntervalSince1970: Double(time.nanoseconds) / 1e9)
        var style = Date.ISO8601FormatStyle(timeZone: .current)
        style = style.year().month().day().dateSeparator(.dash)
            .dateTimeSeparator(.space).time(includingFractionalSeconds: false)
        return date.formatted(style)
    }

    /// How long ago a moment was, in seconds.
    static func age(_ time: WireTime) -> Int64 {
        Int64(Date().timeIntervalSince1970) - time.nanoseconds / 1_000_000_000
    }
}

/// A span of time on the command line: `30`, `30s`, `500ms`, `5m`, `2h`.
struct Span: ExpressibleByArgument, Sendable, Equatable {
    var duration: Duration

    init(duration: Duration) {
        self.duration = duration
    }

    init?(argument: String) {
        let digits = argument.prefix { $0.isASCII && $0.isNumber || $0 == "." }
        guard let number = Double(digits), number.isFinite, number < 1e9 else { return nil }
        let factor: Double
        switch argument.dropFirst(digits.count) {
        case "", "s": factor = 1
        case "ms": factor = 0.001
        case "m", "min": factor = 60
        case "h": factor = 3_600
        default: return nil
        }
        duration = .seconds(number * factor)
    }

    /// How `--help` shows a default.
    var defaultValueDescription: String { "\(duration.components.seconds)s" }
}
