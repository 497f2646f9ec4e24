import Synchronization

/// What lost its name and is erased, though programs may use it still: fifos, sockets, links, and
/// folders that somebody works in.
///
/// Files are kept in the catalog until their last handle is closed. Of these there are no handles:
/// the kernel says only when it forgets them. Until then the drive answers what they were; a worker
/// that takes over does not know them.
final class GoneItems: Sendable {
    private struct State {
        var records: [ItemID: ItemRecord] = [:]
        /// The oldest first; some may be forgotten.
        var order: [ItemID] = []
    }

    private let state = Mutex(State())
    /// Of more the oldest are forgotten: a program that removes thousands does not look at them.
    private static let most = 1_000

    func keep(_ record: ItemRecord) {
        guard record.item.kind != .file || record.item.isPackage else { return }
        state.withLock { state in
            state.records[record.id] = record
            state.order.append(record.id)
            guard state.order.count > Self.most else { return }
            state.records[state.order.removeFirst()] = nil
        }
    }

    func record(_ id: ItemID) -> ItemRecord? { state.withLock { $0.records[id] } }

    func change(_ id: ItemID, _ change: (inout Item) -> Void) -> ItemRecord? {
        state.withLock { state in
            guard var record = state.records[id] else { return nil }
            change(&record.item)
            state.records[id] = record
            return record
        }
    }

    func forget(_ ids: some Sequence<ItemID>) {
        state.withLock { state in
            guard !state.records.isEmpty else { return state.order.removeAll() }
            for id in ids { state.records[id] = nil }
        }
    }
}
