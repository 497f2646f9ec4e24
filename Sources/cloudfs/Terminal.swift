import Foundation
import Glibc

/// Where text goes: whether somebody watches, in colour, and how wide the window is.
struct Terminal: Sendable {
    let descriptor: Int32
    let isWatched: Bool
    let hasColour: Bool

    static let output = Terminal(descriptor: STDOUT_FILENO)
    static let errors = Terminal(descriptor: STDERR_FILENO)

    /// - Parameter isWatched: Whether it is a terminal; `nil`: as the system says.
    init(descriptor: Int32, isWatched: Bool? = nil) {
        self.descriptor = descriptor
        let name = getenv("TERM").map { String(cString: $0) }
        self.isWatched = isWatched ?? (isatty(descriptor) == 1)
        hasColour = self.isWatched && getenv("NO_COLOR") == nil && name != nil && name != "dumb"
    }

    /// Columns of the window; 80 where there is none.
    var width: Int {
        var size = winsize()
        guard ioctl(descriptor, UInt(TIOCGWINSZ), &size) == 0, size.ws_col > 0 else { return 80 }
        return Int(size.ws_col)
    }

    /// Writes a line at once, so that lines of both streams keep their order.
    func line(_ text: String) {
        write(text + "\n")
    }

    func write(_ text: String) {
        write(Array(text.utf8))
    }

    func write(_ bytes: [UInt8]) {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { Self.giveUp(descriptor, errno) }
            rest = rest.dropFirst(count)
        }
    }

    /// Ends the command, which cannot say what it has to say.
    private static func giveUp(_ descriptor: Int32, _ code: Int32) -> Never {
        // A reader that went away (`| head`) wants no more, and nobody is left to tell.
        if code != EPIPE, descriptor != STDERR_FILENO {
            errors.line("cloudfs: standard output: \(String(cString: strerror(code)))")
        }
        exit(EXIT_FAILURE)
    }

    /// Writes a path as a line: its bytes for programs, for people what cannot steer the terminal.
    func path(_ bytes: [UInt8]) {
        if isWatched {
            line(String(decoding: bytes, as: UTF8.self).printable)
        } else {
            write(bytes + [UInt8(ascii: "\n")])
        }
    }

    func json(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        line(String(decoding: try encoder.encode(value), as: UTF8.self).printableJSON)
    }

    /// One line, for programs that read values as they come.
    func jsonLine(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        line(String(decoding: try encoder.encode(value), as: UTF8.self).printableJSON)
    }
}

/// How a piece of text looks on a terminal with colours.
enum Style: String, Sendable {
    case plain = ""
    case bold = "1"
    case faint = "2"
    case red = "31"
    case green = "32"
    case yellow = "33"
    case blue = "34"

    func applied(to text: String) -> String {
        self == .plain || text.isEmpty ? text : "\u{1B}[\(rawValue)m\(text)\u{1B}[0m"
    }
}

extension String {
    /// The text with everything that could steer a terminal made visible.
    ///
    /// A name in a shared container is somebody else's text.
    var printable: String {
        var shown = ""
        for scalar in unicodeScalars {
            if scalar.steersTerminals {
                shown += "\\u{\(String(scalar.value, radix: 16))}"
            } else {
                shown.unicodeScalars.append(scalar)
            }
        }
        return shown
    }

    /// JSON with everything escaped that could steer a terminal, and of the same value.
    ///
    /// The encoder escapes what is below U+0020 in texts; what is left of that breaks the lines.
    var printableJSON: String {
        var shown = ""
        for scalar in unicodeScalars {
            guard scalar.value >= 0x7F, scalar.steersTerminals else {
                shown.unicodeScalars.append(scalar)
                continue
            }
            // Above U+FFFF they are two.
            for unit in String(scalar).utf16 {
                let digits = String(unit, radix: 16)
                shown += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            }
        }
        return shown
    }

    /// How many columns the text takes, as far as that can be known without the terminal.
    var columnCount: Int {
        reduce(0) { count, character in
            guard let scalar = character.unicodeScalars.first else { return count }
            return count + (scalar.isWide ? 2 : 1)
        }
    }
}

extension Unicode.Scalar {
    /// Whether it does something instead of being shown, or turns the direction of text.
    fileprivate var steersTerminals: Bool {
        switch properties.generalCategory {
        case .control, .format, .surrogate, .lineSeparator, .paragraphSeparator: true
        default: false
        }
    }

    /// Whether terminals give the scalar two columns: scripts of East Asia, and emoji.
    fileprivate var isWide: Bool {
        switch value {
        case 0x1100...0x115F, 0x2E80...0x303E, 0x3041...0x33FF, 0x3400...0x4DBF, 0x4E00...0x9FFF,
            0xA000...0xA4CF, 0xAC00...0xD7A3, 0xF900...0xFAFF, 0xFE30...0xFE6F, 0xFF00...0xFF60,
            0xFFE0...0xFFE6, 0x1F300...0x1F64F, 0x1F680...0x1F6FF, 0x1F900...0x1F9FF,
            0x20000...0x3FFFD:
            true
        default:
            false
        }
    }
}
