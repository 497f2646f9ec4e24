/// Types told by the first bytes of a file, as the desktop's databases describe them.
///
/// What is no rule of the format is left out, and looking takes a bounded number of steps.
///
/// - Source: shared-mime-info specification, "The magic files".
struct MIMEMagic: Sendable {
    /// Bytes that are to be found between two offsets.
    private struct Rule: Sendable {
        /// How deep it is below other rules, one of which must hold as well.
        var indent: Int
        var offset: Int
        /// At how many offsets from there on they may begin.
        var range: Int
        var value: [UInt8]
        /// Which bits count; empty for all.
        var mask: [UInt8]

        func holds(for bytes: [UInt8]) -> Bool {
            (offset..<offset + range).contains { start in
                guard start + value.count <= bytes.count else { return false }
                guard !mask.isEmpty else { return bytes[start...].starts(with: value) }
                return value.indices.allSatisfy {
                    (bytes[start + $0] ^ value[$0]) & mask[$0] == 0
                }
            }
        }
    }

    /// One type, with rules of which one must hold.
    private struct Kind: Sendable {
        var priority: Int
        var type: String
        var rules: [Rule]
    }

    /// The most important first.
    private var kinds: [Kind] = []

    /// How many bytes of a file are looked at; rules that look further never hold.
    static let reach = 16_384
    private static let mostKinds = 10_000
    /// How many of the first bytes of a text are all of a text.
    private static let textReach = 512

    /// Adds what another database says, as less important than what is here.
    mutating func add(_ database: [UInt8]) {
        var reader = MagicReader(database)
        guard reader.skip(Array("MIME-Magic\0\n".utf8)) else { return }
        while kinds.count < Self.mostKinds, let kind = Self.kind(&reader) {
            if !kind.rules.isEmpty { kinds.append(kind) }
        }
        kinds = kinds.enumerated().sorted { one, other in
            one.element.priority == other.element.priority
                ? one.offset < other.offset : one.element.priority > other.element.priority
        }.map(\.element)
    }

    /// The type of a file that begins with `bytes`; `nil` if nobody knows.
    func type(of bytes: [UInt8]) -> String? {
        for kind in kinds where Self.holds(kind.rules[...], at: 0, for: bytes) {
            return kind.type
        }
        return Self.isText(bytes.prefix(Self.textReach)) ? "text/plain" : nil
    }

    /// Whether one of the rules at a depth holds, and of those below it, if there are any, one too.
    private static func holds(_ rules: ArraySlice<Rule>, at indent: Int, for bytes: [UInt8]) -> Bool
    {
        var rest = rules
        while let rule = rest.popFirst() {
            let below = rest.prefix { $0.indent > indent }
            rest = rest.dropFirst(below.count)
            guard rule.indent == indent, rule.holds(for: bytes) else { continue }
            if below.isEmpty || holds(below, at: indent + 1, for: bytes) { return true }
        }
        return false
    }

    /// Whether bytes are characters, and none that only machines write.
    private static func isText(_ bytes: ArraySlice<UInt8>) -> Bool {
        guard !bytes.isEmpty,
            bytes.allSatisfy({ $0 >= 0x20 || (0x08...0x0d).contains($0) || $0 == 0x1b })
        else { return false }
        // The last character may be cut.
        return (0...3).contains { cut in
            String(validating: bytes.dropLast(cut), as: UTF8.self) != nil
        }
    }

    // MARK: - Reading a database

    /// `[50:image/png]` and the rules up to the next one; `nil` at the end.
    private static func kind(_ reader: inout MagicReader) -> Kind? {
        while let line = reader.line() {
            guard line.first == UInt8(ascii: "["), line.last == UInt8(ascii: "]") else { continue }
            let words = String(decoding: line.dropFirst().dropLast(), as: UTF8.self)
                .split(separator: ":", maxSplits: 1)
            var rules: [Rule] = []
            while let next = reader.next, next != UInt8(ascii: "[") {
                if let rule = rule(&reader) { rules.append(rule) }
                guard reader.skipLine() else { break }
            }
            guard words.count == 2, let priority = Int(words[0]),
                DeclaredType.isName(String(words[1]), withSlash: true)
            else { continue }
            return Kind(priority: priority, type: words[1].lowercased(), rules: rules)
        }
        return nil
    }

    /// `1>15=` and two bytes for a length, so many bytes; then what else there is to know.
    private static func rule(_ reader: inout MagicReader) -> Rule? {
        let indent = reader.number() ?? 0
        guard reader.skip([UInt8(ascii: ">")]), let offset = reader.number(),
            reader.skip([UInt8(ascii: "=")]), let length = reader.bytes(2)
        else { return nil }
        guard var value = reader.bytes(Int(length[0]) << 8 | Int(length[1])) else { return nil }
        var mask: [UInt8] = []
        var (word, range) = (1, 1)
        while let sign = reader.next, sign != UInt8(ascii: "\n") {
            _ = reader.bytes(1)
            switch sign {
            case UInt8(ascii: "&"): mask = reader.bytes(value.count) ?? []
            case UInt8(ascii: "~"): word = reader.number() ?? 1
            case UInt8(ascii: "+"): range = reader.number() ?? 1
            // A later format's: rules that are not understood do not count.
            default: return nil
            }
        }
        if word > 1, value.count.isMultiple(of: word) {
            // Written as a big machine stores words, meant as this one does.
            value = inWords(of: word, value)
            mask = inWords(of: word, mask)
        }
        guard !value.isEmpty, indent < 32, offset < reach, (1...reach).contains(range),
            mask.isEmpty || mask.count == value.count
        else { return nil }
        return Rule(indent: indent, offset: offset, range: range, value: value, mask: mask)
    }

    private static func inWords(of size: Int, _ bytes: [UInt8]) -> [UInt8] {
        guard UInt16(1).littleEndian == 1 else { return bytes }
        return stride(from: 0, to: bytes.count, by: size).flatMap {
            bytes[$0..<min($0 + size, bytes.count)].reversed()
        }
    }
}

/// Takes one thing after the other from a database.
private struct MagicReader {
    private var rest: ArraySlice<UInt8>

    init(_ bytes: [UInt8]) {
        rest = bytes[...]
    }

    var next: UInt8? { rest.first }

    mutating func skip(_ expected: [UInt8]) -> Bool {
        guard rest.starts(with: expected) else { return false }
        rest = rest.dropFirst(expected.count)
        return true
    }

    /// - Returns: `nil` if there are not so many.
    mutating func bytes(_ count: Int) -> [UInt8]? {
        guard count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return Array(rest.prefix(count))
    }

    /// Decimal digits; at most nine of them.
    mutating func number() -> Int? {
        let digits = rest.prefix { (0x30...0x39).contains($0) }
        rest = rest.dropFirst(digits.count)
        guard (1...9).contains(digits.count) else { return nil }
        return digits.reduce(0) { $0 * 10 + Int($1) - 0x30 }
    }

    /// The rest of the line without its end; `nil` at the end of all.
    mutating func line() -> ArraySlice<UInt8>? {
        guard !rest.isEmpty else { return nil }
        let line = rest.prefix { $0 != UInt8(ascii: "\n") }
        rest = rest.dropFirst(line.count + 1)
        return line
    }

    mutating func skipLine() -> Bool { line() != nil }
}
