import Crypto

/// Which key of a bucket is which path of the drive, both ways.
///
/// A key is cut at its slashes. A part that is a file name stays as it is; the others (`//`, `.`,
/// `..`, NUL, over 255 bytes) get a name that begins with `mark` and says what they were, so that
/// whatever a bucket holds can be seen and nothing leads out of the drive.
struct S3Keys: Sendable {
    /// The container's place in the bucket: empty, or ending in a slash.
    let prefix: [UInt8]

    /// The longest key that a bucket can hold, in bytes.
    static let maximumByteCount = 1_024

    /// `‛`, which begins the names of what is no file name.
    static let mark: [UInt8] = [0xe2, 0x80, 0x9b]

    private static let slash = UInt8(ascii: "/")
    private static let percent = UInt8(ascii: "%")

    /// - Parameter prefix: As in the container's URL, without slashes around it.
    init(prefix: [UInt8]) {
        self.prefix = prefix.isEmpty ? [] : prefix + [Self.slash]
    }

    /// Everything that CloudFS keeps for itself lies below this key.
    var room: [UInt8] { prefix + ItemName.reserved.bytes + [Self.slash] }

    // MARK: - Key to name

    /// The name of one part of a key.
    ///
    /// - Parameter isInRoot: Whether it is the first part, which must not be `.cloudfs`.
    static func name(of part: [UInt8], isInRoot: Bool) throws(CloudFSError) -> ItemName {
        if !part.starts(with: mark), let name = plainName(part, isInRoot: isInRoot) { return name }
        return try markedName(of: part, suffix: [])
    }

    /// The name of a folder beside which a file of the same name exists: `a/` beside `a`.
    static func nameOfFolderBesideFile(_ part: [UInt8]) throws(CloudFSError) -> ItemName {
        try markedName(of: part, suffix: [slash])
    }

    private static func plainName(_ part: [UInt8], isInRoot: Bool) -> ItemName? {
        do throws(CloudFSError) {
            let name = try ItemName(part)
            return isInRoot && name == .reserved ? nil : name
        } catch {
            return nil
        }
    }

    private static func markedName(
        of part: [UInt8],
        suffix: [UInt8]
    ) throws(CloudFSError) -> ItemName {
        let whole = mark + escaped(part + suffix)
        if whole.count <= ItemName.maximumByteCount { return try ItemName(whole) }
        return try ItemName(mark + escaped(longStem(part)) + longTail(part + suffix))
    }

    /// Escapes what no name may have, and the signs that escapes are made of.
    private static func escaped(_ part: [UInt8]) -> [UInt8] {
        part.flatMap { byte -> [UInt8] in
            switch byte {
            case 0, slash, percent, UInt8(ascii: "~"):
                [percent] + Hexadecimal.digits(of: [byte], capitals: true)
            default: [byte]
            }
        }
    }

    // MARK: - Long parts

    /// How much of a part that is too long for a name is kept of it, before escapes.
    private static let longStemByteCount = 64

    private static func longStem(_ part: [UInt8]) -> [UInt8] {
        Array(part.prefix(longStemByteCount))
    }

    /// `~` and the first 8 bytes of the part's SHA-256.
    private static func longTail(_ part: [UInt8]) -> [UInt8] {
        [UInt8(ascii: "~")]
            + Hexadecimal.digits(of: SHA256.hash(data: part).prefix(8), capitals: true)
    }

    // MARK: - Name to key

    /// What a name stands for.
    enum Part: Equatable, Sendable {
        case part([UInt8])
        /// A folder beside a file of the same name.
        case folderBesideFile([UInt8])
        /// A part too long for a name; it begins so, and is found by listing.
        case long(stem: [UInt8])
    }

