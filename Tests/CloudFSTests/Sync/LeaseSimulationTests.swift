import Testing

@testable import CloudFS

/// Two and eight devices that take turns, from many seeds.
@Suite(.timeLimit(.minutes(10)))
struct LeaseSimulationTests {
    private struct Total {
        var takings = 0
        var takeovers = 0
        var losses = 0
        var uploads = 0
        var versions = 0
        var refusedUploads = 0
        var violations = 0
    }

    private func run(
        _ setup: LeaseWorld.Setup,
        seeds: Range<UInt64>,
        mustHold: Bool = true
    ) async -> Total {
        var total = Total()
        for seed in seeds {
            var world = LeaseWorld(seed: seed, setup)
            world.run()
            // There are few threads for all tests that run beside this one.
            await Task.yield()
            total.takings += world.takings
            total.takeovers += world.takeovers
            total.losses += world.losses
            total.uploads += world.uploads
            total.versions += world.versionCount
            total.refusedUploads += world.refusedUploads
            total.violations += world.violations.count
            guard mustHold else {
                if total.violations > 0 { break }
                continue
            }
            #expect(world.violations.isEmpty, "seed \(seed): \(world.violations.prefix(3))")
            #expect(world.isUnbroken, "seed \(seed)")
            // Whoever was there at the end of trouble, somebody goes on.
            #expect(world.quietTakings >= 5, "seed \(seed)")
        }
        print("leases of \(setup.devices) devices, seeds \(seeds): \(total)")
        return total
    }

    @Test(arguments: [(2, UInt64(100)), (8, 60)])
    func `never do two devices hold a lease at once, and a crash keeps nobody out`(
        devices: Int,
        seeds: UInt64
    ) async {
        var setup = LeaseWorld.Setup()
        setup.devices = devices
        let total = await run(setup, seeds: 0..<seeds)
        // What is hard did happen.
        #expect(total.takeovers > Int(seeds))
        #expect(total.losses > Int(seeds) / 2)
        #expect(total.uploads > Int(seeds))
    }

    /// The simulation sees what it is there for: these clocks are worse than the margin allows.
    @Test func `clocks that differ by half do give two holders`() async {
        var setup = LeaseWorld.Setup()
        setup.devices = 4
        setup.rates = 0.6...1.4
        let total = await run(setup, seeds: 0..<200, mustHold: false)
        #expect(total.violations > 0)
    }

    @Test func `a server that takes conditions for nothing does give two holders`() async {
        var setup = LeaseWorld.Setup()
        setup.devices = 4
        setup.isAtomic = false
        let total = await run(setup, seeds: 0..<200, mustHold: false)
        #expect(total.violations > 0)
    }

    @Test func `records that are not looked for again do give two holders`() async {
        var setup = LeaseWorld.Setup()
        setup.devices = 8
        setup.looksAgain = false
        let total = await run(setup, seeds: 0..<200, mustHold: false)
        #expect(total.violations > 0)
    }
}
