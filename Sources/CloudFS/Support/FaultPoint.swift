import Dispatch
import Glibc
import Synchronization

/// A failure that a test, or whoever set `CLOUDFS_FAULTS`, asked for.
struct FaultError: Error, CustomStringConvertible {
    let point: String

    var description: String { "the fault point \(point) was set to fail" }
}

/// What happens at a fault point.
struct Fault: Sendable {
    enum Effect: Sendable {
        case fail
        case delay(Duration)
        /// Waits until the test releases it.
        case block
        /// Ends the process as the kernel would, with nothing flushed, and its supervisor with it.
        case kill
        /// The same for this process alone.
        case crash
        /// Tells the test, and goes on.
        case tell(@Sendable () -> Void)
    }

    var effect: Effect
    /// How many times the point is passed unharmed first.
    var skipping = 0
    /// How many times it then happens.
    var times = Int.max
}

/// The supervisor of this process, which a fault ends too; 0: there is none.
package enum FaultCompanion {
    fileprivate static let process = Atomic<Int32>(0)

    package static func set(_ number: Int32) { process.store(number, ordering: .relaxed) }
}

/// A named place where the program can be made to block, wait, fail or die.
///
/// Costs one load of a word as long as no point anywhere is armed. Points are armed by tests, and
/// by the environment: `CLOUDFS_FAULTS=upload.sent=fail*1,write.marked=kill@3,move.sent=delay:200`
/// (milliseconds; `@3` passes three times first, `*1` happens once). `NamedFaults` lists them.
struct FaultPoint: Sendable {
    let name: String

    init(_ name: String) {
        self.name = name
    }

    /// Whether there is any point where something happens.
    static var isAnyArmed: Bool { FaultTable.isArmed }

    /// Passes the point on a thread that may block.
    func reach() throws(FaultError) {
        guard FaultTable.isArmed, let arm = FaultTable.arm(of: name), let effect = arm.hit() else {
            return
        }
        switch effect {
        case .fail: throw FaultError(point: name)
        case .delay(let duration): FaultTable.sleepOnThread(duration)
        case .block: arm.waitOnThread()
        case .kill: FaultTable.killProcess(withCompanion: true)
        case .crash: FaultTable.killProcess(withCompanion: false)
        case .tell(let listener): listener()
        }
    }

    /// Passes the point in a task.
    func reachInTask() async throws(FaultError) {
        guard FaultTable.isArmed, let arm = FaultTable.arm(of: name), let effect = arm.hit() else {
            return
        }
        switch effect {
        case .fail: throw FaultError(point: name)
        case .delay(let duration):
            // Cancelled early is as good: the task finds out by itself.
            do { try await Task.sleep(for: duration) } catch { return }
        case .block: await arm.waitInTask()
        case .kill: FaultTable.killProcess(withCompanion: true)
        case .crash: FaultTable.killProcess(withCompanion: false)
        case .tell(let listener): listener()
        }
    }

    /// Sets what happens here from now on, until the arm is disarmed or let go of.
    func arm(_ fault: Fault) -> FaultArm {
        let armed = ArmedFault(name, fault)
        FaultTable.add(armed)
        return FaultArm(armed)
    }
}

/// A fault that is set, until it is disarmed or let go of, and what the test knows of it.
final class FaultArm: Sendable {
    private let fault: ArmedFault

    fileprivate init(_ fault: ArmedFault) {
        self.fault = fault
    }

    deinit {
        disarm()
    }

    /// How many times the point was reached.
    var hitCount: Int { fault.hitCount }

    /// Waits until the point was reached `count` times.
    func reached(_ count: Int = 1) async {
        await fault.reached(count)
    }

    /// Lets everybody go on who is blocked here, now and later.
    func release() {
        fault.release()
    }

    /// Takes the fault away, and lets everybody go on.
    func disarm() {
        FaultTable.remove(fault)
        fault.release()
    }
}

/// A fault in the table: it counts who comes by and keeps who is blocked.
private final class ArmedFault: Sendable {
    private struct State {
        var hitCount = 0
        var isReleased = false
        var blocked: [@Sendable () -> Void] = []
        var watchers: [(count: Int, wake: @Sendable () -> Void)] = []
    }

    let name: String
    private let fault: Fault
    private let isTold: Bool
    private let state = Mutex(State())

    /// - Parameter isTold: Whether standard error tells each time that it happens.
    init(_ name: String, _ fault: Fault, isTold: Bool = false) {
        self.name = name
        self.fault = fault
        self.isTold = isTold
    }

    var hitCount: Int { state.withLock { $0.hitCount } }

