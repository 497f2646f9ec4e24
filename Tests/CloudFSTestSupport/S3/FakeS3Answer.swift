import CloudFS
import Glibc

/// An error of S3, as the status and the document that tell it.
struct FakeS3Failure: Error {
    let status: Int
    let code: String
    let message: String
    var headers: [(name: String, value: String)] = []
    /// More elements of the document.
    var details: [(name: String, value: String)] = []

    init(_ status: Int, _ code: String, _ message: String = "") {
        self.status = status
        self.code = code
        self.message = message.isEmpty ? "The request failed: \(code)." : message
    }

    static let noSuchKey = FakeS3Failure(404, "NoSuchKey", "The specified key does not exist.")
    static let noSuchUpload = FakeS3Failure(404, "NoSuchUpload", "There is no such upload.")
    static let preconditionFailed = FakeS3Failure(
        412,
        "PreconditionFailed",
        "At least one of the pre-conditions you specified did not hold"
    )
    static let notImplemented = FakeS3Failure(
        501,
        "NotImplemented",
        "A header you provided implies functionality that is not implemented"
    )
    static let accessDenied = FakeS3Failure(403, "AccessDenied", "Access Denied")

    static func invalidArgument(_ message: String) -> FakeS3Failure {
        FakeS3Failure(400, "InvalidArgument", message)
    }

    func answer(to request: FakeS3Request) -> FakeS3Answer {
        var document = FakeS3XML()
        document.open("Error")
        document.element("Code", code)
        document.element("Message", message)
        for detail in details { document.element(detail.name, detail.value) }
        document.element("Resource", "/\(request.bucket)/\(request.key)")
        document.element("RequestId", "\(request.number)")
        document.close("Error")
        var answer = FakeS3Answer(document: document, status: status)
        answer.headers += headers
        if status == 304 { answer.content = .empty }
        return answer
    }
}

/// What a server sends back for one request.
struct FakeS3Answer: Sendable {
    var status = 200
    /// Without `Content-Length`, `Date` and what else every answer has.
    var headers: [(name: String, value: String)] = []
    var content = FakeS3Content.empty
    /// The bytes of `content` that are sent; `nil` for all of them.
    var range: Range<Int64>?

    init(status: Int = 200, headers: [(name: String, value: String)] = []) {
        self.status = status
        self.headers = headers
    }

    init(document: FakeS3XML, status: Int = 200) {
        self.status = status
        headers = [("Content-Type", "application/xml")]
        content = FakeS3Content(document.text)
    }

    var bodyRange: Range<Int64> { range ?? 0..<content.byteCount }

    mutating func set(_ name: String, _ value: String) {
        headers.removeAll { $0.name.lowercased() == name.lowercased() }
        headers.append((name, value))
    }

    static func reason(_ status: Int) -> String {
        switch status {
        case 100: "Continue"
        case 200: "OK"
        case 204: "No Content"
        case 206: "Partial Content"
        case 304: "Not Modified"
        case 307: "Temporary Redirect"
        case 400: "Bad Request"
        case 403: "Forbidden"
        case 404: "Not Found"
        case 409: "Conflict"
        case 412: "Precondition Failed"
        case 416: "Requested Range Not Satisfiable"
        case 500: "Internal Server Error"
        case 501: "Not Implemented"
        case 503: "Slow Down"
        default: "Status"
        }
    }
}

/// Writes the documents of S3, and finds elements in those that clients send.
struct FakeS3XML {
    private(set) var text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"

    mutating func open(_ name: String) {
        let isRoot = text.hasSuffix("?>\n")
        text += "<" + name
        // The one document of S3 that has no namespace is the error's.
        if isRoot && name != "Error" {
            text += " xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\""
        }
        text += ">"
    }

    mutating func close(_ name: String) {
        text += "</" + name + ">"
    }

    mutating func element(_ name: String, _ value: String) {
        raw("<" + name + ">" + Self.escaped(value) + "</" + name + ">")
    }

    /// Appends what is XML already.
    mutating func raw(_ xml: String) {
        text += xml
    }

