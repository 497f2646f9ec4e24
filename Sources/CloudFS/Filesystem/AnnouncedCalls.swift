import Synchronization

/// The calls that the announcing process makes through the mount, each for a change that is made
/// already: they are answered as if they had made it, and do nothing.
///
/// - Invariant: no call of an announcing process ever changes anything. It makes none before it has
///   seen that the drive knows it; those of one that another worker has started, which died since,
///   may come again, and are refused.
final class AnnouncedCalls: Sendable {
    /// What the process is to find under a name.
    enum Sight: Sendable, Equatable {
        /// Nothing, so that it can make it.
        case nothing
        /// What is gone, so that it can remove it.
        case former(isFolder: Bool)
        /// What is there.
        case truth
    }

    private struct State {
        var expected: [WatchEvent.Place: WatchEvent.Kind] = [:]
        /// Where it has seen what is gone.
        var shown: Set<WatchEvent.Place> = []
    }

    private let state = Mutex(State())
    /// The announcing process; 0 when there is none.
    private let process = Atomic<Int32>(0)
    private let isOfAnother: @Sendable (Int32) -> Bool

    static let refusal = CloudFSError(.cancelled, "what it announces is not so any more")

    /// - Parameter isOfAnother: Whether a process is one that another worker has started; asked of
    ///   all that change something.
    init(isOfAnother: @escaping @Sendable (Int32) -> Bool = { _ in false }) {
        self.isOfAnother = isOfAnother
    }

    /// Begins to answer `process`; one at a time.
    func begin(_ events: [WatchEvent], by process: Int32) {
        state.withLock { state in
            for event in events { state.expected[event.place] = event.kind }
        }
        self.process.store(process, ordering: .sequentiallyConsistent)
    }

    /// The process is gone, and all its calls were answered.
    func end() {
        process.store(0, ordering: .sequentiallyConsistent)
        state.withLock { $0 = State() }
    }

    /// Whether it is the announcing process, which is answered otherwise than others.
    func isOwn(_ process: Int32) -> Bool {
        let own = self.process.load(ordering: .relaxed)
        return own != 0 && own == process
    }

    /// Whether it is the announcing process, before anything is changed.
    ///
    /// - Throws: `cancelled` for one of another worker.
    func isAnnouncing(_ process: Int32) throws(CloudFSError) -> Bool {
        if isOwn(process) { return true }
        if isOfAnother(process) { throw Self.refusal }
        return false
    }

    /// What the announcing process is to see.
    ///
    /// - Parameter isThere: Whether something has the name by now.
    func sight(of place: WatchEvent.Place, isThere: Bool) -> Sight {
        guard place.folder != .root || place.name != .announcing else {
            return .former(isFolder: false)
        }
        return state.withLock { state in
            switch state.expected[place] {
            case .appeared: return isThere ? .nothing : .truth
            case .vanished(let isFolder):
                guard !isThere else { return .truth }
                state.shown.insert(place)
                return .former(isFolder: isFolder)
            case .written, .changed, nil: return .truth
            }
        }
    }

    /// Whether the process was to make what has appeared; not twice.
    func takeMaking(at place: WatchEvent.Place) -> Bool {
        state.withLock { state in
            guard case .appeared = state.expected[place] else { return false }
            state.expected[place] = nil
            return true
        }
    }

    /// Whether the process has seen what is gone, and was to remove that; not twice.
    func takeRemoval(at place: WatchEvent.Place) -> Bool {
        state.withLock { state in
            state.expected[place] = nil
            return state.shown.remove(place) != nil
        }
    }
}
