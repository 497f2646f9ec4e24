import Testing

@testable import CloudFS

/// Every short sequence of requests and ends, and long random ones, checked by plain rules.
@Suite struct ClaimQueueExhaustiveTests {
    private enum Step {
        case ask(Purpose, [AccessIntent], isYielding: Bool)
        case end(UInt64)
        case cancel(UInt64)
    }

    private struct World {
        var queue = ClaimQueue()
        var next: UInt64 = 1
        var problems: [String] = []

        mutating func apply(_ step: Step) {
            let waitingBefore = queue.waiting
            let actions: [ClaimQueue.Action]
            switch step {
            case .ask(let purpose, let intents, let isYielding):
                let id = ClaimQueue.ClaimID(rawValue: next)
                next += 1
                actions = queue.request(id, intents, purpose: purpose, isYielding: isYielding)
            case .end(let id):
                actions = queue.end(.init(rawValue: id))
            case .cancel(let id):
                actions = queue.cancel(.init(rawValue: id)).actions
            }
            check(actions, waitingBefore)
        }

        static func conflict(_ left: ClaimQueue.Request, _ right: ClaimQueue.Request) -> Bool {
            guard left.purpose != right.purpose else { return false }
            return left.intents.contains { one in
                right.intents.contains { other in
                    one.item == other.item && one.weight.conflicts(with: other.weight)
                }
            }
        }

        private mutating func check(
            _ actions: [ClaimQueue.Action],
            _ waitingBefore: [ClaimQueue.Request]
        ) {
            let held = queue.heldClaims
            for (index, one) in held.enumerated() {
                for other in held[(index + 1)...] where Self.conflict(one, other) {
                    let isGivingWay = one.isRevoked || other.isRevoked
                    if !isGivingWay { problems.append("\(one.id) and \(other.id) held together") }
                }
            }
            if held.contains(where: { $0.isRevoked && !$0.isYielding }) {
                problems.append("a claim was revoked that does not yield")
            }
            for (index, waiter) in queue.waiting.enumerated() {
                let isKept =
                    held.contains { !$0.isYielding && Self.conflict($0, waiter) }
                    || queue.waiting[..<index].contains {
                        !$0.isYielding && Self.conflict($0, waiter)
                    }
                if !isKept { problems.append("\(waiter.id) waits for nothing") }
            }
            expectOrder(actions, waitingBefore)
        }

        /// A request is overtaken only by the purposes it waits for.
        private mutating func expectOrder(
            _ actions: [ClaimQueue.Action],
            _ waitingBefore: [ClaimQueue.Request]
        ) {
            for case .granted(let id) in actions {
                guard let granted = queue.heldClaims.first(where: { $0.id == id }) else { continue }
                for waiter in queue.waiting where waiter.id < id && !waiter.isYielding {
                    guard Self.conflict(waiter, granted) else { continue }
                    let isStranger =
                        !queue.heldClaims.contains {
                            $0.purpose == granted.purpose && $0.id != id
                        } && !waitingBefore.contains { $0.purpose == granted.purpose && $0.id < id }
                    if isStranger { problems.append("\(id) overtook \(waiter.id)") }
                }
            }
        }

        /// Ends everything that is held, again and again: all who wait must get their turn.
        mutating func drain() {
            for _ in 0..<1000 where !queue.isEmpty {
                guard let first = queue.heldClaims.first else {
                    problems.append("\(queue.waiting.map(\.id)) wait for nobody")
                    return
                }
                apply(.end(first.id.rawValue))
            }
            if !queue.isEmpty { problems.append("it never ends") }
        }
    }

    private static let wishes: [[AccessIntent]] = [
        [.reading(ItemID(1))], [.writing(ItemID(1))], [.writing(ItemID(1)), .reading(ItemID(2))],
        [.writing(ItemID(2))],
    ]

    @Test func `no four steps break a rule, and everybody gets a turn`() {
        func explore(_ world: World, _ depth: Int, _ path: [Step]) {
            guard depth > 0 else {
                var finished = world
                finished.drain()
                if !finished.problems.isEmpty { Issue.record("\(path): \(finished.problems)") }
                return
            }
            var steps: [Step] = []
            for wish in Self.wishes {
                steps.append(.ask(Purpose("app"), wish, isYielding: false))
                steps.append(.ask(Purpose("\(world.next)"), wish, isYielding: false))
            }
            steps.append(.ask(Purpose("sync"), [.writing(ItemID(1))], isYielding: true))
            steps += world.queue.heldClaims.map { .end($0.id.rawValue) }
            steps += world.queue.waiting.map { .cancel($0.id.rawValue) }
            for step in steps {
                var next = world
                next.apply(step)
                explore(next, depth - 1, path + [step])
            }
        }
        explore(World(), 4, [])
    }

    @Test(arguments: UInt64(1)...200)
    func `random claims never break a rule, and everybody gets a turn`(seed: UInt64) {
        var random = TestRandom(seed: seed)
        var world = World()
        for _ in 0..<120 {
            switch random.below(5) {
            case 0, 1:
                let purpose = random.below(6)
                let intents = (0...random.below(2)).map { _ in
                    let item = ItemID(Int64(random.below(3)))
                    return random.below(2) == 0
                        ? AccessIntent.reading(item) : AccessIntent.writing(item)
                }
                world.apply(.ask(Purpose("\(purpose)"), intents, isYielding: purpose == 0))
            case 2:
                if let waiter = world.queue.waiting.randomElement(using: &random) {
                    world.apply(.cancel(waiter.id.rawValue))
                }
            default:
                if let holder = world.queue.heldClaims.randomElement(using: &random) {
                    world.apply(.end(holder.id.rawValue))
                }
            }
        }
        world.drain()
        #expect(world.problems.isEmpty, "seed \(seed)")
    }
}
