/// A name without its case, as queries compare it: UTF-8, one scalar at a time.
///
/// Letters beyond ASCII never become ASCII ones, so that what SQLite finds without regard to ASCII
/// case is never less than what is meant.
struct FoldedName: Sendable, Hashable {
    let bytes: [UInt8]

    init(_ name: some Collection<UInt8>) {
        guard name.contains(where: { $0 >= 0x80 }) else {
            bytes = name.map(Self.folded)
            return
        }
        bytes = Self.folded(String(decoding: name, as: UTF8.self))
    }

    init(_ text: String) {
        self.init(Array(text.utf8))
    }

    private static func folded(_ byte: UInt8) -> UInt8 {
        (UInt8(ascii: "A")...UInt8(ascii: "Z")).contains(byte) ? byte + 0x20 : byte
    }

    private static func folded(_ text: String) -> [UInt8] {
        var bytes: [UInt8] = []
        for scalar in text.unicodeScalars {
            guard !scalar.isASCII else {
                bytes.append(folded(UInt8(scalar.value)))
                continue
            }
            let lower = scalar.properties.lowercaseMapping
            bytes += lower.utf8.allSatisfy { $0 >= 0x80 } ? Array(lower.utf8) : Array(scalar.utf8)
        }
        return bytes
    }

    var text: String { String(decoding: bytes, as: UTF8.self) }

    /// What the index of names holds of it: marked where it begins and where it ends.
    var indexed: String { "\u{2}" + text + "\u{3}" }

    func contains(_ part: [UInt8]) -> Bool {
        guard let first = part.first else { return true }
        guard bytes.count >= part.count else { return false }
        for start in 0...(bytes.count - part.count) where bytes[start] == first {
            if bytes[start..<(start + part.count)].elementsEqual(part) { return true }
        }
        return false
    }
}

extension Unicode.Scalar {
    fileprivate var utf8: String.UTF8View { String(self).utf8 }
}

/// A text that the indexed form of every name of some kind holds.
struct NameNeedle: Sendable, Hashable {
    let text: String

    private init(_ text: String) {
        self.text = text
    }

    /// For names that are exactly this.
    init(whole text: String) {
        self.init(FoldedName(text).indexed)
    }

    /// For names that end so.
    init(end text: String) {
        self.init(FoldedName(text).text + "\u{3}")
    }

    /// For names that match a pattern of the shell's kind; `nil` where they have too little in
    /// common.
    init?(glob: String) {
        var runs = [[UInt8(2)]]
        var rest = FoldedName(glob).bytes[...]
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "*"), UInt8(ascii: "?"): runs.append([])
            case UInt8(ascii: "["):
                let end = rest.firstIndex(of: UInt8(ascii: "]"))
                rest = end.map { rest[($0 + 1)...] } ?? []
                runs.append([])
            default: runs[runs.count - 1].append(byte)
            }
        }
        runs[runs.count - 1].append(3)
        self.init(longest: runs)
    }

    /// The longest of some parts that a name has.
    init?(longest runs: [[UInt8]]) {
        guard let longest = runs.max(by: { $0.count < $1.count }) else { return nil }
        self.init(String(decoding: longest, as: UTF8.self))
        guard !trigrams.isEmpty else { return nil }
    }

    /// All parts of three scalars; none of a text that is shorter.
    var trigrams: [String] {
        let scalars = Array(text.unicodeScalars)
        guard scalars.count >= 3 else { return [] }
        return (0...(scalars.count - 3)).map { start in
            var part = String.UnicodeScalarView()
            part.append(contentsOf: scalars[start..<(start + 3)])
            return String(part)
        }
    }
}
