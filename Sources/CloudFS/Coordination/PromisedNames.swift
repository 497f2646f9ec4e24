import Synchronization

extension ItemID {
    /// Whether it stands for a name that nothing has yet.
    var isPromised: Bool { rawValue < 0 }
}

/// Names that programs have claimed although nothing is there yet, as who saves a new document
/// does.
///
/// Each is claimed under a number that no item ever has, until an item gets the name.
final class PromisedNames: Sendable {
    private struct State {
        var numbers: [NamePlace: ItemID] = [:]
        var places: [ItemID: NamePlace] = [:]
        var claims: [ItemID: Int] = [:]
        var next: Int64 = -1
    }

    private let state = Mutex(State())
    /// Most often there is none, and nobody needs the mutex.
    private let isInUse = Atomic(false)

    /// The number of a name for one claim, to be given back.
    func claim(_ place: NamePlace) -> ItemID {
        state.withLock { state in
            let number = state.numbers[place] ?? ItemID(state.next)
            if state.numbers[place] == nil { state.next -= 1 }
            state.numbers[place] = number
            state.places[number] = place
            state.claims[number, default: 0] += 1
            isInUse.store(true, ordering: .sequentiallyConsistent)
            return number
        }
    }

    func giveBack(_ number: ItemID) {
        state.withLock { state in
            guard let claims = state.claims[number] else { return }
            guard claims == 1 else {
                state.claims[number] = claims - 1
                return
            }
            state.claims[number] = nil
            if let place = state.places.removeValue(forKey: number) { state.numbers[place] = nil }
            isInUse.store(!state.numbers.isEmpty, ordering: .sequentiallyConsistent)
        }
    }

    /// The number under which a name is claimed, if it is.
    func number(_ place: NamePlace) -> ItemID? {
        guard isInUse.load(ordering: .relaxed) else { return nil }
        return state.withLock { $0.numbers[place] }
    }

    /// Where a number stands for.
    func place(_ number: ItemID) -> NamePlace? {
        state.withLock { $0.places[number] }
    }
}
