/// How a text, a tag or a query, looks as the name of a folder: `/`, and names that no folder can
/// have, are written `%XX`.
enum EscapedName {
    private static let percent = UInt8(ascii: "%")
    private static let dots: Set<[UInt8]> = [Array(".".utf8), Array("..".utf8)]

    /// - Returns: `nil` for a text too long for a name.
    static func name(of text: String) -> [UInt8]? {
        var name: [UInt8] = []
        let isDots = dots.contains(Array(text.utf8))
        for byte in text.utf8 {
            if byte == percent || byte == UInt8(ascii: "/") || isDots {
                name += Array("%\(Hexadecimal.text([byte]).uppercased())".utf8)
            } else {
                name.append(byte)
            }
        }
        return name.count <= ItemName.maximumByteCount ? name : nil
    }

    /// The text whose folder has this name; `nil` if none has.
    static func text(of name: ItemName) -> String? {
        var bytes: [UInt8] = []
        var rest = name.bytes[...]
        while let byte = rest.popFirst() {
            guard byte == percent else {
                bytes.append(byte)
                continue
            }
            let digits = String(decoding: rest.prefix(2), as: UTF8.self)
            guard rest.count >= 2, let value = UInt8(digits, radix: 16) else { return nil }
            rest = rest.dropFirst(2)
            bytes.append(value)
        }
        guard let text = String(validating: bytes, as: UTF8.self),
            self.name(of: text) == name.bytes
        else { return nil }
        return text
    }
}
