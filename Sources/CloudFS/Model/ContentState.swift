/// How much of a file's content is on this machine.
public enum Residency: Int, Sendable, CaseIterable {
    case placeholder = 0
    case partial = 1
    case resident = 2
}

/// Whether the content here is newer than the version it began from.
public enum Cleanliness: Int, Sendable, CaseIterable {
    case clean = 0
    case dirty = 1
    case uploading = 2
}

/// What the user asked of an item; `inherited` takes the answer of its folder.
public enum ContentPolicy: Int, Sendable, CaseIterable {
    case inherited = 0
    case onDemand = 1
    case pinned = 2
    case excluded = 3
}

/// Three independent answers about one item's content, and which generation of it is here.
public struct ContentState: Hashable, Sendable {
    public var residency: Residency
    public var cleanliness: Cleanliness
    public var policy: ContentPolicy
    /// Which file of the content store holds the bytes; 0 when there is none yet.
    public var generation: Int64

    public init(
        residency: Residency,
        cleanliness: Cleanliness = .clean,
        policy: ContentPolicy = .inherited,
        generation: Int64 = 0
    ) {
        self.residency = residency
        self.cleanliness = cleanliness
        self.policy = policy
        self.generation = generation
    }

    /// Whether the bytes here may be dropped, as far as the item's own state says.
    ///
    /// Dirty bytes are the only copy. Whether the item is open or pinned by a folder is the
    /// caller's question.
    public var isEvictable: Bool {
        cleanliness == .clean && policy != .pinned && policy != .excluded
            && residency != .placeholder
    }
}
