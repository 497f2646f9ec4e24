/// The pictures of a raw photo of Canon's newer cameras (CR3).
///
/// - Source: "Canon CR3 format" by Laurent Clévy: `THMB` in the first box of Canon's own in
///   `moov`, beside the tags; `PRVW` in one of its own behind it.
enum CanonPictures {
    private static let owner: [UInt8] = [
        0x85, 0xc0, 0xb6, 0x87, 0x82, 0x0f, 0x11, 0xe0, 0x81, 0x11, 0xf4, 0xce, 0x46, 0x2b, 0x6a,
        0x48,
    ]
    private static let previews: [UInt8] = [
        0xea, 0xf4, 0x2b, 0x5e, 0x1c, 0x98, 0x4b, 0x88, 0xb9, 0xfb, 0xb7, 0xdc, 0x40, 0x6e, 0x4d,
        0x16,
    ]
    /// Of the numbers before a picture.
    private static let mostHeaderBytes: Int64 = 32

    static func all(
        in file: KnownBytes,
        for want: EmbeddedPicture.Want
    ) throws(KnownBytes.Stop) -> [EmbeddedPicture] {
        let media = MediaBoxes(file: file)
        var pictures: [EmbeddedPicture] = []
        let film = try media.first(["moov"]).content
        var turn = EmbeddedPicture.Turn.none
        for own in try media.boxes(in: film) where try isOwned(own, by: owner, file) {
            for box in try media.boxes(in: own.content.dropFirst(16)) {
                if box.type == "CMT1" {
                    turn = try TIFFPictures(file, at: box.content.lowerBound).turn()
                } else if box.type == "THMB" {
                    pictures += try jpeg(in: box.content, count: 8, file)
                }
            }
        }
        // The larger one lies far behind.
        if want == .large || pictures.isEmpty {
            for own in try media.boxes(in: film.upperBound..<file.size)
            where try isOwned(own, by: previews, file) {
                for box in try media.boxes(in: own.content.dropFirst(24)) where box.type == "PRVW" {
                    pictures += try jpeg(in: box.content, count: 12, file)
                }
            }
        }
        return pictures.map { EmbeddedPicture(form: .jpeg, range: $0.range, turn: turn) }
    }

    private static func isOwned(
        _ box: MediaBoxes.Box,
        by owner: [UInt8],
        _ file: KnownBytes
    ) throws(KnownBytes.Stop) -> Bool {
        guard box.type == "uuid", box.content.count >= 24 else { return false }
        return try file.bytes(at: box.content.lowerBound, count: 16).elementsEqual(owner)
    }

    /// - Parameter count: Where in the box the length of the JPEG is written.
    private static func jpeg(
        in box: Range<Int64>,
        count: Int64,
        _ file: KnownBytes
    ) throws(KnownBytes.Stop) -> [EmbeddedPicture] {
        let headCount = min(mostHeaderBytes, Int64(box.count))
        let head = try file.bytes(at: box.lowerBound, count: headCount)
        let length = try file.number(at: box.lowerBound + count, bytes: 4)
        let first = head.indices.first { head[$0...].starts(with: [0xff, 0xd8]) }
        guard let first else { return [] }
        let start = box.lowerBound + Int64(first - head.startIndex)
        guard length > 0, start <= box.upperBound - length else { return [] }
        return [EmbeddedPicture(form: .jpeg, range: start..<start + length, turn: nil)]
    }
}
