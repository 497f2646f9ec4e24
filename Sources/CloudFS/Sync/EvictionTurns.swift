/// What an evictor looks at.
///
/// All files that are here, of which there may be many, are looked at again only after a pause, if
/// that did not make enough room. Until then it is those that were used or changed since.
struct EvictionTurns {
    /// What is looked at in one turn.
    enum Turn: Equatable {
        case all
        case used(Set<ItemID>)
    }

    private var used: Set<ItemID> = []
    /// Whether any file may be one that can go now.
    private var isReset = false
    /// When all files are looked at again, if not at once.
    private var due: Duration?

    /// The pause is so many times as long as looking at all files took, within bounds.
    private static let rest = 50
    static let shortestPause = Duration.milliseconds(250)
    static let longestPause = Duration.seconds(60)
    /// What is used beyond these is looked at with all others.
    static let mostUsed = 4_096

    /// Notes files that may be ones that can go now.
    mutating func note(_ items: [ItemID]) {
        for id in items where used.count < Self.mostUsed { used.insert(id) }
    }

    /// Notes that any file may be one.
    mutating func noteAll() {
        isReset = true
    }

    /// Begins a turn; what is noted from now on is for the next one.
    mutating func next(at now: Duration) -> Turn {
        defer {
            used = []
            isReset = false
        }
        guard !isReset, let due, now < due else { return .all }
        return .used(used)
    }

    /// Notes that all were looked at, and that there is still not enough room.
    mutating func noteLack(from begin: Duration, to end: Duration) {
        let pause = min(max((end - begin) * Self.rest, Self.shortestPause), Self.longestPause)
        due = end + pause
    }
}

/// Which of many files are pinned, most of them by their folders.
struct PinnedFolders {
    private var known: [ItemID: Bool] = [:]

    /// Whether a file is pinned; each folder is looked for once.
    mutating func hold(_ file: LocalFile, _ reader: CatalogReader) throws -> Bool {
        let policy = file.record.item.content.policy
        guard policy == .inherited, let folder = file.folder else { return policy == .pinned }
        if let isPinned = known[folder] { return isPinned }
        let isPinned = try reader.effectivePolicy(of: folder) == .pinned
        known[folder] = isPinned
        return isPinned
    }
}
