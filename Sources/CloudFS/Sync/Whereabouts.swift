import Synchronization

/// Folders that were looked for at a place where they are not, or not yet known to be: somebody
/// moved them, or what is above them.
///
/// What changed in such a folder is seen as soon as this machine has heard of the move; until then
/// nobody lists it again. And the other way round: news of before a move may come after it.
final class Whereabouts: Sendable {
    private struct State {
        /// Where known folders were not found, the last one at the end.
        var missed: [Missed] = []
        /// Where hints said that something changed, and no known folder is.
        var unknown: [RemotePath: Unknown] = [:]
        /// Where folders were before they moved, a short while ago, the last one at the end.
        var former: [Former] = []
    }

    private struct Missed {
        var folder: ItemID
        var path: RemotePath
    }

    private struct Unknown {
        /// Until when it is of interest.
        var end: Duration
        /// Whether something may have changed anywhere below it.
        var isSubtree: Bool
    }

    private struct Former {
        var folder: ItemID
        var place: NamePlace
        var end: Duration
    }

    private let state = Mutex(State())
    /// Of more the oldest are forgotten: the next comparison of everything finds what changed.
    static let limit = 1_000
    /// Much longer than news is on its way while the cloud is in reach.
    private static let newsTime = Duration.seconds(120)

    /// Notes that the cloud has no folder where this one was thought to be.
    func noteMissed(_ folder: ItemID, at path: RemotePath) {
        state.withLock { state in
            state.missed.removeAll { $0.folder == folder }
            if state.missed.count >= Self.limit { state.missed.removeFirst() }
            state.missed.append(Missed(folder: folder, path: path))
        }
    }

    /// Notes that something changed in a folder that this machine does not know.
    ///
    /// Most are never known: they are gone again before they are listed.
    ///
    /// - Parameter isSubtree: Whether that may be anywhere below it.
    func noteUnknown(_ path: RemotePath, isSubtree: Bool = false, at now: Duration) {
        state.withLock { state in
            if state.unknown.count >= Self.limit, state.unknown[path] == nil,
                let oldest = state.unknown.min(by: { $0.value.end < $1.value.end })
            {
                state.unknown[oldest.key] = nil
            }
            state.unknown[path] = Unknown(
                end: now + Self.newsTime,
                isSubtree: isSubtree || state.unknown[path]?.isSubtree == true
            )
        }
    }

    /// Notes that an item has left its place in the cloud, before the catalog says so; only folders
    /// matter.
    func noteLeft(_ base: BaseRecord, by kind: ItemKind, at now: Duration) {
        guard kind == .folder, let parent = base.parent else { return }
        let place = NamePlace(parent: parent, name: base.name)
        state.withLock { state in
            state.former.removeAll { $0.end <= now }
            if state.former.count >= Self.limit { state.former.removeFirst() }
            let end = now + Self.newsTime
            state.former.append(Former(folder: base.item, place: place, end: end))
        }
    }

    /// The folders that a path may have meant a short while ago, and now means no longer.
    func formerly(
        at path: RemotePath,
        root: ItemID,
        _ reader: CatalogReader,
        at now: Duration
    ) throws -> Set<ItemID> {
        let all = state.withLock { $0.former.filter { $0.end > now } }
        guard !all.isEmpty else { return [] }
        let former = Dictionary(grouping: all, by: \.place)
        var found: Set<ItemID> = [root]
        for name in path.names {
            var children: Set<ItemID> = []
            for folder in found {
                let place = NamePlace(parent: folder, name: name.bytes)
                children.formUnion(former[place, default: []].map(\.folder))
                if let base = try reader.base(named: name.bytes, in: folder) {
                    children.insert(base.item)
                }
            }
            found = children
        }
        return try found.filter { folder in
            guard let current = try reader.remotePath(of: folder) else { return false }
            return try current != path && reader.existing(folder).item.kind == .folder
        }
    }

    /// The folder that had a place in the cloud until a short while ago.
    func lastFolder(at place: NamePlace, at now: Duration) -> ItemID? {
        state.withLock { $0.former.last { $0.place == place && $0.end > now }?.folder }
    }

    var isEmpty: Bool { state.withLock { $0.missed.isEmpty && $0.unknown.isEmpty } }

    /// Takes out the folders whose places are known by now; each was to be listed.
    func takeFound(
        _ reader: CatalogReader,
        root: ItemID,
        at now: Duration
    ) throws -> [ItemID] {
        let (missed, unknown) = state.withLock { ($0.missed, $0.unknown) }
        var found: [ItemID] = []
        for entry in missed {
            let current = try reader.remotePath(of: entry.folder)
            guard current != entry.path else { continue }
            if current != nil { found.append(entry.folder) }
            state.withLock { state in state.missed.removeAll { $0.folder == entry.folder } }
        }
        for (path, entry) in unknown {
            guard let folder = try reader.folder(at: path, root: root) else { continue }
            // A new one is listed anyway, with all in it.
            if try reader.existing(folder).isListed {
                found += entry.isSubtree ? try reader.cloudFolders(from: folder) : [folder]
            }
            state.withLock { $0.unknown[path] = nil }
        }
        forgetUnknown(at: now)
        return found
    }

    /// What nobody knows after the time that news takes is nothing that has moved.
    private func forgetUnknown(at now: Duration) {
        state.withLock { state in
            guard state.unknown.values.contains(where: { $0.end <= now }) else { return }
            state.unknown = state.unknown.filter { $0.value.end > now }
        }
    }
}
