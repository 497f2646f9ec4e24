/// Bytes as hexadecimal digits.
enum Hexadecimal {
    private static let small = Array("0123456789abcdef".utf8)
    private static let capital = Array("0123456789ABCDEF".utf8)

    /// Two digits for each byte.
    static func digits(of bytes: some Sequence<UInt8>, capitals: Bool = false) -> [UInt8] {
        let digits = capitals ? capital : small
        return bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] }
    }

    /// Two small digits for each byte, as text.
    static func text(_ bytes: some Sequence<UInt8>) -> String {
        String(decoding: digits(of: bytes), as: UTF8.self)
    }

    /// The bytes that an even number of digits stand for; `nil` for anything else.
    static func bytes(_ text: some Collection<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var high: UInt8?
        for digit in text {
            let value: UInt8
            switch digit {
            case 0x30...0x39: value = digit - 0x30
            case 0x41...0x46: value = digit - 0x41 + 10
            case 0x61...0x66: value = digit - 0x61 + 10
            default: return nil
            }
            if let first = high {
                bytes.append(first << 4 | value)
                high = nil
            } else {
                high = value
            }
        }
        return high == nil ? bytes : nil
    }
}
