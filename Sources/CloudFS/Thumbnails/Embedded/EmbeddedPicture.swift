/// A picture that lies within a file of a camera.
struct EmbeddedPicture: Sendable, Equatable {
    enum Form: Sendable, Equatable {
        case jpeg
        /// Red, green and blue, a byte each.
        case pixels(width: Int64, height: Int64)
        /// An item of a HEIF file, which its decoder finds by itself; all its bytes are known.
        case item
    }

    /// How it has to be turned to stand as the camera was held.
    enum Turn: String, Sendable {
        case none = "d0"
        case right = "d90"
        case around = "d180"
        case left = "d270"

        /// - Parameter orientation: Of Exif; mirrored ones, which cameras do not make, count as
        ///   none.
        /// - Source: TIFF 6.0, "Orientation".
        init(orientation: Int64) {
            switch orientation {
            case 3: self = .around
            case 6: self = .right
            case 8: self = .left
            default: self = .none
            }
        }
    }

    /// Which of several pictures is wanted.
    enum Want: Sendable {
        /// The one that takes the fewest bytes of the cloud and still shows something.
        case small
        case large
    }

    /// What takes fewer bytes shows nothing.
    private static let leastBytes = 1_024
    /// Of larger ones a smaller one beside it is taken.
    private static let mostBytes = 12 << 20

    var form: Form
    /// Where in the file; empty for an item.
    var range: Range<Int64>
    /// `nil` where the picture says so itself.
    var turn: Turn?

    /// Looks for a picture by what the file is, whatever its name says.
    ///
    /// - Throws: `lacking` as long as something has to be known first, `nothing` in the end.
    static func search(
        _ file: KnownBytes,
        for want: Want
    ) throws(KnownBytes.Stop) -> EmbeddedPicture {
        let head = Array(try file.bytes(at: 0, count: min(16, file.size)))
        if head.starts(with: [0xff, 0xd8]) {
            return try best(JPEGPictures.all(in: file, at: 0), for: want)
        }
        if head.starts(with: "FUJIFILMCCD-RAW ".utf8) {
            return try best(FujiPictures.all(in: file), for: want)
        }
        if head.dropFirst(4).starts(with: "ftypcrx ".utf8) {
            return try best(CanonPictures.all(in: file, for: want), for: want)
        }
        if head.dropFirst(4).starts(with: "ftyp".utf8) { return try HEIFItems.thumbnail(in: file) }
        return try best(TIFFPictures(file, at: 0).all(), for: want)
    }

    private static func best(
        _ pictures: [EmbeddedPicture],
        for want: Want
    ) throws(KnownBytes.Stop) -> EmbeddedPicture {
        let usable = pictures.filter { (leastBytes...mostBytes).contains($0.range.count) }
        let found =
            switch want {
            case .small: usable.min { $0.range.count < $1.range.count }
            case .large: usable.max { $0.range.count < $1.range.count }
            }
        guard let found else { throw .nothing }
        return found
    }
}
