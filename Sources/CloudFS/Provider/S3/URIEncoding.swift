/// Percent-encoding as request signatures define it: only RFC 3986's unreserved bytes stay.
///
/// It works on bytes, because an object's key may be any bytes, also such as are no UTF-8.
enum URIEncoding {
    private static let hexDigits = Array("0123456789ABCDEF".utf8)

    /// Encodes every byte but letters, digits and `-._~`, with capital hexadecimal digits.
    ///
    /// - Parameters:
    ///   - bytes: What to encode.
    ///   - keepingSlash: Whether `/` stays too, as it does in paths but not in queries.
    static func encode(_ bytes: some Sequence<UInt8>, keepingSlash: Bool) -> String {
        var encoded: [UInt8] = []
        encoded.reserveCapacity(bytes.underestimatedCount)
        for byte in bytes {
            if isUnreserved(byte) || (keepingSlash && byte == UInt8(ascii: "/")) {
                encoded.append(byte)
            } else {
                encoded.append(UInt8(ascii: "%"))
                encoded.append(hexDigits[Int(byte >> 4)])
                encoded.append(hexDigits[Int(byte & 0x0f)])
            }
        }
        return String(decoding: encoded, as: UTF8.self)
    }

    /// Decodes percent-encoding; `nil` when a `%` is not followed by two hexadecimal digits.
    ///
    /// - Parameters:
    ///   - encoded: The encoded text.
    ///   - plusIsSpace: Whether `+` means a space, as in forms and in S3's listings.
    static func decode(
        _ encoded: some Sequence<UInt8>,
        plusIsSpace: Bool = false
    ) -> [UInt8]? {
        var decoded: [UInt8] = []
        decoded.reserveCapacity(encoded.underestimatedCount)
        var bytes = encoded.makeIterator()
        while let byte = bytes.next() {
            switch byte {
            case UInt8(ascii: "%"):
                guard let high = bytes.next().flatMap(hexValue),
                    let low = bytes.next().flatMap(hexValue)
                else { return nil }
                decoded.append(high << 4 | low)
            case UInt8(ascii: "+") where plusIsSpace:
                decoded.append(UInt8(ascii: " "))
            default:
                decoded.append(byte)
            }
        }
        return decoded
    }

    private static func isUnreserved(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."),
            UInt8(ascii: "_"), UInt8(ascii: "~"):
            true
        default: false
        }
    }

    private static func hexValue(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
