/// A folder of links that CloudFS makes up, below `.cloudfs`.
enum VirtualFolder: Int64, CaseIterable, Sendable {
    case recents = 1
    case favorites
    case tags
    case conflicts
    case pinned
    case byID
    case search

    var name: String {
        switch self {
        case .recents: "recents"
        case .favorites: "favorites"
        case .tags: "tags"
        case .conflicts: "conflicts"
        case .pinned: "pinned"
        case .byID: "by-id"
        case .search: "search"
        }
    }

    init?(name: ItemName) {
        guard let known = Self.allCases.first(where: { Array($0.name.utf8) == name.bytes }) else {
            return nil
        }
        self = known
    }
}

/// Something in the drive that no container has: `.cloudfs` and what is below it.
///
/// Its number says all there is to know of it, so that any worker can answer for it, and it never
/// is that of an item: items count up from 1.
enum VirtualNode: Hashable, Sendable {
    /// `.cloudfs`
    case top
    case folder(VirtualFolder)
    /// The folder of a tag, by the tag's number in the catalog.
    case tag(Int64)
    /// The folder of a query, by the number that the catalog gave its text.
    case search(Int64)
    /// A link to an item, `depth` folders below the drive's root.
    case link(ItemID, depth: Int)

    private static let mark: Int64 = 1 << 62
    private static let kindShift: Int64 = 56
    /// Greater numbers of items are never reached.
    private static let payloadMask: Int64 = (1 << kindShift) - 1
    private static let depths = 2...3

    /// What stands for a file, or a folder, that is gone, while it is told that it is.
    static let formerFile = ItemID(mark | 0x3e << kindShift)
    static let formerFolder = ItemID(mark | 0x3f << kindShift)

    private enum Kind: Int64 {
        case top
        case folder
        case tag
        case link2
        case link3
        case search
    }

    var id: ItemID {
        let (kind, payload): (Kind, Int64) =
            switch self {
            case .top: (.top, 0)
            case .folder(let folder): (.folder, folder.rawValue)
            case .tag(let tag): (.tag, tag)
            case .search(let search): (.search, search)
            case .link(let item, let depth): (depth == 2 ? .link2 : .link3, item.rawValue)
            }
        return ItemID(Self.mark | kind.rawValue << Self.kindShift | payload & Self.payloadMask)
    }

    /// What has this number; `nil` for that of an item, and for one that nothing has.
    init?(_ id: ItemID) {
        guard id.isVirtual else { return nil }
        let bits = id.rawValue ^ Self.mark
        let payload = bits & Self.payloadMask
        switch Kind(rawValue: bits >> Self.kindShift) {
        case .top where payload == 0: self = .top
        case .folder:
            guard let folder = VirtualFolder(rawValue: payload) else { return nil }
            self = .folder(folder)
        case .tag where payload > 0: self = .tag(payload)
        case .link2 where payload > 0: self = .link(ItemID(payload), depth: 2)
        case .link3 where payload > 0: self = .link(ItemID(payload), depth: 3)
        case .search where payload > 0: self = .search(payload)
        case .top, .tag, .link2, .link3, .search, nil: return nil
        }
    }

    /// The folder that it is in; `nil` for links, of which nobody asks it.
    var parent: ItemID? {
        switch self {
        case .top: .root
        case .folder: VirtualNode.top.id
        case .tag: VirtualNode.folder(.tags).id
        case .search: VirtualNode.folder(.search).id
        case .link: nil
        }
    }

    var isFolder: Bool {
        if case .link = self { false } else { true }
    }

    /// How many folders below the drive's root the links of this folder are.
    var depthOfLinks: Int {
        switch self {
        case .tag, .search: 3
        case .top, .folder, .link: 2
        }
    }

    /// Whether a query must be answered to know what is in it.
    var isOfQueries: Bool {
        switch self {
        case .folder(.search), .search: true
        case .top, .folder, .tag, .link: false
        }
    }

    /// Whether what it holds depends on when files were opened.
    var showsUses: Bool {
        switch self {
        case .folder(.recents), .search: true
        case .top, .folder, .tag, .link: false
        }
    }
}

extension ItemID {
    /// Whether it is the number of something below `.cloudfs`.
    var isVirtual: Bool { rawValue >> 62 == 1 }
}
