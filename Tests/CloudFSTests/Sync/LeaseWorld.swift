import CloudFSTestSupport

@testable import CloudFS

/// Devices that take turns at one document, with a network and clocks that are no help.
///
/// One queue of events in true time; every device has a clock of its own, which began at another
/// moment and runs at another rate. The store is a bucket that creates objects atomically and
/// knows nothing else: appending is a creation, a listing, and a removal, each of which can be
/// lost, late, or done twice.
struct LeaseWorld {
    struct Setup {
        var devices = 2
        /// How fast clocks run: 1 is true.
        var rates = 0.85...1.15
        /// Whether the server refuses to create what exists.
        var isAtomic = true
        /// Whether a record that was stored is looked for before it counts.
        var looksAgain = true
        /// Until when things go wrong, and then how long they do not.
        var trouble = Duration.seconds(1_500)
        var quiet = Duration.seconds(600)
    }

    private enum Operation {
        case look
        case create(LeaseRecord)
        case list(LeaseRecord)
        case remove([Int64])
        case write(base: Int, token: Int)
    }

    private enum Answer {
        case latest(LeaseRecord?)
        case created(LeaseRecord, Bool)
        case listed(LeaseRecord, [Int64])
        case nothing
    }

    private enum Event {
        case turn
        case arrival(Operation, request: Int, isHeard: Bool)
        case answer(Answer, request: Int)
        case timeOut(request: Int)
        case release
        case crash
        case upload
    }

    private struct Entry {
        var time: Duration
        var order: Int
        var device: Int
        var life: Int
        var event: Event
    }

    private struct Device {
        var rate: Double
        var offset: Duration
        var plan: LeasePlan
        var life = 0
        /// The request under way, and when it was asked by the device's clock.
        var request: Int?
        var asked = Duration.zero
        var pauses = 0
        var cutOffUntil = Duration.zero
        var wasHeld = false
        /// The version that the last taking of the lease has seen.
        var base = 0

        func local(_ time: Duration) -> Duration { offset + time * rate }
        func real(_ local: Duration) -> Duration { (local - offset) / rate }
    }

    static let document = DocumentID(high: 3, low: 4)
    private static let duration = Duration.seconds(60)
    private static let requestLimit = Duration.seconds(10)

    private let setup: Setup
    private var random: SeededRandom
    private var now = Duration.zero
    private var queue: [Entry] = []
    private var order = 0
    private var devices: [Device] = []
    private var records: [Int64: LeaseRecord] = [:]
    /// The document: each version names the one it replaced.
    private var versions: [(base: Int, token: Int)] = [(0, 0)]
    private var requests = 0

    // What is looked at afterwards.
    private(set) var violations: [String] = []
    private(set) var takings = 0
    private(set) var quietTakings = 0
    private(set) var takeovers = 0
    private(set) var losses = 0
    private(set) var uploads = 0
    private(set) var refusedUploads = 0

    init(seed: UInt64, _ setup: Setup) {
        self.setup = setup
        random = SeededRandom(seed: seed)
        for number in 0..<setup.devices {
            let rate = Double.random(in: setup.rates, using: &random)
            let offset = Duration.seconds(random.below(100_000_000))
            devices.append(Device(rate: rate, offset: offset, plan: plan(number)))
            schedule(.milliseconds(random.below(5_000)), number, .turn)
        }
    }

    mutating func run() {
        while let entry = queue.popLast(), entry.time < setup.trouble + setup.quiet {
            now = entry.time
            if case .arrival(let operation, let request, let isHeard) = entry.event {
                // What was sent arrives whether or not its sender still lives.
                arrive(operation, from: entry, request: request, isHeard: isHeard)
            } else if devices[entry.device].life == entry.life {
                handle(entry.event, entry.device)
            }
            look()
        }
    }

    /// Whether every version replaced the one before it, so that none was overwritten unseen.
    var isUnbroken: Bool { versions.indices.dropFirst().allSatisfy { versions[$0].base == $0 - 1 } }

