import Synchronization

/// Something that the kernel, or anyone else above the engine, must hear of.
enum ItemChange: Sendable, Hashable {
    /// Size, times, mode or attributes changed.
    case attributes(ItemID)
    /// The bytes changed too. Never published while the item has a handle.
    case content(ItemID)
    case entryAppeared(parent: ItemID, name: ItemName)
    case entryVanished(parent: ItemID, name: ItemName, item: ItemID)
    /// Another item has the name now.
    case entryReplaced(parent: ItemID, name: ItemName)

    /// Whether names of the folder came, went or changed their item.
    func changesEntries(of folder: ItemID) -> Bool {
        switch self {
        case .attributes, .content: false
        case .entryAppeared(let parent, _), .entryVanished(let parent, _, _),
            .entryReplaced(let parent, _):
            parent == folder
        }
    }

    var isAppearance: Bool {
        if case .entryAppeared = self { true } else { false }
    }
}

/// The one channel by which news goes up: changes that the engine made true.
///
/// What applications do through the mount is not published: the kernel knows it already.
final class ChangeHub: Sendable {
    private struct State {
        var subscribers: [UInt64: @Sendable ([ItemChange]) -> Void] = [:]
        var next: UInt64 = 1
    }

    private let state = Mutex(State())

    /// Calls `receive` with every batch of changes from now on; it must not block.
    func subscribe(_ receive: @escaping @Sendable ([ItemChange]) -> Void) -> UInt64 {
        state.withLock { state in
            defer { state.next += 1 }
            state.subscribers[state.next] = receive
            return state.next
        }
    }

    func unsubscribe(_ token: UInt64) {
        state.withLock { _ = $0.subscribers.removeValue(forKey: token) }
    }

    /// Tells all subscribers; call it after the changes are committed, with no lock held.
    func publish(_ changes: [ItemChange]) {
        guard !changes.isEmpty else { return }
        let subscribers = state.withLock { Array($0.subscribers.values) }
        for receive in subscribers { receive(changes) }
    }
}
