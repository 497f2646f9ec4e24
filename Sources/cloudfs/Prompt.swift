import Dispatch
import Glibc

/// Asks for lines on standard input, and for secrets without showing them.
struct Prompt: Sendable {
    /// Nothing was entered, or not what was asked for.
    struct Unanswered: Error, CustomStringConvertible {
        let description: String
    }

    /// Longer lines are no keys.
    private static let byteLimit = 4_096

    let descriptor: Int32
    /// Whether somebody sits there; else lines are read as they come, and nothing is asked.
    let isWatched: Bool

    init(descriptor: Int32 = STDIN_FILENO) {
        self.descriptor = descriptor
        isWatched = isatty(descriptor) == 1
    }

    /// The next line without its end and without spaces around it.
    func line(_ question: String, isSecret: Bool = false) throws -> String {
        if isWatched { Terminal.errors.write(question) }
        let silence = isSecret && isWatched ? Silence(descriptor) : nil
        defer { silence?.end() }
        let bytes = try read(question)
        let blank = { (byte: UInt8) in byte == 0x20 || byte == 0x09 || byte == 0x0d }
        let word = bytes.drop(while: blank).reversed().drop(while: blank).reversed()
        guard !word.isEmpty else { throw Self.unanswered(question, "is empty") }
        guard let text = String(validating: Array(word), as: UTF8.self) else {
            throw Self.unanswered(question, "is no text")
        }
        return text
    }

    /// Byte by byte: whoever comes after may read the rest.
    private func read(_ question: String) throws -> [UInt8] {
        var bytes: [UInt8] = []
        var byte: UInt8 = 0
        while true {
            let count = Glibc.read(descriptor, &byte, 1)
            if count < 0, errno == EINTR { continue }
            guard count >= 0 else { throw Self.unanswered(question, "cannot be read") }
            if count == 0 || byte == 0x0a { return bytes }
            guard bytes.count < Self.byteLimit else {
                throw Self.unanswered(question, "is too long")
            }
            bytes.append(byte)
        }
    }

    private static func unanswered(_ question: String, _ what: String) -> Unanswered {
        let name = question.prefix { $0 != ":" }.lowercased()
        return Unanswered(description: "the \(name) \(what)")
    }
}

/// A terminal that does not show what is typed, until `end` or Ctrl-C.
private final class Silence {
    private let descriptor: Int32
    private let before: termios
    private let source: any DispatchSourceSignal

    /// `nil` where the terminal cannot be changed.
    init?(_ descriptor: Int32) {
        var settings = termios()
        guard tcgetattr(descriptor, &settings) == 0 else { return nil }
        let before = settings
        settings.c_lflag &= ~tcflag_t(ECHO)
        guard tcsetattr(descriptor, TCSAFLUSH, &settings) == 0 else { return nil }
        self.descriptor = descriptor
        self.before = before
        signal(SIGINT, SIG_IGN)
        let queue = DispatchQueue(label: "cloudfs-prompt")
        source = DispatchSource.makeSignalSource(signal: SIGINT, queue: queue)
        source.setEventHandler {
            // A shell whose terminal stays silent is no use to anybody.
            Self.restore(before, of: descriptor)
            signal(SIGINT, SIG_DFL)
            kill(getpid(), SIGINT)
        }
        source.resume()
    }

    func end() {
        source.cancel()
        signal(SIGINT, SIG_DFL)
        Self.restore(before, of: descriptor)
    }

    private static func restore(_ settings: termios, of descriptor: Int32) {
        var settings = settings
        _ = tcsetattr(descriptor, TCSADRAIN, &settings)
        Terminal.errors.line("")
    }
}
