/// The one word for a person about an item.
enum ItemStatusWord: String, Sendable, CaseIterable {
    case cloud
    case downloading
    case partial
    case local
    case modified
    case uploading
    case conflict
    case error
    case excluded
}

/// Everything that attributes and status tell about one item, as it is at one moment.
struct ItemFacts: Sendable {
    var item: Item
    var effectivePolicy: ContentPolicy
    /// Live, where the file is in use.
    var size: Int64
    /// Bytes of content that are here.
    var localBytes: Int64
    var isDownloading = false
    /// Bytes of the running upload that were sent; `nil` when none runs.
    var sentBytes: Int64?
    /// Whether something about it is still to be sent.
    var isQueued = false
    /// Whether its name is one that stays on this machine.
    var isLocalOnly = false
    var hasConflicts = false
    var hasNewer = false
    /// Whether a person wants to find it again.
    var isFavorite = false
    /// When a person's program opened it last.
    var lastUsed: Timestamp?
    /// What the last attempt to send or fetch it failed with.
    var error: String?
    var version: ItemVersion?
    var contentType: String
    /// What it is a kind of, the nearest first.
    var contentTypeTree: [String] { contentTypes.tree(of: contentType) }
    var contentTypes: ContentTypes
    var container: String
    /// For the root: what was fetched since the mount, in requests and bytes.
    var fetched: (requests: Int, bytes: Int64)?

    var status: ItemStatusWord {
        if effectivePolicy == .excluded || isLocalOnly { return .excluded }
        if error != nil { return .error }
        if hasConflicts { return .conflict }
        if sentBytes != nil { return .uploading }
        if isQueued { return .modified }
        guard item.kind == .file else { return .local }
        if isDownloading { return .downloading }
        switch item.content.residency {
        case .resident: return .local
        // Complete but not yet stored as such counts as under way: a crash now would lose it.
        case .partial: return localBytes >= size ? .downloading : .partial
        case .placeholder: return size == 0 ? .local : .cloud
        }
    }

    /// 0 to 100.
    var percentDownloaded: Double {
        guard item.kind == .file, size > 0 else { return 100 }
        return min(100, Double(localBytes) * 100 / Double(size))
    }

    /// 0 to 100 while it is being sent, 0 while it waits, else `nil`.
    var percentUploaded: Double? {
        if let sentBytes {
            return size > 0 ? min(100, Double(sentBytes) * 100 / Double(size)) : 100
        }
        return isQueued && item.content.cleanliness != .clean ? 0 : nil
    }

    /// Apple's word for what of the newest version is here.
    var downloadingStatus: String {
        guard percentDownloaded >= 100 else { return "not-downloaded" }
        return hasNewer ? "downloaded" : "current"
    }
}
