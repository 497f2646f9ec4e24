import CloudFSTestSupport
import Logging
import Synchronization
import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10)))
struct LeaseKeeperTests {
    /// A device: its keeper, its clock, and the task that renews.
    private final class Device: Sendable {
        let keeper: LeaseKeeper
        let clock: ManualClock
        private let running: Task<Void, Never>

        init(_ name: String, _ store: MemoryLeases?, clock: ManualClock = ManualClock()) {
            self.clock = clock
            let keeper = LeaseKeeper(
                leases: { store },
                device: name,
                clock: clock,
                logger: Logger(label: "lease-tests")
            )
            self.keeper = keeper
            running = Task { await keeper.run() }
        }

        deinit {
            running.cancel()
        }

        /// Moves the device's time on until something is so.
        func pass(_ what: String, _ condition: () async throws -> Bool) async throws {
            try await eventually(what) {
                if try await condition() { return true }
                clock.advance(by: .seconds(2))
                return false
            }
        }
    }

    /// Counts who is inside, and who ever was.
    private final class Door: Sendable {
        private let state = Mutex((inside: 0, turns: 0))

        var turns: Int { state.withLock { $0.turns } }

        func enter() -> Int {
            state.withLock { state in
                state.inside += 1
                state.turns += 1
                return state.inside
            }
        }

        func leave() -> Int {
            state.withLock { state in
                state.inside -= 1
                return state.inside
            }
        }
    }

    private let document = DocumentID.random()
    private let store = MemoryLeases()

    @Test func `who comes second is told who has it, and gets it after the end`() async throws {
        let (one, two) = (Device("desk", store), Device("laptop", store))
        let lease = try await one.keeper.take(document, for: "vi (7)", within: .seconds(5))
        #expect(!lease.isLost)
        #expect(one.keeper.held.map(\.number) == [1])
        #expect(one.keeper.foreign.isEmpty)
        do {
            _ = try await two.keeper.take(document, for: "soffice (8)", within: .zero)
            Issue.record("it was given twice")
        } catch {
            #expect(error.code == .claimed)
            #expect(error.message.contains("vi (7) on desk"))
        }
        #expect(two.keeper.foreign.map(\.holder?.device) == ["desk"])
        #expect(two.keeper.held.isEmpty)

        let waiting = Task { [two, document] in
            try await two.keeper.take(document, for: "soffice (8)", within: .seconds(600))
        }
        lease.end()
        #expect(lease.isLost)
        // Who waits may be so late that it finds the end at its first look, and goes on from there.
        try await eventually("the end is told") { (store.now(document)?.number ?? 0) >= 2 }
        try await two.pass("the next one has it") { !two.keeper.held.isEmpty }
        let next = try await waiting.value
        #expect(next.generation == 3)
        #expect(one.keeper.held.isEmpty)
    }

    @Test func `a wait that is over names the holder`() async throws {
        let (one, two) = (Device("desk", store), Device("laptop", store))
        let lease = try await one.keeper.take(document, for: "vi (7)", within: .seconds(5))
        let waiting = Task { [two, document] in
            try await two.keeper.take(document, for: "soffice (8)", within: .seconds(10))
        }
        // Of the request that waits, the wait itself and the keeper's rest one sleeps at least.
        await two.clock.sleepers(2)
        try await eventually("it has looked") { store.requests >= 3 }
        two.clock.advance(by: .seconds(11))
        let result = await waiting.result
        guard case .failure(let error as CloudFSError) = result else {
            Issue.record("\(result)")
            return
        }
        #expect(error.code == .timedOut)
        #expect(error.message.contains("vi (7) on desk"))
        #expect(!lease.isLost)
    }

    @Test func `a lease is renewed as long as it is held`() async throws {
        let device = Device("desk", store)
        let lease = try await device.keeper.take(document, for: "vi", within: .seconds(5))
        for renewals in Int64(1)...5 {
            await device.clock.sleepers()
            device.clock.advance(by: .seconds(20))
            try await eventually("it is renewed") {
                (store.now(document)?.renewalCount ?? 0) >= renewals
            }
        }
        #expect(!lease.isLost)
        #expect(lease.generation == 1)
    }

    @Test func `a device without network loses its lease, and others get it`() async throws {
        let (one, two) = (Device("desk", store), Device("laptop", store))
        let told = Mutex(0)
        let lease = try await one.keeper.take(document, for: "vi", within: .seconds(5)) {
            told.withLock { $0 += 1 }
        }
        _ = try? await two.keeper.take(document, for: "soffice", within: .zero)
        store.trouble = CloudFSError(.offline, "no network")
        one.clock.advance(by: .seconds(53))
        #expect(lease.isLost, "by the clock, before anybody noticed")
        try await eventually("it is told") { told.withLock { $0 } == 1 }
        store.trouble = nil
        let waiting = Task { [two, document] in
            try await two.keeper.take(document, for: "soffice", within: .seconds(600))
        }
        try await two.pass("somebody else has it") { !two.keeper.held.isEmpty }
        // What was seen before the network went counts: no more than the rest was waited.
        #expect(two.clock.now.offset >= .seconds(75))
        let next = try await waiting.value
        #expect(next.generation == 2)
        #expect(told.withLock { $0 } == 1)
    }

