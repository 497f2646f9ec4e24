import CloudFSTestSupport
import Glibc
import Synchronization

@testable import CloudFS

/// One seed: some devices, one cloud, and everything that happens to them.
final class Simulation: Sendable {
    let seed: UInt64
    let limits: Limits
    let ledger = Ledger()
    private let folder: String

    /// What a seed is cut down to, to find what matters of it.
    struct Limits: Sendable {
        var devices = Int.max
        var operations = Int.max
        var hasCrashes = true
        var hasFaults = true
        var hasPartitions = true
    }

    /// What a run came to.
    struct Outcome: Sendable {
        var findings: [String]
        var counts: [String: Int]
        var digest: UInt64
        var elapsed: Duration
        var steps: Int
    }

    init(seed: UInt64, limits: Limits, folder: String) {
        self.seed = seed
        self.limits = limits
        self.folder = folder
    }

    // MARK: - The run

    /// Runs the seed to its end, on this thread.
    func run() -> Outcome {
        Scheduler.shared.reset(seed: seed)
        guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            return outcome(["\(folder) cannot be made"])
        }
        let isDone = Atomic(false)
        let story = Story(self, folder: folder)
        Task {
            await story.tell()
            isDone.store(true, ordering: .relaxed)
        }
        var last = (moment: Duration.zero, steps: 0)
        while !isDone.load(ordering: .relaxed) {
            guard Scheduler.shared.step() else {
                ledger.find("nothing is left to run, and the story is not at its end")
                break
            }
            guard Scheduler.shared.steps - last.steps > Self.mostStepsPerSecond else { continue }
            let now = Scheduler.shared.elapsed
            guard now - last.moment > .seconds(3) else {
                ledger.find("something goes round and round")
                break
            }
            last = (now, Scheduler.shared.steps)
        }
        let outcome = outcome([])
        story.forget()
        // What still waits for something holds files open: it ends as its process has.
        for _ in 0..<Self.mostStepsToEnd where !Scheduler.shared.step() { break }
        return outcome
    }

    private static let mostStepsPerSecond = 1_000_000
    private static let mostStepsToEnd = 200_000

    private func outcome(_ findings: [String]) -> Outcome {
        for text in ledger.findings { Scheduler.shared.note(text) }
        return Outcome(
            findings: findings + ledger.findings,
            counts: ledger.counts,
            digest: Scheduler.shared.digest,
            elapsed: Scheduler.shared.elapsed,
            steps: Scheduler.shared.steps
        )
    }
}
