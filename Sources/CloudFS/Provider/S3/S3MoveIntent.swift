import Synchronization

/// What an object in `.cloudfs/moves` says: four lines.
struct S3MoveIntent: Sendable, Equatable {
    var source: [UInt8]
    var target: [UInt8]
    /// Whether everything is in the new place, and the old one is being deleted.
    var isCopied: Bool
    /// Who moves it.
    var device: String

    static let maximumByteCount = 8_192

    init(source: [UInt8], target: [UInt8], isCopied: Bool = false, device: String) {
        self.source = source
        self.target = target
        self.isCopied = isCopied
        self.device = device
    }

    /// - Parameter prefix: Of the container; folders outside of it are none of its business.
    init?(_ bytes: [UInt8], within prefix: [UInt8]) {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard (3...4).contains(lines.count), let source = URIEncoding.decode(lines[0].utf8),
            let target = URIEncoding.decode(lines[1].utf8),
            [source, target].allSatisfy({
                $0.starts(with: prefix) && $0.count > prefix.count && $0.last == UInt8(ascii: "/")
            })
        else { return nil }
        self.init(
            source: source,
            target: target,
            isCopied: lines[2] == "copied",
            device: lines.count > 3 ? String(lines[3]) : ""
        )
    }

    var bytes: [UInt8] {
        let lines = [source, target].map { URIEncoding.encode($0, keepingSlash: true) }
        let rest = [isCopied ? "copied" : "copying", device, ""]
        return Array((lines + rest).joined(separator: "\n").utf8)
    }

    /// The folder that is not shown.
    var hidden: [UInt8] { isCopied ? source : target }
}

/// A folder on its way.
final class S3Move: Sendable {
    let source: [UInt8]
    let target: [UInt8]
    /// Of its intent.
    let key: [UInt8]
    private let told: Mutex<Duration>

    init(source: [UInt8], target: [UInt8], key: [UInt8], at now: Duration) {
        self.source = source
        self.target = target
        self.key = key
        told = Mutex(now)
    }

    func newKey(of object: S3Object) -> [UInt8] { target + object.key.dropFirst(source.count) }

    /// - Returns: Whether the intent is to be written again; then not again before `interval`.
    func mustBeTold(at now: Duration, each interval: Duration) -> Bool {
        told.withLock { told in
            guard now - told >= interval else { return false }
            told = now
            return true
        }
    }
}