    @Test func `programs of one device share a lease`() async throws {
        let device = Device("desk", store)
        let first = try await device.keeper.take(document, for: "vi", within: .seconds(5))
        let second = try await device.keeper.take(document, for: "sed", within: .zero)
        #expect(first.generation == second.generation)
        first.end()
        first.end()
        #expect(first.isLost)
        #expect(!second.isLost)
        #expect(store.now(document)?.isEnded == false)
        second.end()
        try await eventually("the last one ends it") { store.now(document)?.isEnded == true }
        let third = try await device.keeper.take(document, for: "vi", within: .zero)
        #expect(third.generation == 3)
    }

    @Test func `a lease that nobody holds on to ends`() async throws {
        let device = Device("desk", store)
        _ = try await device.keeper.take(document, for: "vi", within: .seconds(5))
        try await eventually("it is ended") { store.now(document)?.isEnded == true }
    }

    @Test func `many takings at once are one`() async throws {
        let device = Device("desk", store)
        let leases = try await withThrowingTaskGroup(of: Lease.self) { group in
            for number in 0..<20 {
                group.addTask { [document] in
                    try await device.keeper.take(document, for: "p\(number)", within: .seconds(60))
                }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(Set(leases.map(\.generation)) == [1])
        #expect(store.now(document)?.number == 1)
    }

    @Test func `what stands in the way of taking is told at once`() async throws {
        let device = Device("desk", store)
        for code in [CloudFSError.Code.offline, .denied, .unauthenticated] {
            store.trouble = CloudFSError(code, "trouble")
            for timeout in [Duration.zero, .seconds(60)] {
                await expectError(code) {
                    try await device.keeper.take(document, for: "vi", within: timeout)
                }
            }
        }
        let without = Device("desk", nil)
        #expect(!without.keeper.isAvailable)
        await expectError(.unsupported) {
            try await without.keeper.take(document, for: "vi", within: .seconds(1))
        }
    }

    @Test func `a taking whose answer was lost does not keep others out`() async throws {
        let device = Device("desk", store)
        store.losesAnswers = true
        await expectError(.offline) {
            try await device.keeper.take(document, for: "vi", within: .seconds(60))
        }
        store.losesAnswers = false
        try await device.pass("it is ended") { store.now(document)?.isEnded == true }
    }

    @Test func `a taking that is cancelled leaves nothing behind`() async throws {
        let (one, two) = (Device("desk", store), Device("laptop", store))
        let lease = try await one.keeper.take(document, for: "vi", within: .seconds(5))
        let waiting = Task { [two, document] in
            try await two.keeper.take(document, for: "soffice", within: .seconds(60))
        }
        try await eventually("it waits") { store.requests >= 3 }
        waiting.cancel()
        await expectError(.cancelled) { try await waiting.value }
        lease.end()
        try await eventually("the end is told") { store.now(document)?.isEnded == true }
        #expect(two.keeper.held.isEmpty)
        #expect(store.now(document)?.number == 2)
    }

    @Test func `at the end of a drive all leases end`() async throws {
        let device = Device("desk", store)
        let others = [document, .random(), .random()]
        var leases: [Lease] = []
        for document in others {
            leases.append(try await device.keeper.take(document, for: "vi", within: .seconds(5)))
        }
        #expect(device.keeper.held.count == 3)
        await device.keeper.endAll()
        try await eventually("all are ended") {
            others.allSatisfy { store.now($0)?.isEnded == true }
        }
        #expect(leases.filter { !$0.isLost }.isEmpty)
    }

    private static let shared = ContractedProvider.allCases.filter {
        [.embedded, .s3, .ceph].contains($0)
    }

    /// With real requests, real time, and nothing but the leases between the writers.
    @Test(arguments: Self.shared)
    func `devices at one cloud take turns`(kind: ContractedProvider) async throws {
        let door = Door()
        let document = document
        let cloud = try await kind.make()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<4 {
                let provider = number % 2 == 0 ? cloud.provider : cloud.other
                let keeper = LeaseKeeper(
                    leases: { provider.leases },
                    device: "device\(number)",
                    logger: Logger(label: "lease-tests")
                )
                group.addTask {
                    let running = Task { await keeper.run() }
                    for _ in 0..<4 {
                        let lease = try await keeper.take(document, for: "t", within: .seconds(90))
                        #expect(door.enter() == 1)
                        try await Task.sleep(for: .milliseconds(5))
                        #expect(door.leave() == 0)
                        lease.end()
                    }
                    await keeper.endAll()
                    running.cancel()
                }
            }
            try await group.waitForAll()
        }
        #expect(door.turns == 16)
        withExtendedLifetime(cloud) {}
    }
}
