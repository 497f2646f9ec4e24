import CloudFSTestSupport
import Glibc
import Synchronization

@testable import CloudFS

/// A program on one device that does one thing after the other, as its seed says.
///
/// It asks the drive as the kernel's adapter would, call by call, and other things happen in
/// between. When its device is killed, so is it; the next one goes on with the next thing.
final class Program: Sendable {
    let device: Device
    let number: Int
    let ledger: Ledger
    let cloud: any SimulatedCloud
    let plan: Plan
    private let random: Mutex<SeededRandom>

    /// What programs of a seed are like.
    struct Plan: Sendable {
        var operations: Int
        /// How long one rests between two things, at most.
        var longestRest: Duration
        /// Bytes of one block of a file.
        var blockByteCount: Int
        /// Whether folders are removed with all in them, and not only once they are empty.
        var removesTrees: Bool
        /// Whether attributes are written, and nothing is removed or replaced.
        var leavesMarks: Bool
    }

    init(
        on device: Device,
        number: Int,
        seed: UInt64,
        plan: Plan,
        cloud: any SimulatedCloud,
        ledger: Ledger
    ) {
        self.device = device
        self.number = number
        self.plan = plan
        self.cloud = cloud
        self.ledger = ledger
        random = Mutex(SeededRandom(seed: seed))
    }

    func draw(_ count: Int) -> Int {
        random.withLock { Int($0.next() % UInt64(count)) }
    }

    func pick<Value>(_ values: [Value]) -> Value? {
        values.isEmpty ? nil : values[draw(values.count)]
    }

    func note(_ text: @autoclosure () -> String) { Trace.note("\(device.name).\(number)", text()) }

    /// Runs all operations.
    func run() async throws {
        for _ in 0..<plan.operations {
            try await rest(atMost: plan.longestRest)
            let life = try await device.running()
            ledger.count("operations")
            await Life.$current.withValue(life) {
                let session = Session(self, in: life)
                do {
                    try await session.doSomething()
                } catch is Life.Ended {
                    note("ended with its device")
                } catch let error as CloudFSError where Self.isOrdinary(error.code) {
                    note("  \(error.code.rawValue): \(error.message)")
                } catch {
                    ledger.find("\(device.name): a program is told \(error)")
                }
            }
        }
    }

    func rest(atMost longest: Duration) async throws {
        try await Task.sleep(for: longest * Double(draw(1_000)) / 1_000)
    }

    /// What a program may be told because others change what it works on, or the link is bad.
    private static func isOrdinary(_ code: CloudFSError.Code) -> Bool {
        switch code {
        case .notFound, .exists, .notDirectory, .isDirectory, .notEmpty, .offline, .timedOut,
            .claimed, .remoteChanged, .noAttribute, .invalidArgument, .invalidName, .denied,
            .cancelled:
            true
        default: false
        }
    }
}

extension Answer {
    /// The answer, after whatever it waits for.
    func value(in life: Life) async throws -> Value {
        switch self {
        case .ready(let value): return value
        case .pending(let work):
            let value = try await work()
            try life.requireGoingOn()
            return value
        }
    }
}