    func reached(_ count: Int) async {
        await withCheckedContinuation { continuation in
            let isReached = state.withLock { state in
                guard state.hitCount < count else { return true }
                state.watchers.append((count, { continuation.resume() }))
                return false
            }
            if isReached { continuation.resume() }
        }
    }

    func release() {
        let blocked = state.withLock { state in
            state.isReleased = true
            defer { state.blocked = [] }
            return state.blocked
        }
        for wake in blocked { wake() }
    }

    /// Counts somebody who comes by, and says what happens to them.
    func hit() -> Fault.Effect? {
        let (effect, watchers) = state.withLock { state in
            state.hitCount += 1
            let count = state.hitCount
            let reached = state.watchers.filter { $0.count <= count }.map(\.wake)
            state.watchers.removeAll { $0.count <= count }
            let isDue = count > fault.skipping && count - fault.skipping <= fault.times
            return (isDue ? fault.effect : nil, reached)
        }
        for wake in watchers { wake() }
        if isTold, effect != nil {
            let line = Array("cloudfs: the fault point \(name) is reached\n".utf8)
            _ = write(STDERR_FILENO, line, line.count)
        }
        return effect
    }

    func waitOnThread() {
        let semaphore = DispatchSemaphore(value: 0)
        if wait({ semaphore.signal() }) { semaphore.wait() }
    }

    func waitInTask() async {
        await withCheckedContinuation { continuation in
            if !wait({ continuation.resume() }) { continuation.resume() }
        }
    }

    /// Keeps `wake` for the release; false if that has been.
    private func wait(_ wake: @escaping @Sendable () -> Void) -> Bool {
        state.withLock { state in
            guard !state.isReleased else { return false }
            state.blocked.append(wake)
            return true
        }
    }
}

/// Every armed fault of this process.
private enum FaultTable {
    private static let count = Atomic(0)
    private static let arms = Mutex<[String: ArmedFault]>([:])
    /// Arms the faults of the environment, once; they stay as long as the process.
    private static let inherited: Void = {
        let text = getenv("CLOUDFS_FAULTS").map { String(cString: $0) } ?? ""
        for (name, fault) in parse(text) { add(ArmedFault(name, fault, isTold: true)) }
    }()

    static var isArmed: Bool {
        _ = inherited
        return count.load(ordering: .relaxed) != 0
    }

    static func arm(of name: String) -> ArmedFault? {
        arms.withLock { $0[name] }
    }

    static func add(_ arm: ArmedFault) {
        let isNew = arms.withLock { $0.updateValue(arm, forKey: arm.name) == nil }
        if isNew { count.add(1, ordering: .relaxed) }
    }

    static func remove(_ arm: ArmedFault) {
        let isGone = arms.withLock { arms in
            guard arms[arm.name] === arm else { return false }
            arms[arm.name] = nil
            return true
        }
        if isGone { count.subtract(1, ordering: .relaxed) }
    }

    static func sleepOnThread(_ duration: Duration) {
        var wish = timespec()
        var left = timespec()
        wish.tv_sec = Int(duration.components.seconds)
        wish.tv_nsec = Int(duration.components.attoseconds / 1_000_000_000)
        while nanosleep(&wish, &left) != 0, errno == EINTR { wish = left }
    }

    static func killProcess(withCompanion: Bool) {
        let companion = FaultCompanion.process.load(ordering: .relaxed)
        if withCompanion, companion != 0 { kill(companion, SIGKILL) }
        kill(getpid(), SIGKILL)
    }

    static func parse(_ text: String) -> [(name: String, fault: Fault)] {
        text.split(separator: ",").compactMap { part in
            let sides = part.split(separator: "=", maxSplits: 1)
            guard sides.count == 2 else { return nil }
            let counted = sides[1].split(separator: "*", maxSplits: 1)
            let words = counted.first?.split(separator: "@", maxSplits: 1) ?? []
            guard let first = words.first, let effect = effect(first) else { return nil }
            var fault = Fault(effect: effect)
            if words.count > 1 { fault.skipping = Int(words[1]) ?? 0 }
            if counted.count > 1 { fault.times = Int(counted[1]) ?? Int.max }
            return (String(sides[0]), fault)
        }
    }

    private static func effect(_ text: Substring) -> Fault.Effect? {
        let words = text.split(separator: ":", maxSplits: 1)
        switch words.first {
        case "fail": return .fail
        case "kill": return .kill
        case "crash": return .crash
        case "block": return .block
        case "delay":
            guard words.count == 2, let milliseconds = Int(words[1]) else { return nil }
            return .delay(.milliseconds(milliseconds))
        default: return nil
        }
    }
}

extension Fault {
    /// The faults that a value of `CLOUDFS_FAULTS` asks for; what makes no sense is left out.
    static func parse(_ text: String) -> [(name: String, fault: Fault)] { FaultTable.parse(text) }
}
