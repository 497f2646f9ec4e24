/// The texts of a PNG, which tell desktops what a thumbnail shows.
///
/// - Source: PNG specification, "tEXt Textual data".
enum PNGText {
    private static let signature: [UInt8] = [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]
    /// Length (4), type (4), 13 bytes of header, checksum (4).
    private static let headerBytes = 25

    /// The picture with texts behind its header; `nil` for what is no PNG.
    static func adding(_ texts: [(key: String, value: String)], to picture: [UInt8]) -> [UInt8]? {
        let start = signature.count + headerBytes
        guard picture.count > start, picture.starts(with: signature),
            Array(picture[(signature.count + 4)..<(signature.count + 8)]) == Array("IHDR".utf8)
        else { return nil }
        let chunks = texts.flatMap { text in
            chunk("tEXt", Array(text.key.utf8) + [0] + Array(text.value.utf8))
        }
        return Array(picture[..<start]) + chunks + Array(picture[start...])
    }

    /// The texts before the picture itself, as far as they are in `beginning`.
    static func texts(of beginning: [UInt8]) -> [String: String] {
        guard beginning.starts(with: signature) else { return [:] }
        var texts: [String: String] = [:]
        var position = signature.count
        while position + 8 <= beginning.count {
            let length = beginning[position..<(position + 4)].reduce(0) { $0 << 8 | Int($1) }
            let type = beginning[(position + 4)..<(position + 8)]
            let end = position + 8 + length
            guard end + 4 <= beginning.count, !type.elementsEqual("IDAT".utf8) else { break }
            if type.elementsEqual("tEXt".utf8) {
                let words = beginning[(position + 8)..<end].split(separator: 0, maxSplits: 1)
                if words.count == 2 {
                    texts[String(decoding: words[0], as: UTF8.self)] =
                        String(decoding: words[1], as: UTF8.self)
                }
            }
            position = end + 4
        }
        return texts
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let body = Array(type.utf8) + data
        return bigEndian(UInt32(data.count)) + body + bigEndian(checksum(body))
    }

    private static func bigEndian(_ value: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }

    private static let table: [UInt32] = (0..<256).map { index in
        (0..<8).reduce(UInt32(index)) { value, _ in
            value & 1 == 1 ? 0xedb8_8320 ^ value >> 1 : value >> 1
        }
    }

    /// CRC-32 of ISO 3309.
    private static func checksum(_ bytes: [UInt8]) -> UInt32 {
        ~bytes.reduce(~UInt32(0)) { table[Int(($0 ^ UInt32($1)) & 0xff)] ^ $0 >> 8 }
    }
}
