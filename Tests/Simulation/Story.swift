import CloudFSTestSupport
import Synchronization

@testable import CloudFS

/// What happens in a seed: devices start, programs work while things go wrong, then all is calm,
/// and everybody must agree.
final class Story: Sendable {
    let simulation: Simulation
    let cloud: any SimulatedCloud
    let devices: [Device]
    let programs: [Program]
    private let random: Mutex<SeededRandom>
    private let isWorking = Atomic(true)

    var ledger: Ledger { simulation.ledger }

    /// From here on the cloud of every fourth seed folds names.
    private static let firstFolding: UInt64 = 1_000_000
    /// From here on programs remove whole folders.
    private static let firstRemovingTrees: UInt64 = 50_000_000
    /// From here on the cloud is a bucket.
    private static let firstBucket: UInt64 = 60_000_000
    /// From here on the bucket's server ignores the conditions that Ceph ignores.
    private static let firstOnCeph: UInt64 = 65_000_000
    /// From here on programs write attributes, and remove and replace nothing: each is on its item
    /// in the end.
    ///
    /// From the second on the cloud is a bucket again.
    private static let firstWithMarks: UInt64 = 70_000_000
    private static let firstWithMarksInBucket: UInt64 = 75_000_000

    init(_ simulation: Simulation, folder: String) {
        self.simulation = simulation
        var random = SeededRandom(seed: simulation.seed)
        let limits = simulation.limits
        func draw(_ count: Int) -> Int { Int(random.next() % UInt64(count)) }
        var traits = CloudTree.Traits()
        traits.hasStableIDs = draw(4) != 0
        traits.hasDigests = draw(4) != 0
        traits.hearsAll = draw(3) != 0
        traits.keepsOpenVersions = draw(2) == 0
        traits.moveChangesVersion = draw(2) == 0
        traits.pageSize = draw(4) == 0 ? 2 : 1_000
        // Not drawn: each seed before would tell another story.
        traits.foldsNames = simulation.seed >= Self.firstFolding && simulation.seed % 4 == 0
        let hasMarks = simulation.seed >= Self.firstWithMarks
        let isOnCeph = simulation.seed >= Self.firstOnCeph && !hasMarks
        let isBucket =
            hasMarks
            ? simulation.seed >= Self.firstWithMarksInBucket : simulation.seed >= Self.firstBucket
        let cloud: any SimulatedCloud =
            isBucket ? BucketCloud(isOnCeph ? .ceph : FakeS3Settings()) : TreeCloud(traits)
        var weather = NetworkLink.Weather()
        if limits.hasFaults, draw(4) != 0 {
            weather.requestLost = draw(60)
            weather.requestLate = draw(20)
            weather.answerLost = draw(60)
            weather.requestTwice = draw(20)
            weather.streamCut = draw(100)
        }
        weather.slowest = [.milliseconds(5), .milliseconds(80), .seconds(1)][draw(3)]
        let plan = Program.Plan(
            operations: min([5, 10, 15, 25][draw(4)], limits.operations),
            longestRest: [.milliseconds(20), .seconds(1), .seconds(5)][draw(3)],
            blockByteCount: draw(12) == 0 ? 32 << 10 : 16,
            removesTrees: simulation.seed >= Self.firstRemovingTrees,
            leavesMarks: hasMarks
        )
        var devices: [Device] = []
        var programs: [Program] = []
        for number in 1...min(2 + [0, 0, 1, 2][draw(4)], limits.devices) {
            let device = Device(
                name: "device\(number)",
                seed: random.next(),
                folder: folder,
                cloud: cloud,
                link: NetworkLink(seed: random.next(), weather),
                ledger: simulation.ledger
            )
            devices.append(device)
            for program in 1...1 + draw(2) {
                programs.append(
                    Program(
                        on: device,
                        number: program,
                        seed: random.next(),
                        plan: plan,
                        cloud: cloud,
                        ledger: simulation.ledger
                    )
                )
            }
        }
        self.cloud = cloud
        self.devices = devices
        self.programs = programs
        self.random = Mutex(random)
        let kind = isOnCeph ? "a bucket of Ceph" : isBucket ? "a bucket" : "\(traits)"
        Trace.note("seed \(simulation.seed)", "\(kind) \(weather) \(plan)")
    }

    private func draw(_ count: Int) -> Int {
        random.withLock { Int($0.next() % UInt64(count)) }
    }

    // MARK: - The story

    func tell() async {
        do {
            for device in devices { try device.start() }
            try await meet()
            await work()
            for device in devices {
                device.link.calm()
                device.settle()
                try device.startIfEnded()
                guard let life = device.life else { continue }
                try Life.$current.withValue(life) {
                    try life.parts().filesystem.setPaused(since: nil)
                }
            }
            Trace.note("story", "all is calm from now on")
            try await Verdict(of: self).reach()
        } catch {
            ledger.find("the story ended with \(error)")
        }
    }

    /// A drive is mounted when its container was met once.
    private func meet() async throws {
        for device in devices {
            guard let life = device.life else { continue }
            try await Life.$current.withValue(life) {
                for attempt in 1... {
                    do {
                        try await life.parts().meetContainer(within: .seconds(30))
                        break
                    } catch  where attempt < 20 {
                        try await Task.sleep(for: .seconds(1))
                    }
                }
            }
        }
    }

    private func work() async {
        await withTaskGroup(of: Void.self) { group in
            for device in devices {
                group.addTask { await self.trouble(device) }
            }
            await withTaskGroup(of: Void.self) { group in
                for program in programs {
                    group.addTask {
                        do {
                            try await program.run()
                        } catch {
                            self.ledger.find("a program could not go on: \(error)")
                        }
                    }
                }
            }
            isWorking.store(false, ordering: .relaxed)
        }
    }

    /// What goes wrong with a device while programs work.
    private func trouble(_ device: Device) async {
        let limits = simulation.limits
        let pause = [2, 5, 20, 60][draw(4)]
        let kinds = draw(4)
        while isWorking.load(ordering: .relaxed) {
            do {
                try await Task.sleep(for: .milliseconds(100 + draw(pause * 1_000)))
                guard isWorking.load(ordering: .relaxed) else { break }
                if kinds & 1 != 0, limits.hasPartitions, draw(2) == 0 {
                    ledger.count("partitions")
                    Trace.note(device.name, "is cut off")
                    device.link.setPartitioned(true)
                    try await Task.sleep(for: .milliseconds(draw(pause * 2_000)))
                    Trace.note(device.name, "is connected")
                    device.link.setPartitioned(false)
                } else if kinds & 2 != 0, limits.hasCrashes {
                    if draw(2) == 0 {
                        device.crashSoon(after: draw(12))
                        try await Task.sleep(for: .seconds(2))
                    } else {
                        device.crash("between two steps")
                    }
                    try await Task.sleep(for: .milliseconds(draw(3_000)))
                }
                try device.startIfEnded()
            } catch {
                ledger.find("\(device.name) does not start: \(error)")
                return
            }
        }
        // The last ones may have been killed after the last look.
        do {
            try device.startIfEnded()
        } catch {
            ledger.find("\(device.name) does not start: \(error)")
        }
    }

    func forget() {
        for device in devices { device.forget() }
    }
}
