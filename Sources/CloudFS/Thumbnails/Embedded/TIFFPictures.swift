/// The pictures that a TIFF file refers to: what Exif is, and most raw photos are.
///
/// - Source: TIFF 6.0; TIFF Technical Note 2; Adobe's DNG specification 1.6, "Preview images".
struct TIFFPictures {
    /// One list of tags.
    private struct Directory {
        /// Of one tag: its type, how many values, and where they are.
        struct Field {
            var type: Int64
            var count: Int64
            var values: Int64
        }

        var fields: [Int64: Field] = [:]
        var next: Int64 = 0
    }

    private enum Tag {
        static let kind: Int64 = 0xfe
        static let width: Int64 = 0x100
        static let height: Int64 = 0x101
        static let bits: Int64 = 0x102
        static let compression: Int64 = 0x103
        static let photometric: Int64 = 0x106
        static let stripOffsets: Int64 = 0x111
        static let orientation: Int64 = 0x112
        static let samples: Int64 = 0x115
        static let stripCounts: Int64 = 0x117
        static let children: Int64 = 0x14a
        static let jpegOffset: Int64 = 0x201
        static let jpegCount: Int64 = 0x202
        /// Panasonic's: a whole JPEG.
        static let panasonic: Int64 = 0x2e
        /// Canon's: how the sensor's own data, a JPEG of another kind, are cut.
        static let canonSlices: Int64 = 0xc640
    }

    private static let mostDirectories = 16
    private static let mostFields: Int64 = 512
    private static let mostChildren: Int64 = 8
    /// Sides of pictures without compression: a camera's are 160 or 256 pixels wide.
    private static let mostPixels: Int64 = 512

    private let file: KnownBytes
    /// Where its offsets count from.
    private let base: Int64
    private let isBigEndian: Bool
    /// Whether it may hold a whole JPEG: that has lists of its own, in which none is looked for.
    private let isPanasonic: Bool

    /// - Throws: `nothing` for what is no TIFF.
    init(_ file: KnownBytes, at base: Int64) throws(KnownBytes.Stop) {
        self.file = file
        self.base = base
        let mark = Array(try file.bytes(at: base, count: 4))
        isBigEndian = mark[0] == UInt8(ascii: "M")
        // 42, as Douglas Adams has it, or what Panasonic writes there.
        let isKnown =
            mark == Array("MM\0*".utf8) || mark == Array("II*\0".utf8)
            || mark == Array("IIU\0".utf8)
        guard isKnown else { throw .nothing }
        isPanasonic = base == 0 && mark == Array("IIU\0".utf8)
    }

    /// How the camera was held.
    func turn() throws(KnownBytes.Stop) -> EmbeddedPicture.Turn {
        EmbeddedPicture.Turn(
            orientation: try value(Tag.orientation, of: try directory(at: try start())) ?? 1
        )
    }

    /// All pictures, as the camera was held.
    func all() throws(KnownBytes.Stop) -> [EmbeddedPicture] {
        var pictures: [EmbeddedPicture] = []
        var waiting = [try start()]
        var seen: Set<Int64> = []
        var turn: EmbeddedPicture.Turn?
        while let offset = waiting.popLast() {
            guard offset > 0, seen.count < Self.mostDirectories, seen.insert(offset).inserted
            else { continue }
            do throws(KnownBytes.Stop) {
                let directory = try directory(at: offset)
                // The first list tells it for all of them.
                let orientation = try value(Tag.orientation, of: directory) ?? 1
                let upright = turn ?? EmbeddedPicture.Turn(orientation: orientation)
                turn = upright
                pictures += try self.pictures(of: directory, upright)
                waiting.append(directory.next)
                waiting += try children(of: directory)
            } catch {
                // What one list says wrongly takes nothing from the others.
                guard error == .nothing else { throw error }
            }
        }
        return pictures
    }

