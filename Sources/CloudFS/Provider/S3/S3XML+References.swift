extension S3XML {
    /// A listing without references to characters that XML forbids.
    ///
    /// Ceph repeats the prefix it was asked for with such references when it holds control
    /// characters. Keys are percent-encoded, so that nothing else of a listing can hold one.
    static func withoutForbiddenReferences(_ document: [UInt8]) -> [UInt8] {
        let ampersand = UInt8(ascii: "&")
        guard document.contains(ampersand) else { return document }
        var result: [UInt8] = []
        result.reserveCapacity(document.count)
        var rest = document[...]
        while let start = rest.firstIndex(of: ampersand) {
            result += rest[..<start]
            rest = rest[start...]
            let end = rest.prefix(maximumReferenceByteCount).firstIndex(of: UInt8(ascii: ";"))
            guard let end, isForbidden(rest[(start + 1)..<end]) else {
                result.append(ampersand)
                rest = rest.dropFirst()
                continue
            }
            result.append(UInt8(ascii: "?"))
            rest = rest[(end + 1)...]
        }
        return result + rest
    }

    private static let maximumReferenceByteCount = 12

    /// - Parameter reference: What stands between `&` and `;`.
    private static func isForbidden(_ reference: ArraySlice<UInt8>) -> Bool {
        guard reference.first == UInt8(ascii: "#") else { return false }
        let text = String(decoding: reference.dropFirst(), as: UTF8.self).lowercased()
        let number =
            text.hasPrefix("x") ? UInt32(text.dropFirst(), radix: 16) : UInt32(text, radix: 10)
        guard let number else { return false }
        return number < 0x20 && ![0x09, 0x0a, 0x0d].contains(number)
    }
}
