import CloudFSTestSupport
import Synchronization

@testable import CloudFS

/// A machine with a drive, whose process ends and starts again.
final class Device: Sendable {
    let name: String
    let link: NetworkLink
    private let cloud: any SimulatedCloud
    private let ledger: Ledger
    private let folder: String

    private struct State {
        var life: Life?
        var ended: [Life] = []
        var number = 0
        var random: SeededRandom
        /// After how many more fault points the process ends in the middle of one.
        var faultsLeft: Int?
        /// What fault points are reached, and how often.
        var reached: [String: Int] = [:]
    }

    private let state: Mutex<State>

    init(
        name: String,
        seed: UInt64,
        folder: String,
        cloud: any SimulatedCloud,
        link: NetworkLink,
        ledger: Ledger
    ) {
        self.name = name
        self.link = link
        self.cloud = cloud
        self.ledger = ledger
        self.folder = folder
        state = Mutex(State(random: SeededRandom(seed: seed)))
    }

    var life: Life? { state.withLock { $0.life } }

    /// The process that runs, waiting for it to start if need be.
    func running() async throws -> Life {
        while true {
            if let life, !life.isOver { return life }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func path(_ number: Int) -> String { "\(folder)/\(name).\(number)" }

    /// Starts a process on what the last one left.
    func start() throws {
        let number = state.withLock { $0.number }
        try StateCopy.makeFolder(path(number))
        let life = Life(
            device: name,
            number: number,
            directory: path(number),
            cloud: cloud,
            link: link,
            onFailure: { [name, ledger] in ledger.find("\(name): \($0)") },
            onFault: { [weak self] life, point in self?.reach(point, in: life) }
        )
        Trace.note(name, "starts for the \(number + 1). time")
        state.withLock { $0.life = life }
        do {
            try life.start()
        } catch is Life.Ended {
            return
        } catch {
            // A process that ended at a fault point of its own start may say anything.
            guard !life.isOver else { return }
            throw error
        }
    }

    /// Ends the process between two instructions.
    func crash(_ reason: String) {
        guard let life, !life.isOver else { return }
        let number = state.withLock { state in
            state.number += 1
            return state.number
        }
        do {
            try StateCopy.copy(life.directory, to: path(number))
        } catch {
            ledger.find("the simulation cannot copy a state directory: \(error)")
        }
        Trace.note(name, "IS KILLED \(reason)")
        ledger.count("crashes")
        state.withLock { $0.ended.append(life) }
        life.end()
    }

    /// Ends the process at one of the next fault points that it reaches.
    func crashSoon(after points: Int) {
        state.withLock { $0.faultsLeft = points }
    }

    private func reach(_ point: String, in life: Life) {
        let isDue = state.withLock { state in
            state.reached[point, default: 0] += 1
            guard state.life === life, let left = state.faultsLeft else { return false }
            state.faultsLeft = left == 0 ? nil : left - 1
            return left == 0
        }
        guard isDue else { return }
        ledger.count("crashes at fault points")
        crash("at \(point)")
    }

    /// Starts again whatever has ended.
    func startIfEnded() throws {
        guard life?.isOver != false else { return }
        try start()
    }

    /// From now on nothing ends the process.
    func settle() {
        state.withLock { $0.faultsLeft = nil }
    }

    func forget() {
        life?.end()
        for life in state.withLock({ $0.ended + [$0.life].compactMap { $0 } }) { life.forget() }
    }
}
