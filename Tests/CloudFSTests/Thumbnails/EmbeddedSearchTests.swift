import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// Small pictures within photos, and how little of a photo is asked for to find them.
@Suite struct EmbeddedSearchTests {
    /// Something that begins as a JPEG does; which one can be told by its last bytes.
    private static func jpeg(_ count: Int, _ mark: UInt8) -> [UInt8] {
        [0xff, 0xd8, 0xff, 0xdb] + [UInt8](repeating: mark, count: count - 4)
    }

    private static let small = jpeg(9_000, 1)
    private static let preview = jpeg(200_000, 2)
    private static let full = jpeg(3_000_000, 3)
    private static let sensor = jpeg(5_000_000, 4)
    private static let pixels = [UInt8](repeating: 5, count: 160 * 120 * 3)

    private struct Result {
        var finding: EmbeddedSearch.Finding?
        var asked: [Range<Int64>] = []

        var bytes: Int { asked.reduce(0) { $0 + $1.count } }
    }

    private func find(_ search: EmbeddedSearch, in file: [UInt8]) async throws -> Result {
        let asked = Mutex<[Range<Int64>]>([])
        let finding = try await search.find(inFileOf: Int64(file.count)) {
            range throws(CloudFSError) in
            asked.withLock { $0.append(range) }
            return Array(file[Int(range.lowerBound)..<Int(range.upperBound)])
        }
        return Result(finding: finding, asked: asked.withLock { $0 })
    }

    private func picture(
        _ bytes: [UInt8],
        _ preparation: ThumbnailMaker.Preparation
    ) -> EmbeddedSearch.Finding {
        EmbeddedSearch.Finding(
            file: KnownBytes(bytes),
            ending: "jpg",
            preparation: preparation
        )
    }

    @Test(arguments: [false, true])
    func `a photo's small picture is in its first bytes`(isBigEndian: Bool) async throws {
        let photo = CameraFile.jpeg(
            Self.full,
            small: Self.small,
            orientation: 6,
            isBigEndian: isBigEndian
        )
        let result = try await find(.ofPlaceholder, in: photo)
        #expect(result.finding == picture(Self.small, .turn(.right)))
        #expect(result.asked == [0..<(66 << 10)])
        #expect(try await find(.ofPlaceholder, in: Self.full).finding == nil)
    }

    @Test func `a raw photo of Nikon shows the picture that takes fewest bytes, or the largest`()
        async throws
    {
        let photo = CameraFile.nikon(
            pixels: Self.pixels,
            width: 160,
            full: Self.full,
            preview: Self.preview,
            sensor: Self.sensor,
            orientation: 8
        )
        let result = try await find(.ofPlaceholder, in: photo)
        let header = Array("P6 160 120 255\n".utf8)
        #expect(result.finding?.file == KnownBytes(header + Self.pixels))
        #expect(result.finding?.ending == "ppm")
        #expect(result.finding?.preparation == .turn(.left))
        #expect(result.bytes == 66 << 10)
        let large = try await find(.ofContent, in: photo)
        #expect(large.finding == picture(Self.full, .turn(.left)))
    }

