/// Files as cameras write them, as far as the pictures within them go.
public enum CameraFile {
    /// A photo with a small picture in its Exif data.
    public static func jpeg(
        _ photo: [UInt8],
        small: [UInt8],
        orientation: Int = 1,
        isBigEndian: Bool = false
    ) -> [UInt8] {
        var exif = TIFFFile(directories: 2, isBigEndian: isBigEndian)
        let place = exif.append(small)
        exif.set(0, [.short(0x112, orientation)], next: 1)
        exif.set(1, [.short(0x103, 6), .long(0x201, place), .long(0x202, small.count)])
        let body = Array("Exif\0\0".utf8) + exif.bytes
        let segment = [0xff, 0xe1] + big(body.count + 2, 2) + body
        return Array(photo[..<2]) + segment + Array(photo[2...])
    }

    /// Nikon's NEF: a picture without compression, then children: the photo as a JPEG, the
    /// sensor's data, and a preview.
    public static func nikon(
        pixels: [UInt8],
        width: Int,
        full: [UInt8],
        preview: [UInt8],
        sensor: [UInt8],
        orientation: Int = 1
    ) -> [UInt8] {
        var file = TIFFFile(directories: 4, isBigEndian: true)
        let places = [pixels, full, sensor, preview].map { file.append($0) }
        let height = pixels.count / width / 3
        file.set(
            0,
            [
                .long(0xfe, 1), .long(0x100, width), .long(0x101, height), .short(0x103, 1),
                .short(0x106, 2), .long(0x111, places[0]), .short(0x112, orientation),
                .short(0x115, 3), .long(0x117, pixels.count), .directories(0x14a, [1, 2, 3]),
            ]
        )
        file.set(1, [.long(0xfe, 1), .long(0x201, places[1]), .long(0x202, full.count)])
        file.set(
            2,
            [
                .long(0xfe, 0), .short(0x103, 34_713), .short(0x106, 32_803),
                .long(0x111, places[2]), .long(0x117, sensor.count),
            ]
        )
        file.set(3, [.long(0xfe, 1), .long(0x201, places[3]), .long(0x202, preview.count)])
        return file.bytes
    }

    /// Adobe's DNG: the sensor's data as a JPEG of another kind in a child of their own.
    public static func adobe(
        preview: [UInt8],
        sensor: [UInt8],
        orientation: Int = 1
    ) -> [UInt8] {
        var file = TIFFFile(directories: 2, isBigEndian: false)
        let (shown, seen) = (file.append(preview), file.append(sensor))
        file.set(
            0,
            [
                .long(0xfe, 1), .short(0x103, 7), .short(0x106, 6), .long(0x111, shown),
                .short(0x112, orientation), .long(0x117, preview.count),
                .directories(0x14a, [1]), .byte4(0xc612, [1, 4, 0, 0]),
            ]
        )
        file.set(
            1,
            [
                .long(0xfe, 0), .short(0x103, 7), .short(0x106, 32_803), .long(0x111, seen),
                .long(0x117, sensor.count),
            ]
        )
        return file.bytes
    }

    /// Canon's CR2: a large picture, a small one, and the sensor's data.
    public static func canon(large: [UInt8], small: [UInt8], sensor: [UInt8]) -> [UInt8] {
        var file = TIFFFile(directories: 3, isBigEndian: false)
        let places = [large, small, sensor].map { file.append($0) }
        file.set(
            0,
            [
                .short(0x103, 6), .long(0x111, places[0]), .short(0x112, 8),
                .long(0x117, large.count),
            ],
            next: 1
        )
        file.set(1, [.long(0x201, places[1]), .long(0x202, small.count)], next: 2)
        file.set(
            2,
            [
                .short(0x103, 6), .long(0x111, places[2]), .long(0x117, sensor.count),
                .long(0xc640, 0),
            ]
        )
        return file.bytes
    }

    /// Panasonic's RW2 holds a whole photo.
    public static func panasonic(_ photo: [UInt8]) -> [UInt8] {
        var file = TIFFFile(directories: 1, isBigEndian: false, mark: 0x55)
        let place = file.append(photo)
        file.set(0, [.bytes(0x2e, place, photo.count)])
        return file.bytes
    }

    /// Fuji's RAF, too.
    public static func fuji(_ photo: [UInt8]) -> [UInt8] {
        let start = 148
        var bytes = Array("FUJIFILMCCD-RAW 0201FF393102X-T1".utf8)
        bytes += [UInt8](repeating: 0, count: 84 - bytes.count)
        bytes += big(start, 4) + big(photo.count, 4)
        bytes += [UInt8](repeating: 0, count: start - bytes.count)
        return bytes + photo + [UInt8](repeating: 7, count: 5_000)
    }

