import Synchronization

/// What happened, for people; kept only where somebody wants to read it.
enum Trace {
    private struct State {
        var isWanted = false
        var lines: [String] = []
    }

    private static let state = Mutex(State())

    static var isWanted: Bool { state.withLock { $0.isWanted } }

    static func begin(isWanted: Bool) {
        state.withLock { $0 = State(isWanted: isWanted) }
    }

    static func note(_ who: String, _ text: @autoclosure () -> String) {
        guard isWanted else { return }
        let moment = Scheduler.shared.elapsed
        let (seconds, attoseconds) = moment.components
        let millis = attoseconds / 1_000_000_000_000
        let fraction = String(repeating: "0", count: 6 - String(millis).count) + String(millis)
        let line = "\(seconds).\(fraction) \(who): \(text())"
        state.withLock { $0.lines.append(line) }
    }

    static var lines: [String] { state.withLock { $0.lines } }
}
