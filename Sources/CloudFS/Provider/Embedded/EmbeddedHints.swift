/// Hints that are collected until the directory was quiet for a moment.
///
/// A folder inside a subtree that is hinted already adds nothing, and beyond a limit the whole
/// container is the shorter hint.
struct EmbeddedHints {
    private(set) var hints: Set<ChangeHint> = []
    private var first: ContinuousClock.Instant?
    private var last: ContinuousClock.Instant?

    /// How long it must be quiet, and how long news may be held back at most.
    static let settleTime = Duration.milliseconds(50)
    static let longestDelay = Duration.milliseconds(500)
    private static let limit = 512

    var isEmpty: Bool { hints.isEmpty }

    /// When the hints should be published; `nil` when there are none.
    var due: ContinuousClock.Instant? {
        guard let first, let last else { return nil }
        return min(last + Self.settleTime, first + Self.longestDelay)
    }

    mutating func add(_ hint: ChangeHint, at now: ContinuousClock.Instant) {
        first = first ?? now
        last = now
        guard !hints.contains(.subtree(.root)) else { return }
        hints.insert(hint)
        if hint == .subtree(.root) || hints.count > Self.limit { hints = [.subtree(.root)] }
    }

    /// Takes all hints out, without those that others include.
    mutating func take() -> Set<ChangeHint> {
        // Not by `defer`: optimised, that crashes (Swift 6.3.1, docs/decisions/0004).
        let taken = hints
        self = EmbeddedHints()
        return Self.withoutIncluded(taken)
    }

    private static func withoutIncluded(_ hints: Set<ChangeHint>) -> Set<ChangeHint> {
        var roots: Set<RemotePath> = []
        for case .subtree(let path) in hints { roots.insert(path) }
        guard !roots.isEmpty else { return hints }
        return hints.filter { hint in
            switch hint {
            case .children(let path): !isInside(path, roots)
            case .subtree(let path), .item(let path):
                path.isRoot || !isInside(path.parent, roots)
            }
        }
    }

    private static func isInside(_ path: RemotePath, _ roots: Set<RemotePath>) -> Bool {
        (0...path.names.count).contains { roots.contains(RemotePath(Array(path.names.prefix($0)))) }
    }
}