    /// Canon's CR3.
    public static func canon3(
        small: [UInt8],
        large: [UInt8],
        sensor: [UInt8],
        orientation: Int = 1
    ) -> [UInt8] {
        var tags = TIFFFile(directories: 1, isBigEndian: false)
        tags.set(0, [.short(0x112, orientation)])
        let sizes = [big(160, 2), big(120, 2)]
        let thumbnail = [[big(0, 4)], sizes, [big(small.count, 4), big(1, 2), big(0, 2), small]]
        let preview = [[big(0, 4), big(1, 2)], sizes, [big(1, 2), big(large.count, 4), large]]
        let own = [
            canonOwner, box("CNCV", [Array("CanonCR3_001/00.09.00/00.00.00".utf8)]),
            box("CMT1", [tags.bytes]), box("THMB", thumbnail.flatMap(\.self)),
        ]
        let boxes = [
            box("ftyp", [Array("crx \0\0\0\u{1}crx isom".utf8)]),
            box("moov", [box("uuid", own)]),
            box("uuid", [[UInt8](repeating: 0x20, count: 65_000)]),
            box(
                "uuid",
                [canonPreviews, big(0, 4), big(1, 4), box("PRVW", preview.flatMap(\.self))]
            ),
            box("mdat", [sensor]),
        ]
        return boxes.flatMap(\.self)
    }

    /// A HEIF file of two items, the second of which is the thumbnail of the first.
    public static func heif(picture: [UInt8], thumbnail: [UInt8]) -> [UInt8] {
        func meta(_ start: Int) -> [UInt8] {
            let places = [(1, start, picture.count), (2, start + picture.count, thumbnail.count)]
            let located = places.flatMap { item, place, count in
                [big(item, 2), big(0, 2), big(0, 2), big(1, 2), big(place, 4), big(count, 4)]
            }
            let boxes = [
                big(0, 4),
                box("pitm", [big(0, 4), big(1, 2)]),
                box("iloc", [big(1 << 24, 4), big(0x4400, 2), big(2, 2)] + located),
                box("iref", [big(0, 4), box("thmb", [big(2, 2), big(1, 2), big(1, 2)])]),
            ]
            return box("meta", boxes)
        }
        let head = box("ftyp", [Array("heic\0\0\0\0mif1heic".utf8)])
        let start = head.count + meta(0).count + 8
        return head + meta(start) + box("mdat", [picture, thumbnail])
    }

    private static let canonOwner: [UInt8] = [
        0x85, 0xc0, 0xb6, 0x87, 0x82, 0x0f, 0x11, 0xe0, 0x81, 0x11, 0xf4, 0xce, 0x46, 0x2b, 0x6a,
        0x48,
    ]
    private static let canonPreviews: [UInt8] = [
        0xea, 0xf4, 0x2b, 0x5e, 0x1c, 0x98, 0x4b, 0x88, 0xb9, 0xfb, 0xb7, 0xdc, 0x40, 0x6e, 0x4d,
        0x16,
    ]

    private static func box(_ type: String, _ parts: [[UInt8]]) -> [UInt8] {
        let content = parts.flatMap(\.self)
        return big(content.count + 8, 4) + Array(type.utf8) + content
    }
}

private func big(_ value: Int, _ count: Int) -> [UInt8] {
    (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
}

/// Lists of tags in places of 512 bytes each, and what they refer to behind them.
private struct TIFFFile {
    enum Field {
        case short(Int, Int)
        case long(Int, Int)
        case byte4(Int, [UInt8])
        /// Bytes elsewhere: where, and how many.
        case bytes(Int, Int, Int)
        case directories(Int, [Int])
    }

    private static let room = 512

    private(set) var bytes: [UInt8]
    private let isBigEndian: Bool

    init(directories: Int, isBigEndian: Bool, mark: Int = 42) {
        self.isBigEndian = isBigEndian
        bytes = Array((isBigEndian ? "MM" : "II").utf8)
        bytes += number(mark, 2) + number(8, 4)
        bytes += [UInt8](repeating: 0, count: Self.room * directories)
    }

    /// - Returns: Where it lies.
    mutating func append(_ content: [UInt8]) -> Int {
        defer { bytes += content }
        return bytes.count
    }

    mutating func set(_ index: Int, _ fields: [Field], next: Int? = nil) {
        let place = Self.place(index)
        var behind = place + 256
        var list = number(fields.count, 2)
        for field in fields {
            switch field {
            case .short(let tag, let value):
                list += entry(tag, 3, 1) + number(value, 2) + [0, 0]
            case .long(let tag, let value): list += entry(tag, 4, 1) + number(value, 4)
            case .byte4(let tag, let value): list += entry(tag, 1, 4) + value
            case .bytes(let tag, let start, let count):
                list += entry(tag, 7, count) + number(start, 4)
            case .directories(let tag, let indices):
                let places = indices.flatMap { number(Self.place($0), 4) }
                list += entry(tag, 4, indices.count)
                list += indices.count == 1 ? places : number(behind, 4)
                bytes.replaceSubrange(behind..<behind + places.count, with: places)
                behind += places.count
            }
        }
        list += number(next.map(Self.place) ?? 0, 4)
        bytes.replaceSubrange(place..<place + list.count, with: list)
    }

    private static func place(_ index: Int) -> Int { 8 + room * index }

    private func entry(_ tag: Int, _ type: Int, _ count: Int) -> [UInt8] {
        number(tag, 2) + number(type, 2) + number(count, 4)
    }

    private func number(_ value: Int, _ count: Int) -> [UInt8] {
        let bytes = big(value, count)
        return isBigEndian ? bytes : bytes.reversed()
    }
}
