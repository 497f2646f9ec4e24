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
        if let own = try first(of: media.boxes(in: film), ownedBy: owner, file) {
            let boxes = try media.boxes(in: own.content.dropFirst(16))
            if let tags = boxes.first(where: { $0.type == "CMT1" }) {
                turn = try TIFFPictures(file, at: tags.content.lowerBound).turn()
            }
            if let small = boxes.first(where: { $0.type == "THMB" }) {
                pictures += try jpeg(in: small.content, count: 8, file)
            }
        }
        // The larger one lies far behind.
        if want == .large || pictures.isEmpty {
            let others = try media.boxes(in: film.upperBound..<file.size)
            if let own = try first(of: others, ownedBy: previews, file) {
                let boxes = try media.boxes(in: own.content.dropFirst(24))
                if let large = boxes.first(where: { $0.type == "PRVW" }) {
                    pictures += try jpeg(in: large.content, count: 12, file)
                }
            }
        }
        return pictures.map { EmbeddedPicture(form: .jpeg, range: $0.range, turn: turn) }
    }

    /// A file may say it of many; a camera says it of one.
    private static func first(
        of boxes: [MediaBoxes.Box],
        ownedBy owner: [UInt8],
        _ file: KnownBytes
    ) throws(KnownBytes.Stop) -> MediaBoxes.Box? {
        for box in boxes where box.type == "uuid" && box.content.count >= 24 {
            let own = try file.bytes(at: box.content.lowerBound, count: 16)
            if own.elementsEqual(owner) { return box }
        }
        return nil
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
