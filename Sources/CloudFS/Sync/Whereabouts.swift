import Synchronization

/// Folders that were looked for at a place where they are not, or not yet known to be: somebody
/// moved them, or what is above them.
///
/// What changed in such a folder is seen as soon as this machine has heard of the move; until then
/// nobody lists it again.
final class Whereabouts: Sendable {
    private struct State {
        /// Where known folders were not found.
        var missed: [ItemID: RemotePath] = [:]
        /// Where hints said that something changed, and no known folder is.
        var unknown: Set<RemotePath> = []
    }

    private let state = Mutex(State())
    /// Beyond that, the next comparison of everything finds what changed.
    private static let limit = 1_000

    /// Notes that the cloud has no folder where this one was thought to be.
    func noteMissed(_ folder: ItemID, at path: RemotePath) {
        state.withLock { state in
            guard state.missed.count < Self.limit else { return }
            state.missed[folder] = path
        }
    }

    /// Notes that something changed in a folder that this machine does not know.
    func noteUnknown(_ path: RemotePath) {
        state.withLock { state in
            guard state.unknown.count < Self.limit else { return }
            state.unknown.insert(path)
        }
    }

    var isEmpty: Bool { state.withLock { $0.missed.isEmpty && $0.unknown.isEmpty } }

    /// Takes out the folders whose places are known by now; each was to be listed.
    func takeFound(_ reader: CatalogReader, root: ItemID) throws -> [ItemID] {
        let (missed, unknown) = state.withLock { ($0.missed, $0.unknown) }
        var found: [ItemID] = []
        for (folder, path) in missed {
            let current = try reader.remotePath(of: folder)
            guard current != path else { continue }
            if current != nil { found.append(folder) }
            state.withLock { $0.missed[folder] = nil }
        }
        for path in unknown {
            guard let folder = try reader.folder(at: path, root: root) else { continue }
            // A new one is listed anyway.
            if try reader.existing(folder).isListed { found.append(folder) }
            state.withLock { _ = $0.unknown.remove(path) }
        }
        return found
    }
}
