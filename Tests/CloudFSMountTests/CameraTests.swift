import CloudFSTestSupport
import Glibc
import Testing

/// Photos of cameras that no device has shown yet.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct CameraTests {
    /// What of a raw photo ExifTool takes out, and which picture that is.
    private static let others: [(name: String, tag: String, picture: String)] = [
        ("nikon.nef", "JpgFromRaw", "large"), ("nikon.nef", "OtherImage", "preview"),
        ("adobe.dng", "PreviewImage", "preview"), ("canon.cr2", "PreviewImage", "large"),
        ("canon.cr2", "ThumbnailImage", "small"), ("panasonic.rw2", "JpgFromRaw", "photo"),
        ("fuji.raf", "PreviewImage", "photo"), ("canon.cr3", "PreviewImage", "preview"),
        ("canon.cr3", "ThumbnailImage", "small"), ("photo.jpg", "ThumbnailImage", "small"),
    ]

    /// Which pictures are shown of placeholders: width and height.
    private static let shown: [String: (Int, Int)] = [
        "nikon.nef": (192, 256), "adobe.dng": (192, 256), "canon.cr2": (192, 256),
        "panasonic.rw2": (192, 256), "fuji.raf": (192, 256), "canon.cr3": (192, 256),
        "photo.jpg": (192, 256), "phone.heic": (256, 192),
    ]

    /// And of content that is here.
    private static let made: [String: (Int, Int)] = [
        "nikon.nef": (768, 1_024), "adobe.dng": (600, 800), "canon.cr2": (768, 1_024),
        "panasonic.rw2": (768, 1_024), "fuji.raf": (768, 1_024), "canon.cr3": (600, 800),
        "photo.jpg": (768, 1_024), "phone.heic": (1_024, 768),
    ]

    /// Writes one photo of each kind into a folder: small pictures of 320 by 240, previews of 800
    /// by 600, photos of 1600 by 1200; held so that they have to be turned.
    private static func makePhotos(_ drive: TestDrive) async throws -> TestFolder {
        try await drive.run(
            """
            mkdir "$SCRATCH/photos"; cd "$SCRATCH/photos"
            vips worley cells.v 1600 1200 --cell-size 100; vips cast cells.v bytes.v uchar
            vips bandjoin 'bytes.v bytes.v bytes.v' color.v
            vips copy color.v large.jpg[strip] --interpretation srgb
            vipsthumbnail large.jpg --size 800x600 -o preview.jpg[strip]
            vipsthumbnail large.jpg --size 320x240 -o small.jpg[Q=60,strip]
            vipsthumbnail large.jpg --size 160x120 -o pixels.ppm
            heif-enc -q 40 -t 320 large.jpg -o phone.heic > /dev/null
            """
        )
        let folder = TestFolder("\(drive.folder)/run/photos")
        func bytes(_ name: String) throws -> [UInt8] { try #require(folder.bytes(name)) }
        let (large, preview) = (try bytes("large.jpg"), try bytes("preview.jpg"))
        let small = try bytes("small.jpg")
        let pixels = try bytes("pixels.ppm").suffix(160 * 120 * 3)
        let sensor = [UInt8](repeating: 9, count: 4 << 20)
        let photo = CameraFile.jpeg(large, small: small, orientation: 6)
        let nikon = CameraFile.nikon(
            pixels: Array(pixels),
            width: 160,
            full: large,
            preview: preview,
            sensor: sensor,
            orientation: 6
        )
        let canon3 = CameraFile.canon3(
            small: small,
            large: preview,
            sensor: sensor,
            orientation: 6
        )
        try folder.write("photo.jpg", photo)
        try folder.write("nikon.nef", nikon)
        try folder.write(
            "adobe.dng",
            CameraFile.adobe(preview: preview, sensor: sensor, orientation: 6)
        )
        try folder.write("canon.cr2", CameraFile.canon(large: large, small: small, sensor: sensor))
        try folder.write("panasonic.rw2", CameraFile.panasonic(photo))
        try folder.write("fuji.raf", CameraFile.fuji(photo))
        try folder.write("canon.cr3", canon3)
        return folder
    }

    /// What `vipsheader` says of a picture.
    private static func size(
        _ bytes: [UInt8],
        on drive: TestDrive
    ) async throws -> (width: Int, height: Int) {
        try TestFolder("\(drive.folder)/run").write("shown", bytes)
        let words = try await drive.run(
            "for f in width height; do vipsheader -f $f \"$SCRATCH/shown\"; done"
        ).split(separator: "\n")
        return (try #require(words.first.flatMap { Int($0) }), Int(words.last ?? "") ?? 0)
    }

    private static func picture(_ name: String, on drive: TestDrive) async throws -> [UInt8]? {
        try await drive.bytes(ofAttribute: "user.cloudfs.thumbnail", of: name)
    }

    @Test func `raw photos, JPEG and HEIC show their small pictures and are not downloaded`()
        async throws
    {
        try await TestDrive.with(["--hydration", "partial"]) { drive in
            let photos = try await Self.makePhotos(drive)
            for (name, tag, picture) in Self.others {
                // What is tested are files as others read them.
                let other = picture == "photo" ? "photo.jpg" : "\(picture).jpg"
                try await drive.run(
                    "exiftool -b -\(tag) \"$SCRATCH/photos/\(name)\" "
                        + "| cmp - \"$SCRATCH/photos/\(other)\""
                )
            }
            for name in Self.shown.keys {
                let bytes = try #require(photos.bytes(name))
                try drive.cloud.write(".new", bytes)
                try drive.cloud.rename(".new", to: name)
            }
            for (name, expected) in Self.shown {
                try await eventually("the drive shows \(name)") { try await drive.exists(name) }
                try await eventually("\(name) has a picture", within: .seconds(40)) {
                    try await Self.picture(name, on: drive) != nil
                }
                let bytes = try #require(try await Self.picture(name, on: drive))
                let size = try await Self.size(bytes, on: drive)
                #expect(size == expected, "\(name)")
                #expect(try await drive.attribute("user.cloudfs.status", of: name) == "cloud")
                #expect(
                    try await drive.attribute("user.cloudfs.downloaded-bytes", of: name) == "0"
                )
            }
            let fetched = try await drive.fetched().bytes
            #expect(fetched > 0 && fetched < 2 << 20, "of 30 MB")
        }
    }

    @Test func `of photos that are here the largest picture within them is shown`() async throws {
        try await TestDrive.with { drive in
            _ = try await Self.makePhotos(drive)
            for (name, expected) in Self.made {
                try await drive.run("cp \"$SCRATCH/photos/\(name)\" .")
                try await eventually("\(name) has a picture", within: .seconds(40)) {
                    try await Self.picture(name, on: drive) != nil
                }
                let bytes = try #require(try await Self.picture(name, on: drive))
                let size = try await Self.size(bytes, on: drive)
                #expect(size == expected, "\(name)")
            }
        }
    }
}
