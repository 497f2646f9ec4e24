import Foundation
import Glibc

/// Tells how long a call takes and how often it asks for memory.
///
/// In ordinary test runs every path runs once, so that none of them rots; `CLOUDFS_MICRO=1` has
/// each run for long enough to be measured, and printed. Allocations are counted by a library that
/// `Benchmarks/micro/run` loads before the C library; without it none are shown.
struct Stopwatch {
    /// What one path costs, per call.
    struct Cost {
        var nanoseconds: Double
        /// `nil` where nobody counts.
        var allocations: Double?
    }

    private static let isMeasuring = ProcessInfo.processInfo.environment["CLOUDFS_MICRO"] == "1"
    /// Medians of so many batches are shown, each of which takes about `batch`.
    private static let batches = 9
    private static let batch = 0.1

    /// Runs `body` with growing numbers, and prints what a call of it costs.
    static func measure(_ name: String, _ body: (_ number: Int) throws -> Void) throws {
        var number = 0
        func run(_ count: Int) throws -> Cost {
            let allocations = allocationCount()
            let begin = ContinuousClock.now
            for _ in 0..<count {
                try body(number)
                number += 1
            }
            let elapsed = ContinuousClock.now - begin
            return Cost(
                nanoseconds: elapsed / .nanoseconds(count),
                allocations: allocations.flatMap { before in
                    allocationCount().map { Double($0 - before) / Double(count) }
                }
            )
        }
        let first = try run(1)
        guard isMeasuring else { return }
        // Caches fill meanwhile, and it shows how many calls a batch needs.
        let guess = try run(max(1, Int(batch * 1e8 / first.nanoseconds)))
        let count = max(1, Int(batch * 1e9 / guess.nanoseconds))
        let costs = try (0..<batches).map { _ in try run(count) }
        let times = costs.map(\.nanoseconds).sorted()
        let allocations = costs.compactMap(\.allocations).sorted()
        print(line(name, times, allocations, count: count * batches))
    }

    private static func line(
        _ name: String,
        _ times: [Double],
        _ allocations: [Double],
        count: Int
    ) -> String {
        let median = times[times.count / 2]
        let spread = "\(Int(times[0]))–\(Int(times[times.count - 1]))"
        let counted =
            allocations.isEmpty ? "–" : String(format: "%.2f", allocations[allocations.count / 2])
        return "micro: " + name.padding(toLength: 38, withPad: " ", startingAt: 0)
            + "\(Int(median)) ns (\(spread)), \(counted) allocations, \(count) calls"
    }

    private typealias Count = @convention(c) () -> UInt

    private static func allocationCount() -> UInt? {
        guard let symbol = dlsym(nil, "cloudfs_allocation_count") else { return nil }
        return unsafeBitCast(symbol, to: Count.self)()
    }
}