    @Test func `the sensor's data are no picture although they are called JPEG`() async throws {
        let canon = CameraFile.canon(large: Self.full, small: Self.small, sensor: Self.sensor)
        // Behind the large one.
        let small = try await find(.ofPlaceholder, in: canon)
        #expect(small.finding == picture(Self.small, .turn(.left)))
        #expect(small.asked.count == 2 && small.bytes < 80_000)
        let large = try await find(.ofContent, in: canon)
        #expect(large.finding == picture(Self.full, .turn(.left)))
        let adobe = CameraFile.adobe(preview: Self.preview, sensor: Self.sensor, orientation: 3)
        #expect(
            try await find(.ofContent, in: adobe).finding
                == picture(Self.preview, .turn(.around))
        )
    }

    @Test func `a raw photo with a whole photo in it shows the small picture of that`()
        async throws
    {
        let photo = CameraFile.jpeg(Self.full, small: Self.small, orientation: 6)
        for raw in [CameraFile.panasonic(photo), CameraFile.fuji(photo)] {
            #expect(
                try await find(.ofPlaceholder, in: raw).finding
                    == picture(Self.small, .turn(.right))
            )
            #expect(try await find(.ofContent, in: raw).finding == picture(photo, .none))
        }
    }

    @Test func `Canon's newer raw photos have a small picture at the beginning`() async throws {
        let photo = CameraFile.canon3(
            small: Self.small,
            large: Self.preview,
            sensor: Self.sensor,
            orientation: 6
        )
        let small = try await find(.ofPlaceholder, in: photo)
        #expect(small.finding == picture(Self.small, .turn(.right)))
        #expect(small.asked.count == 1)
        let large = try await find(.ofContent, in: photo)
        #expect(large.finding == picture(Self.preview, .turn(.right)))
    }

    @Test func `of a HEIF file only the list and the thumbnail are asked for`() async throws {
        let file = CameraFile.heif(picture: Self.full, thumbnail: Self.small)
        let result = try await find(.ofPlaceholder, in: file)
        let finding = try #require(result.finding)
        #expect(finding.preparation == .item && finding.file.size == file.count)
        #expect(finding.file.pieces.last?.bytes == Self.small)
        #expect(result.bytes == (66 << 10) + Self.small.count)
        // One without a thumbnail would have to be fetched whole.
        let plain = Self.replacing("thmb", by: "cdsc", in: file)
        #expect(try await find(.ofPlaceholder, in: plain).finding == nil)
    }

    @Test func `what takes more than its share of the network is left`() async throws {
        let photo = CameraFile.adobe(preview: Self.full, sensor: Self.sensor)
        let result = try await find(.ofPlaceholder, in: photo)
        #expect(result.finding == nil && result.bytes == 66 << 10)
        #expect(try await find(.ofContent, in: photo).finding != nil)
    }

    @Test func `lists that refer to each other end`() async throws {
        var photo = CameraFile.canon(large: Self.full, small: Self.small, sensor: Self.sensor)
        // The next list of the second one, of two tags, is the first.
        photo.replaceSubrange(8 + 512 + 26..<8 + 512 + 30, with: [8, 0, 0, 0])
        #expect(try await find(.ofPlaceholder, in: photo).finding != nil)
    }

    @Test func `photos within photos are not followed into the depth`() async throws {
        // Two lists in each photo name the next one as a whole photo: 40 would be 2^40 looks.
        var photo: [UInt8] = []
        for _ in 0..<40 {
            let field: [UInt8] = [0x2e, 0, 7, 0, 0xd0, 7, 0, 0, 44, 0, 0, 0]
            photo += [0xff, 0xd8, 0xff, 0xe1, 0, 60] + Array("Exif\0\0II*\0".utf8)
            photo += [8, 0, 0, 0, 1, 0] + field + [26, 0, 0, 0, 1, 0] + field + [0, 0, 0, 0]
        }
        photo += Self.small
        #expect(try await find(.ofPlaceholder, in: photo).finding == nil)
        #expect(try await find(.ofContent, in: photo).finding == nil)
        let panasonic = CameraFile.panasonic(photo)
        #expect(try await find(.ofContent, in: panasonic).finding == picture(photo, .none))
    }

    @Test func `extents that take no bytes of the list are not counted`() async throws {
        func big(_ value: Int, _ count: Int) -> [UInt8] {
            (0..<count).reversed().map { UInt8(truncatingIfNeeded: value >> (8 * $0)) }
        }
        func box(_ type: String, _ content: [UInt8]) -> [UInt8] {
            big(content.count + 8, 4) + Array(type.utf8) + content
        }
        // 4,096 entries of 65,535 extents each.
        let entry = big(2, 2) + big(0, 2) + big(65_535, 2)
        let entries = (0..<4_096).flatMap { _ in entry }
        let reference = box("thmb", big(2, 2) + big(1, 2) + big(1, 2))
        var meta = big(0, 4) + box("pitm", big(0, 4) + big(1, 2))
        meta += box("iloc", big(0, 4) + big(0, 2) + big(4_096, 2) + entries)
        meta += box("iref", big(0, 4) + reference)
        let file = box("ftyp", Array("heic\0\0\0\0".utf8)) + box("meta", meta)
        #expect(try await find(.ofPlaceholder, in: file).finding == nil)
    }

    @Test func `a list that says nothing true takes nothing from the others`() async throws {
        var photo = CameraFile.nikon(
            pixels: Self.pixels,
            width: 160,
            full: Self.full,
            preview: Self.small,
            sensor: Self.sensor
        )
        // The first child lies outside of the file.
        let children = 8 + 256
        photo.replaceSubrange(children..<children + 4, with: [0x7f, 0xff, 0xff, 0xff])
        let result = try await find(.ofPlaceholder, in: photo)
        #expect(result.finding == picture(Self.small, .turn(.none)))
    }

    @Test func `whatever a file says, little is asked for and nothing outside of it`()
        async throws
    {
        let photos = [
            CameraFile.jpeg(Self.preview, small: Self.small),
            CameraFile.nikon(
                pixels: Self.pixels,
                width: 160,
                full: Self.preview,
                preview: Self.small,
                sensor: Self.small
            ),
            CameraFile.adobe(preview: Self.small, sensor: Self.small),
            CameraFile.canon(large: Self.preview, small: Self.small, sensor: Self.small),
            CameraFile.panasonic(CameraFile.jpeg(Self.preview, small: Self.small)),
            CameraFile.canon3(small: Self.small, large: Self.preview, sensor: Self.small),
            CameraFile.heif(picture: Self.preview, thumbnail: Self.small),
        ]
        var random = SeededRandom(seed: 1)
        for round in 0..<3_000 {
            var photo = photos[round % photos.count]
            // Where tags and boxes are.
            let reach = min(photo.count, 2_200)
            for _ in 0..<Int.random(in: 1...12, using: &random) {
                let place = Int.random(in: 0..<reach, using: &random)
                photo[place] =
                    [0, 1, 0x7f, 0xff, .random(in: 0...255, using: &random)]
                    .randomElement(using: &random) ?? 0
            }
            if Bool.random(using: &random) {
                photo.removeLast(.random(in: 0..<photo.count, using: &random))
            }
            for search in [EmbeddedSearch.ofPlaceholder, .ofContent] {
                let result = try await find(search, in: photo)
                #expect(result.asked.allSatisfy { $0.upperBound <= photo.count })
                #expect(result.asked.count <= search.mostRequests)
                #expect(Int64(result.bytes) <= search.mostBytes, "round \(round)")
            }
        }
    }

    private static func replacing(_ old: String, by new: String, in file: [UInt8]) -> [UInt8] {
        var file = file
        for start in 0..<2_000 where file[start...].starts(with: old.utf8) {
            file.replaceSubrange(start..<start + old.utf8.count, with: new.utf8)
        }
        return file
    }
}
