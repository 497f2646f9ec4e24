import Synchronization

/// Of which files the kernel's pages, and of which folders its kept listing, are still right.
///
/// The kernel asks when it opens them. It is told of changes as well, but later, and an answer
/// that was under way meanwhile may put outdated bytes into its cache after that: so whatever
/// changed is not kept over the next open.
final class KernelCaches: Sendable {
    private let kept = Mutex<Set<ItemID>>([])
    /// How many items are remembered, some 16 bytes each.
    private static let capacity = 200_000

    /// Notes that an item is opened, after which the kernel keeps what it reads.
    ///
    /// - Returns: Whether what it kept before is right.
    func noteOpened(_ id: ItemID) -> Bool {
        kept.withLock { kept in
            if kept.count >= Self.capacity, !kept.contains(id) { kept.removeAll() }
            return !kept.insert(id).inserted
        }
    }

    /// Notes that the item has other bytes or names than the kernel may have kept.
    func noteChanged(_ id: ItemID) {
        kept.withLock { _ = $0.remove(id) }
    }

    /// The same for all folders whose names change.
    func noteChanged(_ changes: [ItemChange]) {
        for change in changes {
            switch change {
            case .attributes, .content: continue
            case .entryAppeared(let parent, _), .entryReplaced(let parent, _),
                .entryVanished(let parent, _, _):
                noteChanged(parent)
            }
        }
    }
}