    static func escaped(_ text: String) -> String {
        let mustEscape = text.utf8.contains { byte in
            byte < 0x20 || byte == UInt8(ascii: "&") || byte == UInt8(ascii: "<")
                || byte == UInt8(ascii: ">") || byte == UInt8(ascii: "\"")
        }
        guard mustEscape else { return text }
        var escaped = ""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "&": escaped += "&amp;"
            case "<": escaped += "&lt;"
            case ">": escaped += "&gt;"
            case "\"": escaped += "&quot;"
            case _ where scalar.value < 0x20: escaped += "&#x\(String(scalar.value, radix: 16));"
            default: escaped.unicodeScalars.append(scalar)
            }
        }
        return escaped
    }

    /// The insides of all elements of that name, which do not contain each other.
    ///
    /// Enough for the two documents that clients send: a batch to delete, and a list of parts.
    static func elements(_ name: String, in text: Substring) -> [Substring] {
        var found: [Substring] = []
        var rest = text
        while let start = rest.firstRange(of: "<\(name)>") {
            rest = rest[start.upperBound...]
            guard let end = rest.firstRange(of: "</\(name)>") else { break }
            found.append(rest[..<end.lowerBound])
            rest = rest[end.upperBound...]
        }
        return found
    }

    static func unescaped(_ text: Substring) -> String {
        var plain = ""
        var rest = text
        while let start = rest.firstIndex(of: "&") {
            plain += rest[..<start]
            rest = rest[start...].dropFirst()
            guard let end = rest.firstIndex(of: ";") else { return plain + "&" + rest }
            let entity = rest[..<end]
            rest = rest[end...].dropFirst()
            switch entity {
            case "amp": plain += "&"
            case "lt": plain += "<"
            case "gt": plain += ">"
            case "quot": plain += "\""
            case "apos": plain += "'"
            default: plain.unicodeScalars += [scalar(entity)]
            }
        }
        return plain + rest
    }

    private static func scalar(_ entity: Substring) -> Unicode.Scalar {
        let isHex = entity.hasPrefix("#x") || entity.hasPrefix("#X")
        let digits = entity.dropFirst(isHex ? 2 : 1)
        return UInt32(digits, radix: isHex ? 16 : 10).flatMap(Unicode.Scalar.init) ?? "\u{fffd}"
    }
}

/// The ways in which S3 writes moments.
enum FakeS3Time {
    /// As in `Sun, 06 Nov 1994 08:49:37 GMT`.
    static func http(_ moment: Timestamp) -> String {
        text(moment, "%a, %d %b %Y %H:%M:%S GMT")
    }

    /// As in `1994-11-06T08:49:37.123Z`.
    static func iso(_ moment: Timestamp) -> String {
        let thousandths = String(moment.nanosecondsOfSecond / 1_000_000 + 1_000).dropFirst()
        return text(moment, "%Y-%m-%dT%H:%M:%S.") + thousandths + "Z"
    }

    /// As in `19941106T084937Z`.
    static func basic(_ moment: Timestamp) -> String {
        text(moment, "%Y%m%dT%H%M%SZ")
    }

    /// Seconds since 1970 of what `http` wrote.
    static func parsedHTTP(_ text: String) -> Int64? {
        let months = [
            "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
        ]
        let words = text.split { $0 == " " || $0 == ":" }
        guard words.count == 8, let month = months.firstIndex(of: String(words[2])) else {
            return nil
        }
        let numbers = [words[3], words[1], words[4], words[5], words[6]].compactMap { Int32($0) }
        guard numbers.count == 5 else { return nil }
        return seconds(numbers[0], Int32(month + 1), numbers[1], Array(numbers[2...]))
    }

    /// Seconds since 1970 of what `basic` wrote.
    static func parsedBasic(_ text: String) -> Int64? {
        let digits = text.filter(\.isNumber)
        guard digits.count == 14, let date = Int32(digits.prefix(8)),
            let time = Int32(digits.suffix(6))
        else { return nil }
        return seconds(
            date / 10_000,
            date / 100 % 100,
            date % 100,
            [time / 10_000, time / 100 % 100, time % 100]
        )
    }

    private static func seconds(
        _ year: Int32,
        _ month: Int32,
        _ day: Int32,
        _ time: [Int32]
    ) -> Int64 {
        var parts = tm()
        parts.tm_year = year - 1_900
        parts.tm_mon = month - 1
        parts.tm_mday = day
        parts.tm_hour = time[0]
        parts.tm_min = time[1]
        parts.tm_sec = time[2]
        return Int64(timegm(&parts))
    }

    static func now() -> Timestamp {
        var time = timespec()
        clock_gettime(CLOCK_REALTIME, &time)
        return Timestamp(seconds: Int64(time.tv_sec), nanoseconds: Int64(time.tv_nsec))
    }

    private static func text(_ moment: Timestamp, _ format: String) -> String {
        var seconds = time_t(moment.seconds)
        var parts = tm()
        gmtime_r(&seconds, &parts)
        var buffer = [CChar](repeating: 0, count: 64)
        let count = strftime(&buffer, buffer.count, format, &parts)
        return String(decoding: buffer[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }
}
