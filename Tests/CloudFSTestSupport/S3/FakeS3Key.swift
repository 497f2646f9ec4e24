import Glibc

/// An object's key: bytes, since a bucket may hold keys that are no valid text.
public struct FakeS3Key: Hashable, Sendable, Comparable {
    public let bytes: [UInt8]

    public init(_ bytes: [UInt8]) {
        self.bytes = bytes
    }

    public init(_ text: String) {
        bytes = Array(text.utf8)
    }

    /// With U+FFFD in place of what is no UTF-8.
    public var text: String { String(decoding: bytes, as: UTF8.self) }

    /// By bytes, as S3 sorts its listings.
    ///
    /// Through `memcmp`: listings of a million keys are compared in debug builds too.
    public static func < (left: FakeS3Key, right: FakeS3Key) -> Bool {
        let common = min(left.bytes.count, right.bytes.count)
        let order = left.bytes.withUnsafeBytes { left in
            right.bytes.withUnsafeBytes { right in
                compare(left.baseAddress, right.baseAddress, common)
            }
        }
        return order == 0 ? left.bytes.count < right.bytes.count : order < 0
    }

    public func hasPrefix(_ prefix: FakeS3Key) -> Bool {
        guard bytes.count >= prefix.bytes.count else { return false }
        return bytes.withUnsafeBytes { own in
            prefix.bytes.withUnsafeBytes { other in
                Self.compare(own.baseAddress, other.baseAddress, prefix.bytes.count) == 0
            }
        }
    }

    /// The smallest key that is greater than every key with this prefix; `nil` if there is none.
    var successorOfPrefix: FakeS3Key? {
        var bytes = bytes
        while let last = bytes.popLast() {
            if last < 0xff {
                bytes.append(last + 1)
                return FakeS3Key(bytes)
            }
        }
        return nil
    }

    /// The part up to and including the first `delimiter` that lies behind `prefixCount` bytes.
    func commonPrefix(after prefixCount: Int, delimiter: [UInt8]) -> FakeS3Key? {
        guard let first = delimiter.first, bytes.count > prefixCount else { return nil }
        let last = bytes.count - delimiter.count
        var index = prefixCount
        while index <= last, let found = bytes[index...].firstIndex(of: first), found <= last {
            if bytes[found..<found + delimiter.count].elementsEqual(delimiter) {
                return FakeS3Key(Array(bytes[..<(found + delimiter.count)]))
            }
            index = found + 1
        }
        return nil
    }

    private static func compare(
        _ left: UnsafeRawPointer?,
        _ right: UnsafeRawPointer?,
        _ count: Int
    ) -> Int32 {
        guard let left, let right, count > 0 else { return 0 }
        return memcmp(left, right, count)
    }
}

extension FakeS3Key: ExpressibleByStringLiteral, CustomStringConvertible {
    public init(stringLiteral text: String) {
        self.init(text)
    }

    public var description: String { text }
}

/// How URLs and listings write bytes that may not stand in them as they are.
enum FakeS3Encoding {
    private static let isUnreserved: [Bool] = (0...255).map { byte in
        switch UInt8(byte) {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        case UInt8(ascii: "-"), UInt8(ascii: "_"), UInt8(ascii: "."), UInt8(ascii: "*"),
            UInt8(ascii: "/"):
            true
        default:
            false
        }
    }

    /// As listings with `encoding-type=url` have it.
    static func encoded(_ bytes: [UInt8], spaceAsPlus: Bool) -> String {
        if bytes.allSatisfy({ isUnreserved[Int($0)] }) {
            return String(decoding: bytes, as: UTF8.self)
        }
        var text = ""
        for byte in bytes {
            if isUnreserved[Int(byte)] {
                text.unicodeScalars.append(Unicode.Scalar(byte))
            } else if byte == UInt8(ascii: " "), spaceAsPlus {
                text += "+"
            } else {
                text += "%" + hex([byte]).uppercased()
            }
        }
        return text
    }

    /// `nil` for a percent sign that two hexadecimal digits do not follow.
    static func decoded(_ text: some StringProtocol, plusAsSpace: Bool = false) -> [UInt8]? {
        var bytes: [UInt8] = []
        var rest = Array(text.utf8)[...]
        while let byte = rest.popFirst() {
            if byte == UInt8(ascii: "%") {
                guard let high = rest.popFirst().flatMap(digit),
                    let low = rest.popFirst().flatMap(digit)
                else { return nil }
                bytes.append(high << 4 | low)
            } else if byte == UInt8(ascii: "+"), plusAsSpace {
                bytes.append(UInt8(ascii: " "))
            } else {
                bytes.append(byte)
            }
        }
        return bytes
    }

    static func hex(_ bytes: some Sequence<UInt8>) -> String {
        bytes.reduce(into: "") { text, byte in
            text += (byte < 16 ? "0" : "") + String(byte, radix: 16)
        }
    }

    static func unhex(_ text: some StringProtocol) -> [UInt8]? {
        let digits = text.utf8.compactMap(digit)
        guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    static func base64(_ bytes: [UInt8]) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        var text = ""
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start...].prefix(3)
            let number = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            for index in 0..<4 {
                text.append(
                    index <= group.count ? digits[number >> (18 - 6 * index) & 63] : "="
                )
            }
        }
        return text
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        Character(Unicode.Scalar(byte)).hexDigitValue.map { UInt8($0) }
    }
}
