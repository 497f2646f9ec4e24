import Crypto

/// Thumbnails as they lie in the cloud beside the items: two small files for each version of a
/// content, one with the sizes that folders show, one with the others.
///
/// The name is made of the version, so that a picture of another version can never be taken for
/// it, equal content has one, and it stays when the item is moved.
///
///     cloudfs-thumbnails 1
///     128 2311
///     256 9120
///                      (an empty line, then the pictures one after the other)
enum ThumbnailSidecar {
    private static let firstLine = "cloudfs-thumbnails 1"
    /// Longer heads are not ours.
    private static let mostHeadBytes = 256

    /// Most bytes of a whole file.
    static let mostBytes = mostHeadBytes + 4 * ThumbnailImage.mostBytes

    static func name(of version: ItemVersion, isSmall: Bool) -> SidecarName {
        let digest = SHA256.hash(data: Array(version.content.utf8)).prefix(16)
        return SidecarName(
            room: .thumbnails,
            name: Hexadecimal.text(digest) + (isSmall ? ".small" : ".big")
        )
    }

    static func bytes(of images: ThumbnailImages) -> [UInt8] {
        let ordered = images.sorted { $0.key < $1.key }
        var head = firstLine + "\n"
        for (size, image) in ordered { head += "\(size.rawValue) \(image.bytes.count)\n" }
        return Array((head + "\n").utf8) + ordered.flatMap(\.value.bytes)
    }

    /// The pictures of a file from the cloud, or of a program's output.
    ///
    /// - Returns: `nil` for what is no such file.
    static func images(_ bytes: [UInt8]) -> ThumbnailImages? {
        var position = 0
        func line() -> String? {
            let rest = bytes[position...].prefix(mostHeadBytes)
            guard let end = rest.firstIndex(of: UInt8(ascii: "\n")) else { return nil }
            defer { position = end + 1 }
            return String(decoding: bytes[position..<end], as: UTF8.self)
        }
        guard line() == firstLine else { return nil }
        var announced: [(size: ThumbnailSize, count: Int)] = []
        while let text = line(), !text.isEmpty {
            let numbers = text.split(separator: " ").map { Int($0) }
            guard numbers.count == 2, let side = numbers[0], let count = numbers[1],
                let size = ThumbnailSize(rawValue: side),
                (1...ThumbnailImage.mostBytes).contains(count),
                !announced.contains(where: { $0.size == size })
            else { return nil }
            announced.append((size, count))
        }
        guard !announced.isEmpty,
            position + announced.reduce(0, { $0 + $1.count }) == bytes.count
        else { return nil }
        var images: ThumbnailImages = [:]
        for (size, count) in announced {
            guard let image = ThumbnailImage(Array(bytes[position..<position + count])) else {
                return nil
            }
            images[size] = image
            position += count
        }
        return images
    }
}