    /// How many uploads became versions.
    var versionCount: Int { versions.count - 1 }

    private var isQuiet: Bool { now >= setup.trouble }

    // MARK: - Devices

    private mutating func plan(_ device: Int, _ watch: LeaseWatch = LeaseWatch()) -> LeasePlan {
        let instance = DocumentID(
            high: UInt64(device),
            low: UInt64.random(in: 0..<UInt64.max, using: &random)
        )
        return LeasePlan(
            document: Self.document,
            holder: LeaseHolder(device: "device \(device)", process: "", instance: instance),
            duration: Self.duration,
            watch: watch
        )
    }

    private mutating func handle(_ event: Event, _ device: Int) {
        let local = devices[device].local(now)
        switch event {
        case .turn: break
        case .arrival: return
        case .answer(let answer, let request):
            guard devices[device].request == request else { return }
            devices[device].request = nil
            take(answer, device, local)
        case .timeOut(let request):
            guard devices[device].request == request else { return }
            devices[device].request = nil
            devices[device].plan.failed(at: local)
        case .release: devices[device].plan.release()
        case .crash: return crash(device)
        case .upload:
            if devices[device].plan.isHeld(at: local) {
                uploads += 1
                let write = Operation.write(base: devices[device].base, token: uploads)
                send(write, device, isAwaited: false)
            }
        }
        turn(device)
    }

    private mutating func take(_ answer: Answer, _ device: Int, _ local: Duration) {
        switch answer {
        case .latest(let record):
            devices[device].plan.saw(record, asked: devices[device].asked, at: local)
        case .created(let record, true) where setup.looksAgain: send(.list(record), device)
        case .created(let record, true):
            let older = Array(1..<record.number)
            if !older.isEmpty { send(.remove(older), device, isAwaited: false) }
            devices[device].plan.appended(true, at: local)
        case .created(_, false): devices[device].plan.appended(false, at: local)
        case .listed(let record, let numbers):
            let isLatest = numbers.max() == record.number
            let older = numbers.filter { $0 < record.number }
            if isLatest, !older.isEmpty { send(.remove(older), device, isAwaited: false) }
            devices[device].plan.appended(isLatest, at: local)
        case .nothing: break
        }
    }

    private mutating func turn(_ device: Int) {
        while devices[device].request == nil {
            let local = devices[device].local(now)
            switch devices[device].plan.next(at: local) {
            case .look: send(.look, device)
            case .append(let record): send(.create(record), device)
            case .pause:
                devices[device].pauses = min(devices[device].pauses + 1, 5)
                let pause = Duration.milliseconds(100 + random.below(devices[device].pauses * 900))
                return schedule(pause / devices[device].rate, device, .turn)
            case .rest(let moment):
                devices[device].pauses = 0
                let wait = devices[device].real(moment) - now + .milliseconds(1)
                return schedule(wait, device, .turn)
            case .nothing:
                if devices[device].plan.phase == .lost { losses += 1 }
                devices[device].plan = plan(device, devices[device].plan.watch)
                return schedule(.milliseconds(random.below(20_000)), device, .turn)
            }
        }
    }

    /// It ends with all it knows, and comes back as somebody else.
    private mutating func crash(_ device: Int) {
        devices[device].life += 1
        devices[device].request = nil
        devices[device].wasHeld = false
        devices[device].plan = plan(device)
        schedule(.seconds(1 + random.below(200)), device, .turn)
    }

    // MARK: - The network

