import Glibc

/// What programs write: 16 bytes that nobody else ever writes, repeated to fill a block.
struct Token: Hashable, Sendable, CustomStringConvertible {
    let number: Int

    static let byteCount = 16

    /// The token as text of 16 bytes.
    var description: String {
        let digits = String(number)
        return "<" + String(repeating: "0", count: 13 - digits.count) + digits + ">\n"
    }

    /// A block of a file: the token again and again.
    func block(_ byteCount: Int) -> [UInt8] {
        let unit = Array(description.utf8)
        return Array(repeatElement(unit, count: byteCount / Self.byteCount).joined())
    }

    /// What a file consists of.
    struct Content: Sendable {
        var tokens: Set<Token> = []
        /// Whether it has anything else than whole tokens and zeros.
        var isTorn = false
    }

    static func content(of bytes: [UInt8]) -> Content {
        var content = Content(isTorn: bytes.count % byteCount != 0)
        var start = -byteCount
        // A block has the same token again and again.
        while let next = nextUnit(unlike: start, in: bytes) {
            start = next
            let unit = start..<start + byteCount
            if bytes[unit].allSatisfy({ $0 == 0 }) { continue }
            guard let token = Token(bytes[unit]) else {
                content.isTorn = true
                continue
            }
            content.tokens.insert(token)
        }
        return content
    }

    /// Where the first unit begins after one that is another.
    private static func nextUnit(unlike start: Int, in bytes: [UInt8]) -> Int? {
        bytes.withUnsafeBytes { bytes in
            var next = start + byteCount
            while let all = bytes.baseAddress, next + byteCount <= bytes.count {
                if start < 0 || memcmp(all + start, all + next, byteCount) != 0 { return next }
                next += byteCount
            }
            return nil
        }
    }

    /// What a file consists of, for people.
    static func text(of bytes: [UInt8]) -> String {
        let numbers = content(of: bytes).tokens.map(\.number).sorted()
        return "\(bytes.count) bytes with tokens \(numbers)"
    }

    init(number: Int) {
        self.number = number
    }

    private init?(_ unit: ArraySlice<UInt8>) {
        guard unit.first == UInt8(ascii: "<"), unit.last == 10,
            unit.dropLast().last == UInt8(ascii: ">")
        else { return nil }
        var number = 0
        for byte in unit.dropFirst().dropLast(2) {
            guard (48...57).contains(byte) else { return nil }
            number = number * 10 + Int(byte - 48)
        }
        self.number = number
    }
}
