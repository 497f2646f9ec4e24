/// The boxes of a file of the ISO base media format.
///
/// - Source: ISO/IEC 14496-12, "Object structure".
struct MediaBoxes {
    struct Box: Sendable, Equatable {
        var type: String
        /// What is in it, without its header.
        var content: Range<Int64>
    }

    private static let mostBoxes = 128

    let file: KnownBytes

    /// The boxes that lie in a range.
    func boxes(in range: Range<Int64>) throws(KnownBytes.Stop) -> [Box] {
        var boxes: [Box] = []
        var place = range.lowerBound
        while place <= range.upperBound - 8, boxes.count < Self.mostBoxes {
            let (box, end) = try box(at: place, before: range.upperBound)
            boxes.append(box)
            place = end
        }
        return boxes
    }

    /// The first box of one of these types in the file.
    ///
    /// What lies behind it is not asked for.
    func first(_ types: Set<String>) throws(KnownBytes.Stop) -> Box {
        var place: Int64 = 0
        for _ in 0..<Self.mostBoxes where place <= file.size - 8 {
            let (box, end) = try box(at: place, before: file.size)
            if types.contains(box.type) { return box }
            place = end
        }
        throw .nothing
    }

    private func box(
        at place: Int64,
        before limit: Int64
    ) throws(KnownBytes.Stop) -> (Box, end: Int64) {
        var count = try file.number(at: place, bytes: 4)
        var header: Int64 = 8
        let type = try file.bytes(at: place + 4, count: 4)
        if count == 1 {
            guard try file.number(at: place + 8, bytes: 4) < 1 << 30 else { throw .nothing }
            count = try file.number(at: place + 8, bytes: 4) << 32
            count |= try file.number(at: place + 12, bytes: 4)
            header = 16
        } else if count == 0 {
            count = limit - place
        }
        guard count >= header, count <= limit - place else { throw .nothing }
        let box = Box(
            type: String(decoding: type, as: UTF8.self),
            content: place + header..<place + count
        )
        return (box, place + count)
    }
}
