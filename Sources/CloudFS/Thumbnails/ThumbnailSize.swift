/// The sizes of thumbnails that desktops know, by the longer side in pixels.
///
/// - Source: Thumbnail Managing Standard, "Thumbnail directory".
enum ThumbnailSize: Int, Sendable, CaseIterable, Comparable {
    case normal = 128
    case large = 256
    case extraLarge = 512
    case doubleExtraLarge = 1024

    /// What a folder's view shows; the others are fetched when they are asked for.
    static let small: [ThumbnailSize] = [.normal, .large]
    static let big: [ThumbnailSize] = [.extraLarge, .doubleExtraLarge]

    var isSmall: Bool { self <= .large }

    /// Its folder in the desktop's cache.
    var folderName: String {
        switch self {
        case .normal: "normal"
        case .large: "large"
        case .extraLarge: "x-large"
        case .doubleExtraLarge: "xx-large"
        }
    }

    static func < (one: Self, other: Self) -> Bool { one.rawValue < other.rawValue }
}

/// The bytes of a picture, JPEG or PNG, small enough for an extended attribute.
///
/// Only the beginning was looked at: pictures are decoded in confined programs, never here.
struct ThumbnailImage: Sendable, Equatable {
    /// The kernel's limit for the value of an attribute, in bytes.
    static let mostBytes = 65_536

    enum Format: String, Sendable {
        case jpeg = "jpg"
        case png
    }

    let bytes: [UInt8]
    let format: Format

    /// - Returns: `nil` for what is no JPEG or PNG, or too long.
    init?(_ bytes: [UInt8]) {
        guard bytes.count <= Self.mostBytes else { return nil }
        if bytes.starts(with: [0xff, 0xd8, 0xff]) {
            format = .jpeg
        } else if bytes.starts(with: [0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]) {
            format = .png
        } else {
            return nil
        }
        self.bytes = bytes
    }
}

typealias ThumbnailImages = [ThumbnailSize: ThumbnailImage]
