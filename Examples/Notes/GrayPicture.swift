import Foundation

/// A picture in shades of gray, small enough to be written without a library.
struct GrayPicture {
    private let width: Int
    private let height: Int
    private var pixels: [UInt8]

    init(width: Int, height: Int, shade: UInt8) {
        self.width = width
        self.height = height
        pixels = Array(repeating: shade, count: width * height)
    }

    /// Fills a rectangle; what of it is outside is left out.
    mutating func fill(x: Int, y: Int, width: Int, height: Int, shade: UInt8) {
        for row in max(0, y)..<max(0, min(y + height, self.height)) {
            for column in max(0, x)..<max(0, min(x + width, self.width)) {
                pixels[row * self.width + column] = shade
            }
        }
    }

    /// The picture as PNG, not compressed.
    ///
    /// - Source: PNG specification; RFC 1950 and 1951 for what stands inside.
    var png: Data {
        var rows: [UInt8] = []
        // Each row begins with its filter: none.
        for row in 0..<height { rows += [0] + pixels[row * width..<(row + 1) * width] }
        let header = Self.bytes(UInt32(width)) + Self.bytes(UInt32(height)) + [8, 0, 0, 0, 0]
        return Data(
            [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a] + Self.chunk("IHDR", header)
                + Self.chunk("IDAT", Self.stored(rows)) + Self.chunk("IEND", [])
        )
    }

    /// A zlib stream of one stored block, which holds at most 65,535 bytes.
    private static func stored(_ bytes: [UInt8]) -> [UInt8] {
        precondition(bytes.count <= 0xffff, "a larger picture needs several blocks")
        let length = UInt16(bytes.count)
        var (low, high): (UInt32, UInt32) = (1, 0)
        for byte in bytes {
            low = (low + UInt32(byte)) % 65_521
            high = (high + low) % 65_521
        }
        let lengths = [length, ~length].flatMap { [UInt8(truncatingIfNeeded: $0), UInt8($0 >> 8)] }
        return [0x78, 0x01, 0x01] + lengths + bytes + Self.bytes(high << 16 | low)
    }

    private static func chunk(_ type: String, _ data: [UInt8]) -> [UInt8] {
        let body = Array(type.utf8) + data
        var sum = ~UInt32(0)
        for byte in body {
            sum ^= UInt32(byte)
            for _ in 0..<8 { sum = sum & 1 == 1 ? 0xedb8_8320 ^ sum >> 1 : sum >> 1 }
        }
        return bytes(UInt32(data.count)) + body + bytes(~sum)
    }

    private static func bytes(_ value: UInt32) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }
}
