/// What programs that watch with inotify are to hear of: a change that is made already, and that no
/// call through the kernel told them of.
struct WatchEvent: Sendable, Hashable {
    enum Kind: Sendable, Hashable {
        /// IN_CREATE
        case appeared(ItemKind)
        /// IN_DELETE
        case vanished(isFolder: Bool)
        /// IN_MODIFY
        case written
        /// IN_ATTRIB
        case changed
    }

    struct Place: Sendable, Hashable {
        var folder: ItemID
        var name: ItemName
    }

    var place: Place
    var kind: Kind
}

/// What has happened in each place of some changes, in the order of their first.
///
/// Whoever hears of it later can only look at what is there then, so it is told as one event: what
/// came and went is told as gone, what went and came as written.
struct WatchedChanges: Sendable {
    /// What was heard of one place.
    private struct Heard {
        var hasAppeared = false
        /// Whether a folder, if anything vanished.
        var vanished: Bool?
        var isWritten = false
    }

    private var order: [WatchEvent.Place] = []
    private var heard: [WatchEvent.Place: Heard] = [:]

    mutating func appeared(at place: WatchEvent.Place) {
        change(place) { $0.hasAppeared = true }
    }

    mutating func vanished(at place: WatchEvent.Place, isFolder: Bool) {
        change(place) { $0.vanished = isFolder }
    }

    mutating func written(at place: WatchEvent.Place) {
        change(place) { $0.isWritten = true }
    }

    mutating func changed(at place: WatchEvent.Place) {
        change(place) { _ in }
    }

    private mutating func change(_ place: WatchEvent.Place, _ change: (inout Heard) -> Void) {
        if heard[place] == nil { order.append(place) }
        change(&heard[place, default: Heard()])
    }

    /// - Parameter kind: Of what is in a place now; `nil` where nothing is.
    func events<Failure>(
        _ kind: (WatchEvent.Place) throws(Failure) -> ItemKind?
    ) throws(Failure) -> [WatchEvent] {
        var events: [WatchEvent] = []
        for place in order {
            guard let heard = heard[place] else { continue }
            let kind = try kind(place)
            if let event = Self.event(heard, kind) {
                events.append(WatchEvent(place: place, kind: event))
            }
        }
        return events
    }

    private static func event(_ heard: Heard, _ kind: ItemKind?) -> WatchEvent.Kind? {
        guard let kind else { return heard.vanished.map { .vanished(isFolder: $0) } }
        if heard.vanished != nil { return kind == .file ? .written : .changed }
        if heard.hasAppeared { return .appeared(kind) }
        return heard.isWritten && kind == .file ? .written : .changed
    }
}
