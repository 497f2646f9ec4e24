/// The small picture that a camera puts into the Exif data of a JPEG.
///
/// - Source: Exif 2.32, "Basic structure of thumbnail data".
enum JPEGPictures {
    /// Segments before the picture itself.
    private static let mostSegments = 32

    /// - Parameter start: Where in the file the JPEG begins.
    static func all(
        in file: KnownBytes,
        at start: Int64
    ) throws(KnownBytes.Stop) -> [EmbeddedPicture] {
        guard try file.number(at: start, bytes: 2) == 0xffd8 else { return [] }
        var place = start + 2
        for _ in 0..<mostSegments {
            let mark = try file.number(at: place, bytes: 2)
            // Neither an application's data nor a comment: the picture begins.
            guard (0xffe0...0xffef).contains(mark) || mark == 0xfffe else { return [] }
            let count = try file.number(at: place + 2, bytes: 2)
            if mark == 0xffe1, count > 8,
                try file.bytes(at: place + 4, count: 6).elementsEqual("Exif\0\0".utf8)
            {
                return try TIFFPictures(file, at: place + 10).all()
            }
            place += 2 + max(2, count)
        }
        return []
    }
}
