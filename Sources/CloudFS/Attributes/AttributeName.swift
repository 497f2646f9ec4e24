/// The attributes that CloudFS itself answers, below `user.cloudfs`.
///
/// They are not listed, so that programs that copy attributes do not clone an item's identity.
enum AttributeName: String, Sendable, CaseIterable {
    /// All others as one JSON document; its name is `user.cloudfs` alone.
    case all = ""
    case status
    case percentDownloaded = "percent-downloaded"
    case percentUploaded = "percent-uploaded"
    case downloadedBytes = "downloaded-bytes"
    case downloadingStatus = "downloading-status"
    case error
    case pin
    case hydrate
    case evict
    case itemID = "item-id"
    case version
    case container
    case hasConflicts = "has-conflicts"
    /// The names of an item's conflict versions, as a JSON array.
    case conflicts
    case resolve
    case favorite
    case lastUsed = "last-used"
    case contentType = "content-type"
    /// Uniform type identifiers, the nearest first, with commas between them.
    case contentTypeTree = "content-type-tree"
    case thumbnail
    case thumbnail128 = "thumbnail.128"
    case thumbnail256 = "thumbnail.256"
    case thumbnail512 = "thumbnail.512"
    case thumbnail1024 = "thumbnail.1024"
    /// Where the largest one lies in the desktop's cache.
    case thumbnailPath = "thumbnail.path"

    private static let prefix = "user.cloudfs"

    /// The attribute of that full name; `nil` for a name that CloudFS does not know.
    init?(_ name: String) {
        if name == Self.prefix {
            self = .all
            return
        }
        guard name.hasPrefix(Self.prefix + "."),
            let known = AttributeName(rawValue: String(name.dropFirst(Self.prefix.count + 1))),
            known != .all
        else { return nil }
        self = known
    }

    /// Whether a name is CloudFS's own, known or not.
    static func isReserved(_ name: String) -> Bool {
        name == prefix || name.hasPrefix(prefix + ".")
    }

    /// The value for an item; `nil` where there is none.
    func value(for facts: ItemFacts) -> String? {
        switch self {
        case .all: AttributeDocument(facts).text
        case .status: facts.status.rawValue
        case .percentDownloaded: Self.percent(facts.percentDownloaded)
        case .percentUploaded: facts.percentUploaded.map(Self.percent)
        case .downloadedBytes: String(facts.localBytes)
        case .downloadingStatus: facts.downloadingStatus
        case .error: facts.error
        case .pin: facts.item.content.policy.word
        case .hydrate, .evict, .resolve, .conflicts: nil
        case .contentTypeTree: facts.contentTypeTree.joined(separator: ",")
        case .thumbnail, .thumbnail128, .thumbnail256, .thumbnail512, .thumbnail1024,
            .thumbnailPath:
            nil
        case .itemID: facts.item.documentID.description
        case .version: facts.version?.content
        case .container: facts.container
        case .hasConflicts: facts.hasConflicts ? "1" : "0"
        case .favorite: facts.isFavorite ? "1" : "0"
        case .lastUsed: facts.lastUsed?.text
        case .contentType: facts.contentType
        }
    }

    /// Whether its value says what type an item is of.
    var tellsType: Bool { [.all, .contentType, .contentTypeTree].contains(self) }

    /// For an attribute that is a picture: the longest side that it may have, in pixels.
    var pictureSide: Int? {
        switch self {
        case .thumbnail, .thumbnail1024: 1024
        case .thumbnail512: 512
        case .thumbnail256: 256
        case .thumbnail128: 128
        default: nil
        }
    }

    static func percent(_ value: Double) -> String {
        let tenths = Int((value * 10).rounded(.down))
        return tenths % 10 == 0 ? "\(tenths / 10)" : "\(tenths / 10).\(tenths % 10)"
    }
}

extension ContentPolicy {
    /// The word of the attribute `pin` and of the control API.
    var word: String {
        switch self {
        case .inherited: "inherit"
        case .onDemand: "on-demand"
        case .pinned: "pinned"
        case .excluded: "excluded"
        }
    }

    init?(word: some StringProtocol) {
        guard let policy = Self.allCases.first(where: { $0.word == word }) else { return nil }
        self = policy
    }
}