    private func pictures(
        of directory: Directory,
        _ turn: EmbeddedPicture.Turn
    ) throws(KnownBytes.Stop) -> [EmbeddedPicture] {
        if isPanasonic, let field = directory.fields[Tag.panasonic], field.type == 7 {
            let start = base + (try number(at: field.values))
            guard let range = range(start, field.count) else { return [] }
            return try JPEGPictures.all(in: file, at: start)
                + [EmbeddedPicture(form: .jpeg, range: range, turn: nil)]
        }
        if let start = try value(Tag.jpegOffset, of: directory),
            let count = try value(Tag.jpegCount, of: directory),
            let range = range(base + start, count)
        {
            return [EmbeddedPicture(form: .jpeg, range: range, turn: turn)]
        }
        guard let range = try strip(of: directory) else { return [] }
        switch try value(Tag.compression, of: directory) ?? 1 {
        case 1:
            guard let form = try pixels(of: directory, range.count) else { return [] }
            return [EmbeddedPicture(form: form, range: range, turn: turn)]
        case 6, 7:
            return try isSensorData(directory)
                ? [] : [EmbeddedPicture(form: .jpeg, range: range, turn: turn)]
        default: return []
        }
    }

    /// Where the picture is if it lies in one piece.
    private func strip(of directory: Directory) throws(KnownBytes.Stop) -> Range<Int64>? {
        guard directory.fields[Tag.stripOffsets]?.count == 1,
            let start = try value(Tag.stripOffsets, of: directory),
            let count = try value(Tag.stripCounts, of: directory)
        else { return nil }
        return range(base + start, count)
    }

    /// What the sensor saw is compressed as JPEG without loss, which no viewer shows.
    private func isSensorData(_ directory: Directory) throws(KnownBytes.Stop) -> Bool {
        let photometric = try value(Tag.photometric, of: directory) ?? 0
        let kind = try value(Tag.kind, of: directory)
        return directory.fields[Tag.canonSlices] != nil || photometric > 0x7fff || kind == 0
    }

    private func pixels(
        of directory: Directory,
        _ count: Int
    ) throws(KnownBytes.Stop) -> EmbeddedPicture.Form? {
        guard let width = try value(Tag.width, of: directory),
            let height = try value(Tag.height, of: directory),
            (1...Self.mostPixels).contains(width), (1...Self.mostPixels).contains(height),
            try value(Tag.photometric, of: directory) == 2,
            try value(Tag.samples, of: directory) == 3,
            try value(Tag.bits, of: directory) ?? 8 == 8,
            Int64(count) == width * height * 3
        else { return nil }
        return .pixels(width: width, height: height)
    }

    private func children(of directory: Directory) throws(KnownBytes.Stop) -> [Int64] {
        guard let field = directory.fields[Tag.children] else { return [] }
        if field.count == 1 { return [try number(at: field.values)] }
        let start = base + (try number(at: field.values))
        var children: [Int64] = []
        for index in 0..<min(field.count, Self.mostChildren) {
            children.append(try number(at: start + 4 * index))
        }
        return children
    }

    private func range(_ start: Int64, _ count: Int64) -> Range<Int64>? {
        count > 0 && start > 0 && start <= file.size - count ? start..<start + count : nil
    }

    // MARK: - Tags

    private func start() throws(KnownBytes.Stop) -> Int64 { try number(at: base + 4) }

    private func number(at place: Int64) throws(KnownBytes.Stop) -> Int64 {
        try file.number(at: place, bytes: 4, isBigEndian: isBigEndian)
    }

    private func directory(at offset: Int64) throws(KnownBytes.Stop) -> Directory {
        let count = try file.number(at: base + offset, bytes: 2, isBigEndian: isBigEndian)
        guard count <= Self.mostFields else { throw .nothing }
        let first = base + offset + 2
        // Asked for as one.
        _ = try file.bytes(at: first, count: count * 12 + 4)
        var directory = Directory()
        for place in stride(from: first, to: first + count * 12, by: 12) {
            let tag = try file.number(at: place, bytes: 2, isBigEndian: isBigEndian)
            directory.fields[tag] = Directory.Field(
                type: try file.number(at: place + 2, bytes: 2, isBigEndian: isBigEndian),
                count: try number(at: place + 4),
                values: place + 8
            )
        }
        directory.next = try number(at: first + count * 12)
        return directory
    }

    /// The first value of a tag; `nil` if it is not there or no number.
    private func value(_ tag: Int64, of directory: Directory) throws(KnownBytes.Stop) -> Int64? {
        guard let field = directory.fields[tag], field.count > 0 else { return nil }
        let isShort = field.type == 3
        guard isShort || field.type == 4 || field.type == 13 else { return nil }
        let size: Int64 = isShort ? 2 : 4
        let isInside = field.count * size <= 4
        let place = isInside ? field.values : base + (try number(at: field.values))
        return try file.number(at: place, bytes: size, isBigEndian: isBigEndian)
    }
}
