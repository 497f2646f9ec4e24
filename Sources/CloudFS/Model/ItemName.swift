/// One component of a path: 1 to 255 bytes without `/` and NUL, and neither `.` nor `..`.
///
/// Bytes are kept as given; a name need not be valid UTF-8.
public struct ItemName: Hashable, Sendable, CustomStringConvertible {
    public let bytes: [UInt8]

    /// The longest name an item can have, in bytes; the kernel's `NAME_MAX`.
    public static let maximumByteCount = 255

    /// Checks and keeps `bytes`.
    ///
    /// - Throws: `invalidName` for an empty name, `.`, `..`, a `/` or a NUL; `nameTooLong`.
    public init(_ bytes: some Sequence<UInt8>) throws(CloudFSError) {
        let bytes = Array(bytes)
        guard bytes.count <= Self.maximumByteCount else {
            throw CloudFSError(.nameTooLong, "a name of \(bytes.count) bytes is longer than 255")
        }
        guard !bytes.isEmpty, bytes != [0x2e], bytes != [0x2e, 0x2e],
            !bytes.contains(0x2f), !bytes.contains(0)
        else {
            throw CloudFSError(
                .invalidName,
                "not a file name: \(String(decoding: bytes, as: UTF8.self))"
            )
        }
        self.bytes = bytes
    }

    /// Checks and keeps the UTF-8 bytes of `text`.
    ///
    /// - Throws: `invalidName`, `nameTooLong`.
    public init(_ text: String) throws(CloudFSError) {
        try self.init(Array(text.utf8))
    }

    private init(unchecked bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// `.cloudfs`, which belongs to CloudFS at the root of every container and drive.
    public static let reserved = ItemName(unchecked: Array(".cloudfs".utf8))

    /// Under which the process that announces finds out whether the drive knows it.
    static let announcing = ItemName(unchecked: Array(".cloudfs-announcing".utf8))

    /// For what has no name of its own.
    static let unnamed = ItemName(unchecked: Array("unnamed".utf8))

    /// The name as text; bytes that are no UTF-8 appear as U+FFFD.
    public var description: String { String(decoding: bytes, as: UTF8.self) }

    /// At most `count` bytes of `text`, and no half character at the end.
    static func cut(_ text: ArraySlice<UInt8>, to count: Int) -> ArraySlice<UInt8> {
        guard text.count > count else { return text }
        var end = text.startIndex + count
        // Bytes that are no UTF-8 may look like a very long character: give up after three.
        for _ in 0..<3 where text[end] & 0xc0 == 0x80 && end > text.startIndex { end -= 1 }
        return text[..<end]
    }

    /// The part before the extension and the extension with its dot, as bytes.
    ///
    /// A leading dot begins no extension: `.profile` has none.
    public var stemAndExtension: (stem: ArraySlice<UInt8>, suffix: ArraySlice<UInt8>) {
        guard let dot = bytes.lastIndex(of: 0x2e), dot > bytes.startIndex else {
            return (bytes[...], [])
        }
        return (bytes[..<dot], bytes[dot...])
    }
}

/// Where an item is in its container: the names from the container's root down to it.
///
/// The root itself has no names.
public struct RemotePath: Hashable, Sendable, CustomStringConvertible {
    public let names: [ItemName]

    public init(_ names: [ItemName]) {
        self.names = names
    }

    public static let root = RemotePath([])

    public var isRoot: Bool { names.isEmpty }
    public var name: ItemName? { names.last }
    public var parent: RemotePath { RemotePath(Array(names.dropLast())) }

    public func appending(_ name: ItemName) -> RemotePath { RemotePath(names + [name]) }

    /// The names joined by `/`, without a leading one, as bytes.
    public var bytes: [UInt8] { Array(names.map(\.bytes).joined(separator: [0x2f])) }

    public var description: String { String(decoding: bytes, as: UTF8.self) }
}
