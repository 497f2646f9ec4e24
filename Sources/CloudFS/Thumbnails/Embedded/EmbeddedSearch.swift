/// Takes pictures out of files of which it asks for as little as it can.
struct EmbeddedSearch: Sendable {
    /// What a program is given to make thumbnails of.
    struct Finding: Sendable, Equatable {
        /// A picture by itself; or the file with holes, which the thumbnail does not touch.
        var file: KnownBytes
        /// The ending of its name, which programs go by.
        var ending: String
        var preparation: ThumbnailMaker.Preparation
    }

    /// Of a placeholder: the first bytes hold most small pictures, as a header of Exif has less
    /// than 64 KiB.
    static let ofPlaceholder = EmbeddedSearch(
        want: .small,
        beginning: 66 << 10,
        mostRequests: 8,
        mostBytes: 1 << 20
    )
    /// Of content that is here: requests cost little.
    static let ofContent = EmbeddedSearch(
        want: .large,
        beginning: 64 << 10,
        mostRequests: 64,
        mostBytes: 16 << 20
    )

    /// What is asked for beyond what is needed: lists lie beside each other.
    private static let leastPiece: Int64 = 8 << 10
    /// Longer files are no photos; a copy of one with holes may take all of its length somewhere.
    private static let mostFileBytes: Int64 = 4 << 30

    let want: EmbeddedPicture.Want
    let beginning: Int64
    let mostRequests: Int
    /// Of all requests together.
    let mostBytes: Int64

    /// Looks into a file of `size` bytes.
    ///
    /// - Parameter read: The bytes of a range of the file, all of them.
    /// - Returns: `nil` if it holds no picture that so few bytes show.
    func find(
        inFileOf size: Int64,
        read: (Range<Int64>) async throws(CloudFSError) -> [UInt8]
    ) async throws(CloudFSError) -> Finding? {
        guard (1...Self.mostFileBytes).contains(size) else { return nil }
        var file = KnownBytes(size: size)
        var next = 0..<min(size, beginning)
        var left = mostBytes
        for _ in 0..<mostRequests {
            guard next.count <= left else { return nil }
            left -= Int64(next.count)
            let bytes = try await read(next)
            guard bytes.count == next.count else { return nil }
            file.add(bytes, at: next.lowerBound)
            do {
                return try finding(in: file)
            } catch .lacking(let range) {
                let end = max(range.upperBound, range.lowerBound + Self.leastPiece)
                next = range.lowerBound..<min(size, end)
            } catch {
                return nil
            }
        }
        return nil
    }

    private func finding(in file: KnownBytes) throws(KnownBytes.Stop) -> Finding {
        let picture = try EmbeddedPicture.search(file, for: want)
        guard picture.form != .item else {
            return Finding(file: file, ending: "heic", preparation: .item)
        }
        let count = Int64(picture.range.count)
        let bytes = Array(try file.bytes(at: picture.range.lowerBound, count: count))
        let preparation = picture.turn.map { ThumbnailMaker.Preparation.turn($0) } ?? .none
        guard case .pixels(let width, let height) = picture.form else {
            return Finding(file: KnownBytes(bytes), ending: "jpg", preparation: preparation)
        }
        let header = Array("P6 \(width) \(height) 255\n".utf8)
        return Finding(file: KnownBytes(header + bytes), ending: "ppm", preparation: preparation)
    }
}
