import CloudFSTestSupport
import Synchronization

@testable import CloudFS

/// The way between one device and the cloud, and what it does to requests and answers.
final class NetworkLink: Sendable {
    /// What becomes of a request and its answer.
    enum Fate: Sendable {
        case delivered
        /// The cloud never gets the request.
        case requestLost
        /// The cloud gets it after the device gave up.
        case requestLate
        /// The cloud does what it is asked, and nobody hears of it.
        case answerLost
        /// The cloud gets it once more, later.
        case requestTwice
    }

    /// How often each thing happens, of a thousand requests.
    struct Weather: Sendable {
        var requestLost = 0
        var requestLate = 0
        var answerLost = 0
        var requestTwice = 0
        var streamCut = 0
        var slowest = Duration.milliseconds(80)

        static let fair = Weather()
    }

    private struct State {
        var random: SeededRandom
        var weather: Weather
        var isPartitioned = false
        /// Requests that are still on their way although nobody waits for them.
        var adrift = 0
        var faults = 0
    }

    private let state: Mutex<State>

    init(seed: UInt64, _ weather: Weather) {
        state = Mutex(State(random: SeededRandom(seed: seed), weather: weather))
    }

    var isPartitioned: Bool { state.withLock { $0.isPartitioned } }
    var adrift: Int { state.withLock { $0.adrift } }
    /// How many requests came to harm.
    var faults: Int { state.withLock { $0.faults } }

    func setPartitioned(_ isPartitioned: Bool) {
        state.withLock { $0.isPartitioned = isPartitioned }
    }

    /// From now on nothing is lost.
    func calm() {
        state.withLock { state in
            state.weather = .fair
            state.isPartitioned = false
        }
    }

    func fate() -> Fate {
        state.withLock { state in
            var draw = Int(state.random.next() % 1_000)
            let weather = state.weather
            for (chance, fate) in [
                (weather.requestLost, Fate.requestLost), (weather.requestLate, .requestLate),
                (weather.answerLost, .answerLost), (weather.requestTwice, .requestTwice),
            ] {
                if draw < chance {
                    state.faults += 1
                    return fate
                }
                draw -= chance
            }
            return .delivered
        }
    }

    /// Whether a stream ends before its next piece.
    func cutsStream() -> Bool {
        state.withLock { state in
            let isCut = Int(state.random.next() % 1_000) < state.weather.streamCut
            if isCut { state.faults += 1 }
            return isCut
        }
    }

    /// How long one way takes this time; most are quick, so that some overtake others.
    func latency() -> Duration {
        state.withLock { state in
            let scale = Int(state.random.next() % 4) == 0 ? 1 : 8
            return state.weather.slowest * Double(state.random.next() % 1_000)
                / Double(1_000 * scale)
        }
    }

    func draw(_ count: Int) -> Int {
        state.withLock { Int($0.random.next() % UInt64(count)) }
    }

    /// Does something later that nobody waits for.
    func drift(after delay: Duration, _ work: @escaping @Sendable () -> Void) {
        state.withLock { $0.adrift += 1 }
        Task {
            // Never cancelled: nobody holds the task.
            try? await Task.sleep(for: delay)
            work()
            state.withLock { $0.adrift -= 1 }
        }
    }
}
