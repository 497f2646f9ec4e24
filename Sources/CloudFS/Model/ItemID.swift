/// The number of an item on this machine: the catalog's row and the kernel's inode number.
///
/// Never reused, and never sent anywhere. The root of a drive is 1.
public struct ItemID: Hashable, Sendable, Comparable, CustomStringConvertible {
    public let rawValue: Int64

    public init(_ rawValue: Int64) {
        self.rawValue = rawValue
    }

    /// The root folder of the drive; `FUSE_ROOT_ID`.
    public static let root = ItemID(1)

    public var description: String { String(rawValue) }

    public static func < (left: ItemID, right: ItemID) -> Bool { left.rawValue < right.rawValue }
}

/// The identity of a document across names, devices and saves: 128 random bits.
public struct DocumentID: Hashable, Sendable, CustomStringConvertible {
    public let high: UInt64
    public let low: UInt64

    public init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// A new identity that no other document has.
    public static func random() -> DocumentID {
        var generator = SystemRandomNumberGenerator()
        return DocumentID(high: generator.next(), low: generator.next())
    }

    /// The identity written as 32 hexadecimal digits, or `nil` if `text` is anything else.
    public init?(_ text: some StringProtocol) {
        guard text.utf8.count == 32, text.utf8.allSatisfy({ Self.isHexDigit($0) }),
            let high = UInt64(text.prefix(16), radix: 16),
            let low = UInt64(text.dropFirst(16), radix: 16)
        else { return nil }
        self.init(high: high, low: low)
    }

    public var description: String { Self.hex(high) + Self.hex(low) }

    private static func hex(_ value: UInt64) -> String {
        let digits = String(value, radix: 16)
        return String(repeating: "0", count: 16 - digits.utf8.count) + digits
    }

    private static func isHexDigit(_ byte: UInt8) -> Bool {
        (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte) || (0x41...0x46).contains(byte)
    }
}

/// What a provider calls an item for as long as it exists there, wherever it is moved.
///
/// Opaque: compared for equality only. At most 512 bytes.
public struct RemoteID: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: String

    public init(_ rawValue: String) {
        self.rawValue = rawValue
    }

    public var description: String { rawValue }
}

/// The number of a container on this drive; one drive can hold several.
public struct ContainerID: Hashable, Sendable, CustomStringConvertible {
    public let rawValue: Int64

    public init(_ rawValue: Int64) {
        self.rawValue = rawValue
    }

    public var description: String { String(rawValue) }
}
