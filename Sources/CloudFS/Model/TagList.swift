/// The attribute by which the desktop keeps a file's tags: names separated by commas.
///
/// - Source: https://www.freedesktop.org/wiki/CommonExtendedAttributes/
public struct TagList: Sendable, Hashable {
    /// The name of the attribute.
    public static let attribute = "user.xdg.tags"
    /// How many tags of one item are taken notice of.
    public static let mostTags = 256
    private static let longestTag = 255

    /// In the order they were given, each once.
    public private(set) var names: [String] = []

    public init(_ names: some Sequence<String>) {
        for name in names where self.names.count < Self.mostTags { add(name) }
    }

    /// Reads the attribute; what is no UTF-8, or longer than a file name, is no tag.
    public init(attribute bytes: [UInt8]) {
        let text = String(validating: bytes, as: UTF8.self) ?? ""
        self.init(text.split(separator: ",").map { Self.trimmed($0) })
    }

    /// The attribute's value.
    public var bytes: [UInt8] { Array(names.joined(separator: ",").utf8) }

    private mutating func add(_ name: String) {
        let length = name.utf8.count
        guard (1...Self.longestTag).contains(length), !name.utf8.contains(0), !names.contains(name)
        else { return }
        names.append(name)
    }

    private static func trimmed(_ text: Substring) -> String {
        func isBlank(_ character: Character) -> Bool {
            [" ", "\t", "\n", "\r\n"].contains(character)
        }
        let start = text.drop(while: isBlank)
        let end = start.lastIndex { !isBlank($0) }
        return String(end.map { start[...$0] } ?? "")
    }

    /// What two sides made of the same tags: whatever one of them added is there, whatever one of
    /// them took away is not.
    public static func merged(base: TagList, ours: TagList, theirs: TagList) -> TagList {
        let (old, own) = (Set(base.names), Set(ours.names))
        let kept = theirs.names.filter { own.contains($0) || !old.contains($0) }
        return TagList(kept + ours.names.filter { !old.contains($0) })
    }
}
