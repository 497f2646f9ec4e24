/// What a name is compared with, without regard to case.
///
/// `*` stands for any text and `?` for one character; a backslash takes their meaning away.
struct NamePattern: Sendable, Hashable, CustomStringConvertible {
    private enum Element: Sendable, Hashable {
        case byte(UInt8)
        case one
        case many
    }

    private let elements: [Element]

    /// Names that match as a whole.
    init(_ text: String) {
        var elements: [Element] = []
        var rest = Array(text.utf8)[...]
        var literal: [UInt8] = []
        func flush() {
            elements += FoldedName(literal).bytes.map { .byte($0) }
            literal = []
        }
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "\\"): literal.append(rest.popFirst() ?? byte)
            case UInt8(ascii: "*"):
                flush()
                if elements.last != .many { elements.append(.many) }
            case UInt8(ascii: "?"):
                flush()
                elements.append(.one)
            default: literal.append(byte)
            }
        }
        flush()
        self.elements = elements
    }

    /// Names that are exactly this text.
    init(whole text: String) {
        elements = FoldedName(text).bytes.map { .byte($0) }
    }

    /// Names that have this text somewhere.
    init(containing text: String) {
        elements = [.many] + FoldedName(text).bytes.map { .byte($0) } + [.many]
    }

    /// Whether a text would be a pattern.
    static func isPattern(_ text: String) -> Bool {
        text.utf8.contains { $0 == UInt8(ascii: "*") || $0 == UInt8(ascii: "?") }
    }

    /// Whether a name matches; in at most as many steps as its length times the pattern's.
    func matches(_ name: FoldedName) -> Bool {
        if let part = contained { return name.contains(part) }
        let bytes = name.bytes
        var (position, element) = (0, 0)
        // Where to go on when what follows the last star does not match.
        var retry: (position: Int, element: Int)?
        while position < bytes.count {
            switch element < elements.count ? elements[element] : nil {
            case .byte(bytes[position])?:
                position += 1
                element += 1
                continue
            case .one?:
                position += 1
                while position < bytes.count, bytes[position] & 0xc0 == 0x80 { position += 1 }
                element += 1
                continue
            case .many?:
                element += 1
                retry = (position, element)
                continue
            case .byte?, nil: break
            }
            guard let again = retry else { return false }
            retry?.position += 1
            (position, element) = (again.position + 1, again.element)
        }
        return elements[element...].allSatisfy { $0 == .many }
    }

    /// The text between two stars, where that is all.
    private var contained: [UInt8]? {
        guard elements.count >= 2, elements.first == .many, elements.last == .many else {
            return nil
        }
        var bytes: [UInt8] = []
        for element in elements.dropFirst().dropLast() {
            guard case .byte(let byte) = element else { return nil }
            bytes.append(byte)
        }
        return bytes
    }

    /// The texts in it.
    private var texts: [[UInt8]] {
        elements.reduce(into: [[]]) { texts, element in
            if case .byte(let byte) = element {
                texts[texts.count - 1].append(byte)
            } else {
                texts.append([])
            }
        }
    }

    /// The texts that all matching names have, those that are long enough to look for.
    ///
    /// They have marks for the beginning and the end of a name.
    var needles: [NameNeedle] {
        var runs = texts
        runs[0].insert(2, at: 0)
        runs[runs.count - 1].append(3)
        return runs.compactMap { NameNeedle(longest: [$0]) }
    }

    /// The longest ASCII text that all matching names have.
    var plainText: String? {
        let plain = texts.filter { $0.allSatisfy { $0 < 0x80 } }
        guard let longest = plain.max(by: { $0.count < $1.count }), !longest.isEmpty else {
            return nil
        }
        return String(decoding: longest, as: UTF8.self)
    }

    var description: String {
        let bytes = elements.map { element in
            switch element {
            case .byte(let byte): byte
            case .one: UInt8(ascii: "?")
            case .many: UInt8(ascii: "*")
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
