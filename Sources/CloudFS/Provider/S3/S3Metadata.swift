import Crypto
import Foundation
import Glibc

/// What an object's user metadata says about the item, and the other way round.
///
/// The names and formats are those of s3fs, which rclone reads too: `mtime` in seconds with a
/// fraction, `mode` with the bits of the kind, `uid` and `gid`, extended attributes as JSON in
/// `xattr`. The document's identity is `cloudfs-id`.
enum S3Metadata {
    static let folderType = "application/x-directory"
    static let symlinkType = "application/octet-stream"

    /// The most that metadata may take: servers refuse more than 2 KiB, names included.
    static let maximumByteCount = 2_048

    // MARK: - To headers

    /// - Parameter kept: What the object had; ids that are kept come from there, and what is not
    ///   ours stays.
    /// - Throws: `attributesFull` if it does not fit.
    static func headers(
        _ metadata: ItemMetadata,
        kind: ItemKind,
        documentID: DocumentID,
        attributes: [String: [UInt8]],
        kept: [String: String] = [:],
        hasNewContent: Bool = true
    ) throws(CloudFSError) -> [String: String] {
        var headers = kept
        // Digests that rclone and s3cmd keep of what was there.
        if hasNewContent { headers["md5chksum"] = nil }
        if hasNewContent { headers["s3cmd-attrs"] = nil }
        headers["mtime"] = time(metadata.modified)
        headers["mode"] = mode(UInt32(metadata.permissions) & 0o7777 | typeBits(kind))
        if metadata.userID != ItemMetadata.keptID { headers["uid"] = String(metadata.userID) }
        if metadata.groupID != ItemMetadata.keptID { headers["gid"] = String(metadata.groupID) }
        headers["cloudfs-id"] = documentID.description
        headers["xattr"] = encode(attributes, beside: kept["xattr"])
        let total = headers.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        guard total <= maximumByteCount else {
            throw CloudFSError(
                .attributesFull,
                "the attributes take \(total) bytes, and an object has room for 2,048"
            )
        }
        return headers
    }

    /// What the marker has that takes the place of two.
    ///
    /// What only one of them has is kept; of what both have, that of the newer one, if they are of
    /// one document. Where there is no room for all attributes, the other's are left out.
    ///
    /// - Parameter isNewer: Whether the other is.
    static func joined(
        _ headers: [String: String],
        _ other: [String: String],
        isNewer: Bool
    ) -> [String: String] {
        let isSame = headers["cloudfs-id"] == other["cloudfs-id"]
        let (first, second) = isSame && isNewer ? (other, headers) : (headers, other)
        var joined = first.merging(second) { first, _ in first }
        let all = attributes(first).merging(attributes(second)) { first, _ in first }
        if all != attributes(joined) { joined["xattr"] = encode(all, beside: joined["xattr"]) }
        let total = joined.reduce(0) { $0 + $1.key.utf8.count + $1.value.utf8.count }
        return total <= maximumByteCount ? joined : first
    }

    private static func time(_ moment: Timestamp) -> String {
        let (seconds, rest) = moment.nanoseconds.magnitude.quotientAndRemainder(
            dividingBy: 1_000_000_000
        )
        let fraction = String(rest)
        let sign = moment.nanoseconds < 0 ? "-" : ""
        return "\(sign)\(seconds)." + String(repeating: "0", count: 9 - fraction.count) + fraction
    }

    /// Octal with a leading zero: s3fs, which writes decimal numbers, tells by it that it is octal,
    /// and to `rclone --metadata` everything is.
    private static func mode(_ bits: UInt32) -> String { "0" + String(bits, radix: 8) }

    private static func typeBits(_ kind: ItemKind) -> UInt32 {
        switch kind {
        case .file: S_IFREG
        case .folder: S_IFDIR
        case .symlink: S_IFLNK
        case .fifo: S_IFIFO
        case .socket: S_IFSOCK
        }
    }

    /// - Parameter kept: What the object had: attributes in it that are not applications' stay, and
    ///   what is no list of attributes as long as there is nothing else to write.
    private static func encode(_ attributes: [String: [UInt8]], beside kept: String?) -> String? {
        let others = kept.map(stored) ?? [:]
        if attributes.isEmpty, others == nil { return kept }
        var texts = (others ?? [:]).filter { !isSynced($0.key) }
        for (name, value) in attributes {
            let name = URIEncoding.encode(name.utf8, keepingSlash: false)
            texts[name] = Data(value).base64EncodedString()
        }
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard !texts.isEmpty, let json = try? encoder.encode(texts) else { return nil }
        // s3fs encodes the whole text once, and names inside of it once more.
        return URIEncoding.encode(json, keepingSlash: false)
    }

    // MARK: - From headers

    /// What an object says it is; `nil` if it says nothing.
    static func kind(_ headers: [String: String]) -> ItemKind? {
        guard let mode = mode(headers) else { return nil }
        switch mode & S_IFMT {
        case S_IFREG: return .file
        case S_IFDIR: return .folder
        case S_IFLNK: return .symlink
        default: return nil
        }
    }

