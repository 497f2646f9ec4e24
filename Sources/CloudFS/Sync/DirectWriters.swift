import Synchronization

/// Which files programs may write without the drive being asked.
final class DirectWriters: Sendable {
    private struct State {
        var written: Set<ItemID> = []
        var mapped: Set<ItemID> = []
        /// Whether somebody looks at them, until there are none.
        var isWatched = false
    }

    private let state = Mutex(State())
    /// Raised when nobody looks at the first of them, and when one is mapped only.
    let news = Signal()

    /// Notes what may be done with a file from now on.
    func note(_ id: ItemID, isWritten: Bool, isMapped: Bool) {
        let isNews = state.withLock { state in
            if isWritten { state.written.insert(id) } else { state.written.remove(id) }
            let wasMapped = state.mapped.contains(id)
            if isMapped { state.mapped.insert(id) } else { state.mapped.remove(id) }
            return (isWritten && !state.isWatched) || (isMapped && !wasMapped)
        }
        if isNews { news.raise() }
    }

    var items: Set<ItemID> { state.withLock { $0.written } }

    /// Whether any is mapped that no program has open.
    var hasMapped: Bool { state.withLock { !$0.mapped.isEmpty } }

    /// - Returns: Whether there are any, so that they are to be looked at.
    func watch() -> Bool {
        state.withLock { state in
            state.isWatched = !state.written.isEmpty
            return state.isWatched
        }
    }
}
