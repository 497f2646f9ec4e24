/// Where an item is in a drive: the names from the drive's root down to it, as bytes.
///
/// In JSON a path is text without a leading `/`, the root is empty. A name may hold bytes that are
/// no UTF-8, so `%`, control characters and such bytes are written as `%XX`; every other
/// character stands for itself. Equality is of bytes: `é` composed and decomposed are two names.
public struct DrivePath: Codable, Sendable, Hashable, CustomStringConvertible {
    public let names: [[UInt8]]

    /// The longest path, in bytes.
    public static let maximumByteCount = 65_536

    /// The root of the drive.
    public static let root = DrivePath(unchecked: [])

    private init(unchecked names: [[UInt8]]) {
        self.names = names
    }

    /// Keeps `names`, or `nil` if one is not a name or the path is too long.
    public init?(names: [[UInt8]]) {
        guard names.allSatisfy(Self.isName),
            names.reduce(0, { $0 + $1.count + 1 }) <= Self.maximumByteCount
        else { return nil }
        self.names = names
    }

    /// Splits bytes at `/`; empty components and `.` mean nothing, `..` is refused.
    public init?(bytes: some Sequence<UInt8>) {
        let parts = bytes.split(separator: UInt8(ascii: "/")).map { Array($0) }
        self.init(names: parts.filter { $0 != [UInt8(ascii: ".")] })
    }

    /// Reads the form that JSON holds.
    public init?(text: String) {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            // A quoted slash would be part of a name, which no name can hold.
            guard let high = rest.popFirst().flatMap(Self.hexDigit),
                let low = rest.popFirst().flatMap(Self.hexDigit),
                high << 4 | low != UInt8(ascii: "/")
            else { return nil }
            bytes.append(high << 4 | low)
        }
        self.init(bytes: bytes)
    }

    public init(from decoder: any Decoder) throws {
        let container = try decoder.singleValueContainer()
        let text = try container.decode(String.self)
        guard let path = DrivePath(text: text) else {
            throw DecodingError.dataCorruptedError(
                in: container,
                debugDescription: "not a path in the drive: \(text.prefix(200))"
            )
        }
        self = path
    }

    public func encode(to encoder: any Encoder) throws {
        var container = encoder.singleValueContainer()
        try container.encode(text)
    }

    /// The form that JSON holds; reading it gives the same path.
    public var text: String { names.map(Self.quoted).joined(separator: "/") }

    /// The names joined by `/`, as bytes.
    public var bytes: [UInt8] { Array(names.joined(separator: [UInt8(ascii: "/")])) }

    public var isRoot: Bool { names.isEmpty }

    /// The path as a person reads it; bytes that are no UTF-8 appear as U+FFFD.
    public var description: String { isRoot ? "/" : String(decoding: bytes, as: UTF8.self) }

    public func appending(_ name: [UInt8]) -> DrivePath? { DrivePath(names: names + [name]) }

    private static func isName(_ bytes: [UInt8]) -> Bool {
        (1...255).contains(bytes.count) && !bytes.contains(0)
            && !bytes.contains(UInt8(ascii: "/")) && bytes != Array(".".utf8)
            && bytes != Array("..".utf8)
    }

    private static func quoted(_ name: [UInt8]) -> String {
        let isText = String(validating: name, as: UTF8.self) != nil
        var quoted: [UInt8] = []
        for (index, byte) in name.enumerated() {
            let isPlain =
                byte < 0x80 ? byte >= 0x20 && byte != 0x7f : isText && !isControl(name, at: index)
            if isPlain, byte != UInt8(ascii: "%") {
                quoted.append(byte)
            } else {
                quoted.append(UInt8(ascii: "%"))
                let digits = String(byte, radix: 16, uppercase: true)
                quoted += Array((byte < 16 ? "0" + digits : digits).utf8)
            }
        }
        return String(decoding: quoted, as: UTF8.self)
    }

    /// Whether a byte of UTF-8 is part of a control character from U+0080 to U+009F.
    ///
    /// Those are two bytes: 0xC2, which only begins characters, and one that is the same number.
    private static func isControl(_ name: [UInt8], at index: Int) -> Bool {
        let isFirst = name[index] == 0xc2
        let second = isFirst ? index + 1 : index
        guard isFirst || index > 0 && name[index - 1] == 0xc2, second < name.count else {
            return false
        }
        return (0x80...0x9f).contains(name[second])
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
