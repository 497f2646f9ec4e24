import Synchronization

/// Of which files the kernel's pages and size, and of which folders its kept listing, are still
/// right.
///
/// The kernel asks when it opens them. It is told of changes as well, but later, and an answer
/// that was under way meanwhile may put outdated bytes into its cache after that: so whatever
/// changed is not kept over the next open.
final class KernelCaches: Sendable {
    private enum State {
        /// Opens were answered, the first of them with this handle, but the kernel may not have
        /// dropped what it kept before.
        case opening(UInt64)
        case kept
    }

    private let states = Mutex<[ItemID: State]>([:])
    /// Files that the engine has given content of another size.
    ///
    /// The kernel does not ask for the size of what it opens: until it was told, or has looked the
    /// file up again, a program would get the new bytes up to the old end. That the kernel did not
    /// know a file when it was told means nothing: the answer to a lookup may be under way.
    let untoldSizes = Untold<ItemID>()
    /// How many items are remembered, some 24 bytes each.
    private static let capacity = 200_000

    /// Notes that an item is opened, after which the kernel keeps what it reads.
    ///
    /// What is not kept the kernel drops before the open returns, and waits for reads of it that
    /// are under way.
    ///
    /// - Parameter handle: Later ones have greater numbers.
    /// - Returns: Whether what it kept before is right.
    func noteOpened(_ id: ItemID, by handle: UInt64) -> Bool {
        states.withLock { states in
            switch states[id] {
            case .kept: return true
            case .opening: return false
            case nil:
                if states.count >= Self.capacity { states.removeAll() }
                states[id] = .opening(handle)
                return false
            }
        }
    }

    /// Notes that a handle was used, or closed: the kernel acted on the answer to its open.
    func noteUsed(_ id: ItemID, by handle: UInt64) {
        states.withLock { states in
            guard case .opening(let first) = states[id], handle >= first else { return }
            states[id] = .kept
        }
    }

    /// Notes that an item has other bytes or names than the kernel may have kept.
    func noteChanged(_ id: ItemID) {
        states.withLock { _ = $0.removeValue(forKey: id) }
    }

    // MARK: - Names

    /// Notes the folders whose names changed.
    func noteChanged(_ changes: [ItemChange]) {
        for change in changes {
            switch change {
            case .attributes, .state, .content, .listed: continue
            case .entryAppeared(let parent, _), .entryReplaced(let parent, _),
                .entryVanished(let parent, _, _, _, _):
                noteChanged(parent)
            }
        }
    }
}
