/// A type of documents that the drive file or the desktop does not know by itself.
///
/// As an application declares it on Apple's systems: an identifier, what tells such a file by its
/// name, and what it is a kind of.
public struct DeclaredType: Sendable, Equatable {
    public var identifier: String
    /// Without their dots, as `note` or `tar.gz`.
    public var extensions: [String]
    /// Its MIME type; one is made of the identifier where there is none.
    public var mime: String?
    /// Identifiers or MIME types of what it is a kind of.
    public var conforms: [String]

    /// Most of them in a drive file.
    static let most = 1_000
    /// Longest name of a type, in bytes.
    static let longestName = 255

    public init(
        identifier: String,
        extensions: [String] = [],
        mime: String? = nil,
        conforms: [String] = ["public.data"]
    ) {
        self.identifier = identifier
        self.extensions = extensions
        self.mime = mime
        self.conforms = conforms
    }

    /// The type of folders with an extension that are one document each.
    static func package(_ name: String) -> DeclaredType {
        DeclaredType(
            identifier: "local.\(name).package",
            extensions: [name],
            conforms: ["com.apple.package"]
        )
    }

    /// The MIME type that stands for it.
    var mimeName: String { mime?.lowercased() ?? "application/x-" + identifier.lowercased() }

    /// Whether a text can be the name of a type: letters, digits, `.`, `-`, and with `/` a MIME
    /// type.
    static func isName(_ text: String, withSlash: Bool) -> Bool {
        let parts = text.split(separator: "/", omittingEmptySubsequences: false)
        return (1...longestName).contains(text.utf8.count)
            && parts.count == (withSlash ? 2 : 1)
            && parts.allSatisfy { part in
                !part.isEmpty
                    && part.utf8.allSatisfy { byte in
                        switch byte {
                        case UInt8(ascii: "a")...UInt8(ascii: "z"),
                            UInt8(ascii: "A")...UInt8(ascii: "Z"),
                            UInt8(ascii: "0")...UInt8(ascii: "9"):
                            true
                        default: ".-+_!$&^".utf8.contains(byte)
                        }
                    }
            }
    }
}
