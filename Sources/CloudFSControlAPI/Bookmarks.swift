/// The body of `POST /v1/bookmarks`.
public struct BookmarkOrder: Codable, Sendable, Hashable {
    public var path: DrivePath

    public init(path: DrivePath) {
        self.path = path
    }
}

/// The body of `POST /v1/bookmarks/resolve`.
public struct BookmarkQuery: Codable, Sendable, Hashable {
    public var token: String

    public init(token: String) {
        self.token = token
    }
}

/// What a bookmark stands for, now.
public struct BookmarkStatus: Codable, Sendable, Hashable {
    /// How the item was found.
    public enum Way: String, Codable, Sendable, Hashable, CaseIterable {
        /// It is the document, wherever it was moved.
        case identity
        /// The document is gone; this is what has its path now.
        case path
    }

    public var path: DrivePath
    public var documentID: String
    public var foundBy: Way
    /// Whether the token names another path, or another document, by now: `token` is to be kept
    /// instead.
    public var isStale: Bool
    /// A token for the item as it is now.
    public var token: String

    public init(
        path: DrivePath,
        documentID: String,
        foundBy: Way = .identity,
        isStale: Bool,
        token: String
    ) {
        self.path = path
        self.documentID = documentID
        self.foundBy = foundBy
        self.isStale = isStale
        self.token = token
    }
}

/// A bookmark taken apart: what it says of a document, and the seal that proves who made it.
///
/// As text it is `cfb1.` and base64url without padding of: 16 bytes for the container, 16 for the
/// document, the length of the container's URL in two bytes, that URL, the path, and 32 bytes for
/// the seal of all before it.
public struct BookmarkToken: Sendable, Hashable {
    public static let prefix = "cfb1."
    /// The longest token, in bytes.
    public static let maximumByteCount = 4_096
    private static let fingerprintByteCount = 16
    private static let sealByteCount = 32
    private static let longestURL = 512
    private static let longestPath = 2_048

    /// A fingerprint of the container.
    public let container: [UInt8]
    /// The document's identity.
    public let document: [UInt8]
    /// For people: not trusted, and empty if it is long.
    public let containerURL: String
    /// Where the item was; `nil` if its path is long.
    public let path: DrivePath?
    public var seal: [UInt8]

    public init?(container: [UInt8], document: [UInt8], containerURL: String, path: DrivePath) {
        guard container.count == Self.fingerprintByteCount,
            document.count == Self.fingerprintByteCount
        else { return nil }
        self.container = container
        self.document = document
        self.containerURL = containerURL.utf8.count <= Self.longestURL ? containerURL : ""
        // The root has no path, and needs none.
        self.path = (1...Self.longestPath).contains(path.bytes.count) ? path : nil
        seal = []
    }

    /// Reads a token; `nil` for anything that is none of this version.
    ///
    /// - Parameter text: Anybody's.
    public init?(text: String) {
        guard text.utf8.count <= Self.maximumByteCount, text.hasPrefix(Self.prefix),
            let bytes = Base64URL.decode(text.utf8.dropFirst(Self.prefix.utf8.count))
        else { return nil }
        let head = 2 * Self.fingerprintByteCount + 2
        guard bytes.count >= head + Self.sealByteCount else { return nil }
        let length = Int(bytes[head - 2]) << 8 | Int(bytes[head - 1])
        let end = bytes.count - Self.sealByteCount
        guard length <= Self.longestURL, head + length <= end,
            let url = String(validating: bytes[head..<head + length], as: UTF8.self),
            let path = DrivePath(bytes: bytes[(head + length)..<end])
        else { return nil }
        container = Array(bytes[..<Self.fingerprintByteCount])
        document = Array(bytes[Self.fingerprintByteCount..<2 * Self.fingerprintByteCount])
        containerURL = url
        self.path = path.isRoot ? nil : path
        seal = Array(bytes[end...])
        // One text for each token.
        guard self.text == text else { return nil }
    }

    /// What is sealed.
    public var payload: [UInt8] {
        let url = Array(containerURL.utf8)
        let length = [UInt8(url.count >> 8), UInt8(url.count & 0xff)]
        return container + document + length + url + (path?.bytes ?? [])
    }

    public var text: String { Self.prefix + Base64URL.encode(payload + seal) }
}

/// Bytes as text that can stand in a URL or a file name.
///
/// - Source: RFC 4648, section 5; without padding.
enum Base64URL {
    private static let digits = Array(
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_".utf8
    )

    static func encode(_ bytes: [UInt8]) -> String {
        var text: [UInt8] = []
        text.reserveCapacity(bytes.count * 4 / 3 + 3)
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let word = group.reduce(0) { $0 << 8 | UInt32($1) } << (8 * UInt32(3 - group.count))
            for place in 0...group.count {
                text.append(digits[Int(word >> (18 - 6 * UInt32(place)) & 0x3f)])
            }
        }
        return String(decoding: text, as: UTF8.self)
    }

    /// - Returns: `nil` for text that nothing is written as.
    static func decode(_ text: some Sequence<UInt8>) -> [UInt8]? {
        var bytes: [UInt8] = []
        var word: UInt32 = 0
        var bits: UInt32 = 0
        for digit in text {
            guard let value = digits.firstIndex(of: digit) else { return nil }
            word = word << 6 | UInt32(value)
            bits += 6
            guard bits >= 8 else { continue }
            bits -= 8
            bytes.append(UInt8(truncatingIfNeeded: word >> bits))
            word &= (1 << bits) - 1
        }
        return bits < 6 && word == 0 ? bytes : nil
    }
}
