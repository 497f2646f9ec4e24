/// What an object in `.cloudfs/moves` says: five lines.
struct S3MoveIntent: Sendable, Equatable {
    var source: [UInt8]
    var target: [UInt8]
    /// Whether everything is in the new place, and the old one is being deleted.
    var isCopied: Bool
    /// Who moves it.
    var device: String
    /// When all was begun to be copied, by the server's clock; `nil` where that is not known.
    var begun: Timestamp?

    static let maximumByteCount = 8_192

    init(
        source: [UInt8],
        target: [UInt8],
        isCopied: Bool = false,
        device: String = "",
        begun: Timestamp? = nil
    ) {
        self.source = source
        self.target = target
        self.isCopied = isCopied
        self.device = device
        self.begun = begun
    }

    /// - Parameter prefix: Of the container; folders outside of it are none of its business.
    init?(_ bytes: [UInt8], within prefix: [UInt8]) {
        let lines = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard (3...5).contains(lines.count), let source = URIEncoding.decode(lines[0].utf8),
            let target = URIEncoding.decode(lines[1].utf8),
            [source, target].allSatisfy({
                $0.starts(with: prefix) && $0.count > prefix.count && $0.last == UInt8(ascii: "/")
            })
        else { return nil }
        self.init(
            source: source,
            target: target,
            isCopied: lines[2] == "copied",
            device: lines.count > 3 ? String(lines[3]) : "",
            begun: lines.count > 4
                ? S3Number.parse(lines[4].utf8).map { Timestamp(seconds: $0, nanoseconds: 0) }
                : nil
        )
    }

    var bytes: [UInt8] {
        let lines = [source, target].map { URIEncoding.encode($0, keepingSlash: true) }
        let time = begun.map { "\($0.seconds)" } ?? ""
        let rest = [isCopied ? "copied" : "copying", device, time]
        return Array((lines + rest).joined(separator: "\n").utf8)
    }

    /// The folder that is not shown.
    var hidden: [UInt8] { isCopied ? source : target }
}
