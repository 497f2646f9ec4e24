import Synchronization

/// Something that the kernel, or anyone else above the engine, must hear of.
enum ItemChange: Sendable, Hashable {
    /// Size, times, mode or attributes changed.
    case attributes(ItemID)
    /// Nothing that the kernel keeps: whether it was sent, for example.
    case state(ItemID)
    /// The bytes changed too. The engine never publishes that while the item has a handle.
    case content(ItemID)
    case entryAppeared(parent: ItemID, name: ItemName)
    /// - Parameter isGone: Whether the item has no other name now.
    case entryVanished(
        parent: ItemID,
        name: ItemName,
        item: ItemID,
        isFolder: Bool,
        isGone: Bool
    )
    /// Another item has the name now.
    case entryReplaced(parent: ItemID, name: ItemName)
    /// What is in a folder is known for the first time; nobody can have seen what it lacked.
    case listed(ItemID)

    /// Whether names of the folder came, went or changed their item.
    func changesEntries(of folder: ItemID) -> Bool {
        switch self {
        case .attributes, .state, .content, .listed: false
        case .entryAppeared(let parent, _), .entryVanished(let parent, _, _, _, _),
            .entryReplaced(let parent, _):
            parent == folder
        }
    }

    /// Whether a name came, went or changed its item.
    var changesNames: Bool {
        switch self {
        case .attributes, .state, .content, .listed: false
        case .entryAppeared, .entryVanished, .entryReplaced: true
        }
    }

    var isAppearance: Bool {
        if case .entryAppeared = self { true } else { false }
    }
}

/// The one channel by which news goes up: what was changed, and who did it.
final class ChangeHub: Sendable {
    /// Who made a change.
    enum Origin: Sendable, Hashable {
        /// The engine: what another device did arrived, or room was made.
        case engine
        /// A program, through the mount: the kernel knows it already.
        case program(Int32)
        /// The daemon, which a program asked for it.
        case daemon(askedBy: Int32)

        /// The program that wanted it.
        var process: Int32? {
            switch self {
            case .engine: nil
            case .program(let process), .daemon(let process): process
            }
        }

        var isKnownToKernel: Bool {
            if case .program = self { true } else { false }
        }
    }

    typealias Receiver = @Sendable ([ItemChange], Origin) -> Void

    private struct State {
        var subscribers: [Receiver] = []
        var kernel: Kernel?
        /// Since when the kernel is waited for, also by those who gave up.
        var waits: [UInt64: ContinuousClock.Instant] = [:]
        var nextWait: UInt64 = 0
    }

    /// Who passes on to the kernel what that does not know.
    struct Kernel: Sendable {
        /// Must not block.
        var tell: @Sendable ([ItemChange]) -> Void
        /// Waits until the kernel was told everything so far.
        var settled: @Sendable () async -> Void
    }

    /// How long the kernel is waited for, which may be held up by a program.
    static let patience = Duration.seconds(1)

    private let state = Mutex(State())

    /// Calls `receive` with every batch of changes that the kernel does not know, from now on; it
    /// must not block.
    func subscribe(_ receive: @escaping @Sendable ([ItemChange]) -> Void) {
        subscribeToAll { changes, origin in
            if !origin.isKnownToKernel { receive(changes) }
        }
    }

    /// Calls `receive` with every batch of changes, whoever made them; it must not block.
    func subscribeToAll(_ receive: @escaping Receiver) {
        state.withLock { $0.subscribers.append(receive) }
    }

    /// Has the kernel told of everything that it does not know, before anybody else is.
    ///
    /// - Parameter kernel: `nil` when there is none any more.
    func connect(_ kernel: Kernel?) {
        state.withLock { $0.kernel = kernel }
    }

    /// Has the kernel told once more, which may have looked since.
    func tellAgain(_ changes: [ItemChange]) {
        state.withLock { $0.kernel }?.tell(changes)
    }

    /// Waits until whoever looks through the mount sees what was published so far.
    ///
    /// No longer than `limit`: the kernel may hold back who tells it. Not at all while it does so.
    func settled(within limit: Duration = patience) async {
        let wait = state.withLock { state -> (kernel: Kernel, number: UInt64)? in
            guard let kernel = state.kernel else { return nil }
            let now = ContinuousClock.now
            guard !state.waits.values.contains(where: { $0 + limit < now }) else { return nil }
            defer { state.nextWait += 1 }
            state.waits[state.nextWait] = now
            return (kernel, state.nextWait)
        }
        guard let (kernel, number) = wait else { return }
        do {
            try await withDeadline(limit, or: CancellationError()) { [self] in
                await kernel.settled()
                // Also when nobody waits any more.
                state.withLock { _ = $0.waits.removeValue(forKey: number) }
            }
        } catch {
            // What is told now may be looked for in vain, for once.
            return
        }
    }

    /// Tells all subscribers; call it after the changes are committed, with no lock held.
    func publish(_ changes: [ItemChange], by origin: Origin = .engine) {
        guard !changes.isEmpty else { return }
        let (kernel, subscribers) = state.withLock { ($0.kernel, $0.subscribers) }
        if !origin.isKnownToKernel { kernel?.tell(changes) }
        for receive in subscribers { receive(changes, origin) }
    }
}