    /// Reads a name.
    ///
    /// - Throws: `invalidName` for a name with the mark that no key has.
    static func part(of name: ItemName, isInRoot: Bool) throws(CloudFSError) -> Part {
        guard name.bytes.starts(with: mark) else { return .part(name.bytes) }
        let body = Array(name.bytes.dropFirst(mark.count))
        let refusal = CloudFSError(
            .invalidName,
            "names that begin with ‛ stand for keys that are no file names, and \(name) for none"
        )
        if body.count >= 17, body[body.count - 17] == UInt8(ascii: "~") {
            guard let stem = unescaped(Array(body.dropLast(17))) else { throw refusal }
            return .long(stem: stem)
        }
        guard var part = unescaped(body) else { throw refusal }
        if part.last == slash {
            part.removeLast()
            guard !part.contains(slash), !(isInRoot && part == ItemName.reserved.bytes),
                try nameOfFolderBesideFile(part) == name
            else { throw refusal }
            return .folderBesideFile(part)
        }
        // What has a name of its own is not to be had by a second one.
        guard !part.contains(slash), try Self.name(of: part, isInRoot: isInRoot) == name else {
            throw refusal
        }
        return .part(part)
    }

    /// - Throws: `invalidName` for what no new object can be called.
    static func requireNew(_ name: ItemName, isInRoot: Bool) throws(CloudFSError) {
        guard case .part = try part(of: name, isInRoot: isInRoot) else {
            throw CloudFSError(
                .invalidName,
                "\(name) is how a bucket shows something else, and nothing new can be called so"
            )
        }
    }

    /// A name without the mark, and without what says that a folder is beside a file.
    static func plain(_ name: ItemName) -> ItemName {
        guard name.bytes.starts(with: mark) else { return name }
        var rest = name.bytes[...]
        while rest.starts(with: mark) { rest = rest.dropFirst(mark.count) }
        let folder = Array("%2F".utf8)
        if rest.suffix(folder.count).elementsEqual(folder) { rest = rest.dropLast(folder.count) }
        // A long part may be cut in the middle of a character.
        if String(validating: rest, as: UTF8.self) == nil {
            rest = Array(String(decoding: rest, as: UTF8.self).utf8)[...]
        }
        do throws(CloudFSError) {
            return try ItemName(Array(rest))
        } catch {
            // What is left is empty, or `.` or `..`.
            return .unnamed
        }
    }

    private static func unescaped(_ bytes: [UInt8]) -> [UInt8]? {
        var result: [UInt8] = []
        var rest = bytes[...]
        while let byte = rest.popFirst() {
            guard byte == percent else {
                result.append(byte)
                continue
            }
            guard let high = rest.popFirst().flatMap(digit),
                let low = rest.popFirst().flatMap(digit)
            else { return nil }
            result.append(high << 4 | low)
        }
        return result
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 0x30...0x39: byte - 0x30
        case 0x41...0x46: byte - 0x41 + 10
        default: nil
        }
    }

    /// What `name`, which is too short to tell, means if it is how `part` is shown.
    static func long(_ name: ItemName, as part: [UInt8]) throws(CloudFSError) -> Part? {
        if try markedName(of: part, suffix: []) == name { return .part(part) }
        return try markedName(of: part, suffix: [slash]) == name ? .folderBesideFile(part) : nil
    }

    /// The parts of a path joined to a key.
    ///
    /// - Throws: `nameTooLong` if no bucket can hold it.
    func key(_ parts: [[UInt8]]) throws(CloudFSError) -> [UInt8] {
        let key = prefix + parts.joined(separator: [Self.slash])
        guard key.count <= Self.maximumByteCount else {
            throw CloudFSError(
                .nameTooLong,
                "a path of \(key.count) bytes is longer than the 1,024 of a key in a bucket"
            )
        }
        return key
    }

    /// What the keys of everything in a folder begin with.
    func folderKey(_ parts: [[UInt8]]) throws(CloudFSError) -> [UInt8] {
        try parts.isEmpty ? prefix : key(parts) + [Self.slash]
    }
}