    /// Metadata with what is not said filled in: whoever mounts owns it, and the server's time.
    ///
    /// That is of whole seconds, as a HEAD tells it: the fraction that a listing may tell would be
    /// gone again after the first look or read.
    static func metadata(
        _ headers: [String: String],
        kind: ItemKind,
        lastModified: Timestamp
    ) -> ItemMetadata {
        let usual: UInt16 = kind == .file ? 0o644 : kind == .folder ? 0o755 : 0o777
        return ItemMetadata(
            permissions: mode(headers).map { UInt16($0 & 0o777) } ?? usual,
            userID: headers["uid"].flatMap { UInt32($0) } ?? ItemMetadata.keptID,
            groupID: headers["gid"].flatMap { UInt32($0) } ?? ItemMetadata.keptID,
            modified: headers["mtime"].flatMap(moment)
                ?? Timestamp(seconds: lastModified.seconds, nanoseconds: 0)
        )
    }

    /// The bits of the kind and the permissions: decimal from s3fs, octal from `rclone --metadata`,
    /// and with a leading zero in any case.
    private static func mode(_ headers: [String: String]) -> UInt32? {
        guard let text = headers["mode"] else { return nil }
        for radix in text.hasPrefix("0") ? [8] : [10, 8] {
            guard let mode = UInt32(text, radix: radix), mode <= 0o177777 else { continue }
            if [S_IFREG, S_IFDIR, S_IFLNK].contains(mode & S_IFMT) { return mode }
        }
        return nil
    }

    /// Seconds since 1970 with or without a fraction, or RFC 3339.
    private static func moment(_ text: String) -> Timestamp? {
        let parts = text.split(separator: ".", maxSplits: 1, omittingEmptySubsequences: false)
        if let seconds = parts.first.flatMap({ Int64($0) }) {
            guard parts.count > 1 else { return Timestamp(seconds: seconds, nanoseconds: 0) }
            let digits = parts[1].prefix(9)
            guard let fraction = Int64(digits), fraction >= 0 else { return nil }
            let scale = (digits.count..<9).reduce(Int64(1)) { scale, _ in scale * 10 }
            let isNegative = text.hasPrefix("-")
            return Timestamp(
                seconds: seconds,
                nanoseconds: fraction * scale * (isNegative ? -1 : 1)
            )
        }
        // Nanoseconds are too fine for a `Date`.
        let digits = parts.count > 1 ? parts[1].prefix { $0.isASCII && $0.isNumber } : ""
        let whole = parts.count > 1 ? parts[0] + parts[1].dropFirst(digits.count) : parts[0]
        guard let date = try? Date.ISO8601FormatStyle().parse(String(whole)) else { return nil }
        let padded = digits.prefix(9) + String(repeating: "0", count: max(0, 9 - digits.count))
        return Timestamp(
            seconds: Int64(date.timeIntervalSince1970.rounded(.down)),
            nanoseconds: Int64(padded) ?? 0
        )
    }

    /// Attributes as they are stored, names and values encoded; `nil` if it is no list of them.
    private static func stored(_ text: String) -> [String: String]? {
        guard let json = URIEncoding.decode(text.utf8) else { return nil }
        return try? JSONDecoder().decode([String: String].self, from: Data(json))
    }

    private static func isSynced(_ encoded: String) -> Bool {
        URIEncoding.decode(encoded.utf8).map {
            RemoteAttribute.isSynced(String(decoding: $0, as: UTF8.self))
        } ?? false
    }

    /// Applications' attributes; anything that cannot be read as such is left out.
    static func attributes(_ headers: [String: String]) -> [String: [UInt8]] {
        guard let fields = headers["xattr"].flatMap(stored) else { return [:] }
        var attributes: [String: [UInt8]] = [:]
        // In order: of names that differ by their normal form only the first is one.
        for (encoded, value) in fields.sorted(by: { $0.key < $1.key }) {
            guard let name = URIEncoding.decode(encoded.utf8),
                let bytes = Data(base64Encoded: value)
            else { continue }
            let text = String(decoding: name, as: UTF8.self)
            if RemoteAttribute.isSynced(text), attributes[text] == nil {
                attributes[text] = Array(bytes)
            }
        }
        return attributes
    }

    /// Whether a document's identity is stored.
    static func isIdentified(_ headers: [String: String]) -> Bool {
        headers["cloudfs-id"].flatMap { DocumentID($0) } != nil
    }

    /// The stored identity, or one that every device derives alike.
    ///
    /// Those of one folder begin alike: catalogs keep them together, and a listing changes few
    /// pages of their index.
    static func documentID(
        _ headers: [String: String],
        key: [UInt8],
        container: String
    ) -> DocumentID {
        if let text = headers["cloudfs-id"], let id = DocumentID(text) { return id }
        let slash = UInt8(ascii: "/")
        let end = key.last == slash ? key.count - 1 : key.count
        let folder = key[..<(key[..<end].lastIndex(of: slash) ?? 0)]
        return DocumentID(
            high: digest(of: folder, in: container).high,
            low: digest(of: key[...], in: container).low
        )
    }

    /// 128 bits that stand for a key.
    static func digest(of key: ArraySlice<UInt8>, in container: String) -> DocumentID {
        let digest = Array(SHA256.hash(data: Array("\(container)\n".utf8) + key))
        func word(_ bytes: ArraySlice<UInt8>) -> UInt64 { bytes.reduce(0) { $0 << 8 | UInt64($1) } }
        return DocumentID(high: word(digest[0..<8]), low: word(digest[8..<16]))
    }
}
