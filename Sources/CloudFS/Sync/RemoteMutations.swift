import Synchronization

/// What is being changed in the cloud while listings run, so that what they have seen half of is
/// not taken for what is there.
final class RemoteMutations: Sendable {
    private enum Subject: Hashable {
        case item(ItemID)
        /// What the path of an item, and of all in it, stands for.
        case path(ItemID)
        case place(NamePlace)
    }

    private struct State {
        var clock: UInt64 = 0
        var active: [Subject: Int] = [:]
        var ended: [Subject: UInt64] = [:]
        var listings = 0
    }

    private let state = Mutex(State())

    /// Notes that a request begins that changes `id` in the cloud, and what stands at `places`.
    ///
    /// The places matter apart from the item: it may have another name here by the time a listing
    /// shows what the request did.
    ///
    /// - Parameter isInPlace: Whether it only writes on the item, so that its path stands for it
    ///   all the time.
    func begin(_ id: ItemID, at places: [NamePlace], isInPlace: Bool) {
        state.withLock { state in
            for subject in Self.subjects(id, places, isInPlace) {
                state.active[subject, default: 0] += 1
            }
        }
    }

    /// Notes that it ended, and that the catalog knows its outcome.
    func end(_ id: ItemID, at places: [NamePlace], isInPlace: Bool) {
        state.withLock { state in
            state.clock += 1
            for subject in Self.subjects(id, places, isInPlace) {
                let count = state.active[subject, default: 1] - 1
                state.active[subject] = count == 0 ? nil : count
                if state.listings > 0 { state.ended[subject] = state.clock }
            }
        }
    }

    /// Notes that another device has written on an item: listings under way may have asked what is
    /// written on it before that.
    func noteWrittenElsewhere(_ id: ItemID) {
        state.withLock { state in
            guard state.listings > 0 else { return }
            state.clock += 1
            state.ended[.item(id)] = state.clock
        }
    }

    /// Begins a listing; the mark tells which mutations it may have seen half of.
    func beginListing() -> UInt64 {
        state.withLock { state in
            state.listings += 1
            return state.clock
        }
    }

    func endListing() {
        state.withLock { state in
            state.listings -= 1
            if state.listings == 0 { state.ended.removeAll() }
        }
    }

    /// Whether nothing is being changed right now.
    var isIdle: Bool { state.withLock { $0.active.isEmpty } }

    /// Whether the item is being changed right now.
    func isActive(_ id: ItemID) -> Bool {
        state.withLock { $0.active[.item(id)] != nil }
    }

    /// Whether a listing begun at `mark` says nothing sure about the item.
    func blurs(_ id: ItemID, since mark: UInt64) -> Bool {
        state.withLock { Self.blurs(.item(id), since: mark, $0) }
    }

    /// Whether a listing begun at `mark` says nothing sure about what is in a folder, as its path
    /// may have meant something else.
    func blursPath(of id: ItemID, since mark: UInt64) -> Bool {
        state.withLock { Self.blurs(.path(id), since: mark, $0) }
    }

    /// Whether a listing begun at `mark` says nothing sure about what has this name.
    func blurs(_ place: NamePlace, since mark: UInt64) -> Bool {
        state.withLock { Self.blurs(.place(place), since: mark, $0) }
    }

    /// Whether a listing begun at `mark` says nothing sure about an item that was at a place.
    ///
    /// The place counts too: a save by renaming hands it on to a file that no request was about.
    func blurs(_ id: ItemID, at place: NamePlace?, since mark: UInt64) -> Bool {
        state.withLock { state in
            Self.blurs(.item(id), since: mark, state)
                || place.map { Self.blurs(.place($0), since: mark, state) } ?? false
        }
    }

    private static func blurs(_ subject: Subject, since mark: UInt64, _ state: State) -> Bool {
        state.active[subject] != nil || state.ended[subject].map { $0 > mark } == true
    }

    private static func subjects(
        _ id: ItemID,
        _ places: [NamePlace],
        _ isInPlace: Bool
    ) -> [Subject] {
        [.item(id)] + (isInPlace ? [] : [.path(id)]) + places.map { .place($0) }
    }
}

extension RemoteMutations {
    func begin(_ sent: SentRecord) {
        begin(sent.item, at: sent.places, isInPlace: sent.kind == .metadata)
    }

    func end(_ sent: SentRecord) {
        end(sent.item, at: sent.places, isInPlace: sent.kind == .metadata)
    }
}

extension BaseRecord {
    /// Where a listing finds it; `nil` for a container's root.
    var place: NamePlace? {
        parent.map { NamePlace(parent: $0, name: name) }
    }
}