    private mutating func send(_ operation: Operation, _ device: Int, isAwaited: Bool = true) {
        requests += 1
        if isAwaited {
            devices[device].request = requests
            devices[device].asked = devices[device].local(now)
            let limit = Self.requestLimit / devices[device].rate
            schedule(limit, device, .timeOut(request: requests))
        }
        guard now >= devices[device].cutOffUntil else { return }
        var delay = Duration.milliseconds(5 + random.below(400))
        var isHeard = isAwaited
        if !isQuiet {
            switch random.below(40) {
            case 0: return
            case 1: isHeard = false
            // Late enough to meet another world.
            case 2: delay += .milliseconds(random.below(200_000))
            case 3:
                let later = delay + .milliseconds(random.below(200_000))
                let again = Event.arrival(operation, request: requests, isHeard: false)
                schedule(later, device, again)
            // Late, but not too late for an answer.
            case 4...10: delay += .milliseconds(random.below(9_000))
            default: break
            }
        }
        schedule(delay, device, .arrival(operation, request: requests, isHeard: isHeard))
    }

    private mutating func arrive(
        _ operation: Operation,
        from entry: Entry,
        request: Int,
        isHeard: Bool
    ) {
        let answer = perform(operation)
        guard isHeard, now >= devices[entry.device].cutOffUntil else { return }
        let delay = Duration.milliseconds(5 + random.below(400))
        add(entry.device, entry.life, now + delay, .answer(answer, request: request))
    }

    // MARK: - The cloud

    private mutating func perform(_ operation: Operation) -> Answer {
        switch operation {
        case .look: return .latest(records[records.keys.max() ?? 0])
        case .create(let record):
            // A client that repeats itself finds out that it was its own record.
            if setup.isAtomic, let there = records[record.number], there != record {
                return .created(record, false)
            }
            records[record.number] = record
            return .created(record, true)
        case .list(let record): return .listed(record, Array(records.keys))
        case .remove(let numbers):
            for number in numbers { records[number] = nil }
            return .nothing
        case .write(let base, let token):
            if base == versions.count - 1 {
                versions.append((base, token))
            } else {
                refusedUploads += 1
            }
            return .nothing
        }
    }

    // MARK: - What must be so

    private mutating func look() {
        let holders = devices.indices.filter { devices[$0].plan.isHeld(at: devices[$0].local(now)) }
        if holders.count > 1 { violations.append("at \(now) \(holders) hold the lease") }
        for index in devices.indices where devices[index].wasHeld != holders.contains(index) {
            devices[index].wasHeld.toggle()
            if devices[index].wasHeld { begin(index) }
        }
    }

    /// A device has the lease now: what it does with it is decided.
    private mutating func begin(_ device: Int) {
        takings += 1
        if isQuiet { quietTakings += 1 }
        if let record = devices[device].plan.record, let before = records[record.number - 1],
            before.holder != record.holder, !before.isEnded
        {
            takeovers += 1
        }
        devices[device].base = versions.count - 1
        schedule(.milliseconds(random.below(40_000)), device, .upload)
        let longest = isQuiet ? 20_000 : [1_000, 10_000, 150_000][random.below(3)]
        let rest = Duration.milliseconds(random.below(longest))
        switch isQuiet ? 9 : random.below(10) {
        case 0, 1: schedule(rest, device, .crash)
        case 2, 3:
            devices[device].cutOffUntil = now + .milliseconds(random.below(200_000))
            schedule(rest, device, .release)
        default: schedule(rest, device, .release)
        }
    }

    // MARK: - The queue

    private mutating func schedule(_ delay: Duration, _ device: Int, _ event: Event) {
        let life = devices.indices.contains(device) ? devices[device].life : 0
        add(device, life, now + max(delay, .milliseconds(1)), event)
    }

    private mutating func add(_ device: Int, _ life: Int, _ time: Duration, _ event: Event) {
        order += 1
        let entry = Entry(time: time, order: order, device: device, life: life, event: event)
        var (low, high) = (0, queue.count)
        while low < high {
            let middle = (low + high) / 2
            let other = queue[middle]
            if (other.time, other.order) > (time, order) { low = middle + 1 } else { high = middle }
        }
        queue.insert(entry, at: low)
    }
}
