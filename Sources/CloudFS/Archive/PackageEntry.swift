/// Something in the file that a package is in the cloud.
///
/// That file is a tar archive of the tree (pax, uncompressed), so that any machine can unpack it.
/// The same tree makes the same bytes: entries come in the order of their names' bytes, with
/// nothing in them that a tree does not have.
struct PackageEntry: Sendable, Equatable {
    /// The names that lead to it, as bytes; the last one is its own.
    var path: [[UInt8]]
    /// `file`, `folder` or `symlink`.
    var kind: ItemKind
    /// 0 to 0o777.
    var permissions: UInt16
    var modified: Timestamp
    /// Bytes of content, of a file.
    var size: Int64 = 0
    var linkTarget: [UInt8]?
    /// Applications' extended attributes, with their full names.
    var attributes: [String: [UInt8]] = [:]

    /// Most of them in one package.
    static let most = 100_000
    /// How deep folders are in each other at most.
    static let deepest = 100
    /// The longest target of a link, in bytes.
    static let longestTarget = 4_095
    /// The longest attribute, in bytes, and most of them on one item.
    static let longestAttribute = 65_536
    static let mostAttributes = 128
    /// Bytes of names, targets and attributes of all in one package; 64 MiB.
    static let mostNotes = 64 << 20

    /// Bytes of its names, target and attributes.
    var noteSize: Int {
        path.reduce(0) { $0 + $1.count } + (linkTarget?.count ?? 0)
            + attributes.reduce(0) { $0 + $1.key.utf8.count + $1.value.count }
    }

    /// Whether a tree may have it: nothing that leads out of it, or that no name can be.
    var isSound: Bool {
        (1...Self.deepest).contains(path.count) && path.allSatisfy(Self.isName) && size >= 0
            && (linkTarget?.count ?? 0) <= Self.longestTarget
            && (kind == .symlink) == (linkTarget?.isEmpty == false)
            && attributes.count <= Self.mostAttributes
            && attributes.allSatisfy { name, value in
                RemoteAttribute.isApplications(name) && value.count <= Self.longestAttribute
            }
    }

    private static func isName(_ name: [UInt8]) -> Bool {
        (1...255).contains(name.count) && name != Array(".".utf8) && name != Array("..".utf8)
            && !name.contains(0) && !name.contains(UInt8(ascii: "/"))
    }
}
