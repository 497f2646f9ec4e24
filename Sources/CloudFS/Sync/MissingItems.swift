import Synchronization

/// What the latest complete listings of folders lack, until it is certain that it is gone.
///
/// For clouds whose ids survive moves: there, what a listing lacks may have moved to a folder that
/// was listed before it did.
final class MissingItems: Sendable {
    typealias Records = [ItemID: [BaseRecord]]

    private let folders = Mutex<Records>([:])
    /// Raised when something is missing.
    let noted = Signal()

    var isEmpty: Bool { folders.withLock { $0.isEmpty } }

    /// By the folders that lack them.
    var all: Records { folders.withLock { $0 } }

    func isLacking(in folder: ItemID) -> Bool { folders.withLock { $0[folder] != nil } }

    /// - Parameter items: All that a new listing of the folder lacks.
    func note(_ items: [BaseRecord], in folder: ItemID) {
        folders.withLock { $0[folder] = items.isEmpty ? nil : items }
        if !items.isEmpty { noted.raise() }
    }

    /// Takes out what was missing before and is missing still.
    func take(_ before: Records) -> Records {
        folders.withLock { folders in
            var taken: Records = [:]
            for (folder, items) in before {
                guard let now = folders[folder] else { continue }
                let known = Dictionary(items.map { ($0.item, $0) }) { first, _ in first }
                let still = now.filter { known[$0.item] == $0 }
                let left = now.filter { known[$0.item] != $0 }
                folders[folder] = left.isEmpty ? nil : left
                if !still.isEmpty { taken[folder] = still }
            }
            return taken
        }
    }
}
