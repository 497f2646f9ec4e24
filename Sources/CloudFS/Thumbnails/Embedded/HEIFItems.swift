/// The thumbnail that a HEIF file (HEIC, AVIF) holds beside its picture.
///
/// - Source: ISO/IEC 23008-12, "thmb"; ISO/IEC 14496-12, "The meta box", "Item location box",
///   "Item reference box", "Primary item box".
struct HEIFItems {
    private static let mostMetaBytes = 1 << 20
    private static let mostItems: Int64 = 4_096

    private let file: KnownBytes
    /// What is in the box `meta`.
    private let boxes: [MediaBoxes.Box]

    /// - Throws: `lacking` until all bytes of the thumbnail are known.
    static func thumbnail(in file: KnownBytes) throws(KnownBytes.Stop) -> EmbeddedPicture {
        let items = try HEIFItems(file)
        let thumbnails = try items.thumbnails(of: try items.primary())
        guard !thumbnails.isEmpty else { throw .nothing }
        for range in try items.places(of: thumbnails) {
            _ = try file.bytes(at: range.lowerBound, count: Int64(range.count))
        }
        return EmbeddedPicture(form: .item, range: 0..<0, turn: nil)
    }

    private init(_ file: KnownBytes) throws(KnownBytes.Stop) {
        self.file = file
        let media = MediaBoxes(file: file)
        let meta = try media.first(["meta"]).content
        guard meta.count > 4, meta.count <= Self.mostMetaBytes else { throw .nothing }
        // Asked for as one.
        _ = try file.bytes(at: meta.lowerBound, count: Int64(meta.count))
        boxes = try media.boxes(in: meta.dropFirst(4))
    }

    private func reader(of type: String) throws(KnownBytes.Stop) -> FieldReader {
        guard let box = boxes.first(where: { $0.type == type }) else { throw .nothing }
        return FieldReader(file, box.content)
    }

    /// The item that is the picture.
    private func primary() throws(KnownBytes.Stop) -> Int64 {
        var reader = try reader(of: "pitm")
        let version = try reader.version()
        return try reader.number(version == 0 ? 2 : 4)
    }

    /// The items that are thumbnails of `primary`.
    private func thumbnails(of primary: Int64) throws(KnownBytes.Stop) -> Set<Int64> {
        var reader = try reader(of: "iref")
        let width: Int64 = try reader.version() == 0 ? 2 : 4
        var items: Set<Int64> = []
        while !reader.isAtEnd {
            let count = try reader.number(4)
            let type = try reader.number(4)
            guard count >= 10 else { throw .nothing }
            var reference = try reader.part(count - 8)
            let item = try reference.number(width)
            for _ in 0..<(try reference.number(2))
            where try reference.number(width) == primary && type == 0x7468_6d62 {
                items.insert(item)
            }
        }
        return items
    }

    /// Where the bytes of these items lie outside `meta`.
    private func places(of items: Set<Int64>) throws(KnownBytes.Stop) -> [Range<Int64>] {
        var reader = try reader(of: "iloc")
        let version = try reader.version()
        let sizes = try reader.number(2)
        let (offset, length, base) = (sizes >> 12, sizes >> 8 & 15, sizes >> 4 & 15)
        let index = version == 0 ? 0 : sizes & 15
        // Every extent takes bytes of the list: there are no more of them than it is long.
        guard length > 0 else { throw .nothing }
        var places: [Range<Int64>] = []
        let count = try reader.number(version < 2 ? 2 : 4)
        guard count <= Self.mostItems else { throw .nothing }
        for _ in 0..<count {
            let item = try reader.number(version < 2 ? 2 : 4)
            let method = version == 0 ? 0 : try reader.number(2) & 15
            // Of this file: 0 in the list of data.
            let isHere = try reader.number(2) == 0
            let start = try reader.number(base)
            for _ in 0..<(try reader.number(2)) {
                _ = try reader.number(index)
                let first = try reader.number(offset)
                let bytes = try reader.number(length)
                guard items.contains(item), method == 0, isHere else { continue }
                guard first <= file.size, start <= file.size, bytes <= file.size else {
                    throw .nothing
                }
                places.append(start + first..<start + first + bytes)
            }
        }
        return places
    }
}

/// Reads the fields of a box one after the other, the most significant byte first.
private struct FieldReader {
    private let file: KnownBytes
    private let end: Int64
    private var place: Int64

    init(_ file: KnownBytes, _ range: Range<Int64>) {
        self.file = file
        place = range.lowerBound
        end = range.upperBound
    }

    var isAtEnd: Bool { place >= end }

    /// - Parameter count: 0, 1, 2, 4 or 8 bytes; a number of none is 0.
    mutating func number(_ count: Int64) throws(KnownBytes.Stop) -> Int64 {
        guard [0, 1, 2, 4, 8].contains(count), count <= end - place else { throw .nothing }
        let value = try file.number(at: place, bytes: count)
        // A file has no place that needs more.
        guard value >= 0 else { throw .nothing }
        place += count
        return value
    }

    /// The version, the first byte of four; the others are flags.
    mutating func version() throws(KnownBytes.Stop) -> Int64 { try number(4) >> 24 }

    /// The next bytes, to be read by themselves.
    mutating func part(_ count: Int64) throws(KnownBytes.Stop) -> FieldReader {
        guard count <= end - place else { throw .nothing }
        defer { place += count }
        return FieldReader(file, place..<place + count)
    }
}
