/// The key of a record, without the journal's folder.
struct S3JournalKey: Sendable, Equatable {
    var milliseconds: Int64
    /// Which device, and since when it runs: counts begin anew with each start.
    var device: String
    var count: Int64

    init(milliseconds: Int64, device: String, count: Int64) {
        self.milliseconds = milliseconds
        self.device = device
        self.count = count
    }

    /// Reads the end of a key; `nil` if it is no record's.
    init?(_ key: [UInt8]) {
        let name = key.suffix(while: { $0 != UInt8(ascii: "/") })
        let parts = String(decoding: name, as: UTF8.self).split(separator: "-")
        guard parts.count == 3, let milliseconds = Int64(parts[0]), let count = Int64(parts[2]),
            milliseconds >= 0, (0..<Int64.max / 2).contains(count)
        else { return nil }
        self.milliseconds = milliseconds
        self.count = count
        device = String(parts[1])
    }

    /// The device without the time.
    var owner: Substring { device.prefix { $0 != "." } }

    /// When the device began to count, in milliseconds; `nil` if the key does not tell.
    var begun: Int64? {
        let parts = device.split(separator: ".")
        return parts.count == 2 ? Int64(parts[1], radix: 16) : nil
    }

    /// How a device is called that began to count at a time of the server.
    static func device(_ owner: String, since milliseconds: Int64) -> String {
        "\(owner).\(String(max(0, milliseconds), radix: 16))"
    }

    var bytes: [UInt8] { Self.time(milliseconds) + Array("-\(device)-\(count)".utf8) }

    /// 15 digits, so that keys sort by time.
    static func time(_ milliseconds: Int64) -> [UInt8] {
        let digits = String(milliseconds)
        return Array((String(repeating: "0", count: max(0, 15 - digits.count)) + digits).utf8)
    }
}

/// The key of the journal's floor: records older than it may be gone.
///
/// It sorts behind all records, so that every listing of new ones has it too.
enum S3JournalFloor {
    static let stem = Array("floor-".utf8)

    static func bytes(_ milliseconds: Int64) -> [UInt8] { stem + S3JournalKey.time(milliseconds) }

    /// Reads the end of a key; `nil` if it is no floor's.
    static func milliseconds(_ key: [UInt8]) -> Int64? {
        let name = Array(key.suffix(while: { $0 != UInt8(ascii: "/") }))
        guard name.starts(with: stem) else { return nil }
        return Int64(String(decoding: name.dropFirst(stem.count), as: UTF8.self)).flatMap {
            $0 >= 0 ? $0 : nil
        }
    }
}

/// What a record says: one line for each folder or item, `children`, `subtree` or `item` and its
/// path.
enum S3JournalRecord {
    static let maximumByteCount = 1 << 20
    private static let linesPerRecord = 1_000

    static func bodies(of hints: Set<ChangeHint>) -> [[UInt8]] {
        let lines = hints.map { hint in
            switch hint {
            case .children(let path): "children \(encode(path))\n"
            case .subtree(let path): "subtree \(encode(path))\n"
            case .item(let path): "item \(encode(path))\n"
            }
        }.sorted()
        return stride(from: 0, to: lines.count, by: linesPerRecord).map { start in
            Array(lines[start..<min(start + linesPerRecord, lines.count)].joined().utf8)
        }
    }

    /// Reads a record; what cannot be read means that everything may have changed.
    static func hints(in body: [UInt8]) -> Set<ChangeHint> {
        var hints: Set<ChangeHint> = []
        for line in String(decoding: body, as: UTF8.self).split(separator: "\n") {
            let words = line.split(separator: " ", omittingEmptySubsequences: false)
            guard words.count == 2, let path = decode(words[1]) else { return [.subtree(.root)] }
            switch words[0] {
            case "children": hints.insert(.children(of: path))
            case "subtree": hints.insert(.subtree(path))
            case "item": hints.insert(.item(path))
            default: return [.subtree(.root)]
            }
        }
        return hints
    }

    private static func encode(_ path: RemotePath) -> String {
        path.names.map { URIEncoding.encode($0.bytes, keepingSlash: false) }.joined(separator: "/")
    }

    private static func decode(_ text: Substring) -> RemotePath? {
        var names: [ItemName] = []
        for part in text.split(separator: "/") {
            guard let bytes = URIEncoding.decode(part.utf8) else { return nil }
            do throws(CloudFSError) {
                names.append(try ItemName(bytes))
            } catch {
                return nil
            }
        }
        return RemotePath(names)
    }
}

extension Array where Element == UInt8 {
    /// The longest end of the bytes that all satisfy `predicate`.
    fileprivate func suffix(while predicate: (UInt8) -> Bool) -> ArraySlice<UInt8> {
        let start = lastIndex { !predicate($0) }.map { $0 + 1 } ?? startIndex
        return self[start...]
    }
}
