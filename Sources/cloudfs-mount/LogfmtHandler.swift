import Glibc
import Logging

/// Writes log lines to standard error: time, level, message and facts, as `key=value` pairs.
struct LogfmtHandler: LogHandler {
    var logLevel: Logger.Level
    var metadata: Logger.Metadata = [:]

    init(level: Logger.Level) {
        logLevel = level
    }

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) {
        var facts = metadata
        if let error = event.error { facts["error"] = "\(error)" }
        facts.merge(event.metadata ?? [:]) { _, new in new }
        var line = "time=\(Self.now()) level=\(event.level.rawValue)"
        line += " message=\(Self.quoted("\(event.message)"))"
        for (key, value) in facts.sorted(by: { $0.key < $1.key }) {
            line += " \(key)=\(Self.quoted("\(value)"))"
        }
        // One write for each line, so that lines of several threads do not mix.
        Output.write(line + "\n")
    }

    /// UTC with milliseconds: `2026-11-20T14:30:05.123Z`.
    private static func now() -> String {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        var parts = tm()
        gmtime_r(&time.tv_sec, &parts)
        let date = "\(parts.tm_year + 1900)-\(two(parts.tm_mon + 1))-\(two(parts.tm_mday))"
        let clock = "\(two(parts.tm_hour)):\(two(parts.tm_min)):\(two(parts.tm_sec))"
        let milliseconds = String(time.tv_nsec / 1_000_000 + 1000).dropFirst()
        return "\(date)T\(clock).\(milliseconds)Z"
    }

    private static func two(_ number: Int32) -> String { String(String(number + 100).dropFirst()) }

    /// Quoted where a reader could not tell where it ends, and never more than one line.
    static func quoted(_ text: String) -> String {
        let isPlain =
            !text.isEmpty
            && text.unicodeScalars.allSatisfy { scalar in
                scalar != " " && scalar != "\"" && scalar != "=" && scalar != "\\"
                    && !steersTerminals(scalar)
            }
        guard !isPlain else { return text }
        var result = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": result += "\\\""
            case "\\": result += "\\\\"
            case "\n": result += "\\n"
            case "\t": result += "\\t"
            case _ where steersTerminals(scalar):
                result += "\\u{\(String(scalar.value, radix: 16))}"
            default: result.unicodeScalars.append(scalar)
            }
        }
        return result + "\""
    }

    /// Control characters of both sets, and what turns the direction of text or breaks its lines:
    /// a name in a log must not be able to show something else than it is.
    private static func steersTerminals(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.properties.generalCategory {
        case .control, .format, .surrogate, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }
}
