import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Random readers, writers and networks, checked after every step.
@Suite struct HydrationPlanSimulationTests {
    private struct World {
        var plan: HydrationPlan
        var random: SeededRandom
        var now: Duration = .seconds(1)
        var running: [(id: HydrationPlan.RequestID, range: Range<Int64>, position: Int64)] = []
        var waiting: [UInt64: Range<Int64>] = [:]
        var nextWaiter: UInt64 = 1
        var fetchedByteCount: Int64 = 0
        var completions = 0
        let note: Comment

        init(seed: UInt64) {
            note = "seed \(seed)"
            random = SeededRandom(seed: seed)
            let size = [Int64(0), 5000, 64 << 10, 300_000, 9 << 20, 70 << 20][random.below(6)]
            let policies: [HydrationPlan.Policy] = [
                .partial, .progressive(limit: 16 << 20), .progressive(limit: 1 << 40), .full,
            ]
            plan = HydrationPlan(size: size, policy: policies[random.below(4)])
        }

        mutating func send(_ event: HydrationPlan.Event) {
            let before = plan.present
            let actions = plan.handle(event, now: now)
            var kept = before
            if case .thinned(let dropped) = event { kept.subtract(dropped) }
            let isKept = kept.ranges.allSatisfy { plan.present.contains($0) }
            #expect(isKept && plan.invariantsHold, note)
            for action in actions { perform(action) }
        }

        mutating func perform(_ action: HydrationPlan.Action) {
            switch action {
            case .fetch(let id, let range):
                #expect(!range.isEmpty && range.lowerBound >= 0, note)
                #expect(range.upperBound <= plan.size, note)
                #expect(!plan.present.contains(range), note)
                fetchedByteCount += Int64(range.count)
                running.append((id, range, range.lowerBound))
                #expect(running.count <= 8, note)
            case .cancel(let id):
                #expect(running.contains { $0.id == id }, note)
                running.removeAll { $0.id == id }
            case .wake(let waiter, let failure):
                let range = waiting.removeValue(forKey: waiter.rawValue)
                #expect(range != nil, note)
                if let range, failure == nil {
                    #expect(plan.present.contains(range.clamped(to: 0..<plan.size)), note)
                }
            case .complete:
                completions += 1
                #expect(plan.isComplete && completions == 1, note)
            }
        }

        mutating func read() {
            let start = Int64.random(in: 0...plan.size, using: &random)
            let longest = [Int64(4096), 128 << 10, 20 << 20][random.below(3)]
            let count = Int64.random(in: 0...longest, using: &random)
            var range = start..<start + count
            if let stream = plan.streams.last, random.below(2) == 0 {
                range = stream.next..<stream.next + min(count, 128 << 10)
            }
            let waiter = nextWaiter
            nextWaiter += 1
            waiting[waiter] = range
            let handle = random.below(10) == 0 ? nil : UInt64(random.below(3))
            send(.read(.init(rawValue: waiter), range, handle: handle))
        }

        mutating func progress(failing: Bool) {
            guard !running.isEmpty else { return }
            let index = random.below(running.count)
            let id = running[index].id
            if failing && random.below(8) == 0 {
                running.remove(at: index)
                let waiters = Set(waiting.keys)
                let isGivenUp = random.below(2) == 0
                send(isGivenUp ? .requestGivenUp(id, .diskFull) : .requestFailed(id, .offline))
                if isGivenUp { #expect(Set(waiting.keys) == waiters, note) }
                return
            }
            let position = running[index].position
            let end = running[index].range.upperBound
            guard position < end else {
                running.remove(at: index)
                send(.requestEnded(id))
                return
            }
            let step = random.below(3) == 0 ? end - position : min(1 << 20, end - position)
            running[index].position = position + step
            send(.delivered(id, position..<position + step))
        }

        /// Half of what could go, with something held.
        mutating func thin() {
            let held = random.range(below: plan.size, longest: 100_000)
            let byteCount = max(1, plan.present.byteCount / 2)
            let dropped = plan.expendable(byteCount, beside: [held])
            #expect(!dropped.intersects(held), note)
            #expect(dropped.byteCount < byteCount + HydrationPlan.blockSize, note)
            if !dropped.isEmpty { send(.thinned(dropped)) }
        }

        mutating func step() {
            now += .milliseconds(random.below(50))
            switch random.below(25) {
            case 0..<8: read()
            case 8..<19: progress(failing: true)
            case 19:
                if let waiter = waiting.keys.min() {
                    waiting[waiter] = nil
                    send(.cancelRead(.init(rawValue: waiter)))
                }
            case 20: send(.localWrite(random.range(below: plan.size, longest: 100_000)))
            case 21:
                if random.below(20) == 0 {
                    send(.truncated(to: Int64.random(in: 0...plan.size, using: &random)))
                }
            case 22: if random.below(10) == 0 { send(.completeAll(forced: true)) }
            case 23: thin()
            default:
                now += .seconds(random.below(40))
                send(random.below(2) == 0 ? .tick : .expireStalled(.timedOut))
            }
        }
    }

    @Test(arguments: UInt64(1)...120)
    func `every reader is woken and no byte is asked for twice at a time`(seed: UInt64) {
        var world = World(seed: seed)
        for _ in 0..<300 { world.step() }
        world.plan.present.checkInvariants()
        // The network mends: whatever waits must be answered, and nothing may be left behind.
        var steps = 0
        while !world.running.isEmpty || world.plan.nextTick != nil {
            if world.running.isEmpty {
                world.now += .seconds(61)
                world.send(.tick)
            }
            world.progress(failing: false)
            steps += 1
            if steps > 20_000 { break }
        }
        #expect(steps <= 20_000, world.note)
        #expect(world.waiting.isEmpty, world.note)
        #expect(world.plan.isIdle, world.note)
        if world.plan.isCompleting { #expect(world.plan.isComplete, world.note) }
    }

    @Test(arguments: UInt64(1)...10)
    func `random small reads fetch little more than they read`(seed: UInt64) {
        var world = World(seed: seed)
        world.plan = HydrationPlan(size: 1 << 30, policy: .progressive(limit: 1 << 40))
        var read: Int64 = 0
        for _ in 0..<200 {
            let start = Int64.random(in: 0..<(1 << 30) - 4096, using: &world.random)
            let waiter = world.nextWaiter
            world.nextWaiter += 1
            world.waiting[waiter] = start..<start + 4096
            read += 4096
            world.send(.read(.init(rawValue: waiter), start..<start + 4096, handle: 1))
            if world.random.below(3) == 0 {
                while !world.running.isEmpty { world.progress(failing: false) }
            }
        }
        while !world.running.isEmpty { world.progress(failing: false) }
        // An unaligned read touches two blocks.
        #expect(world.fetchedByteCount <= read * 2, world.note)
        #expect(world.waiting.isEmpty, world.note)
    }
}
