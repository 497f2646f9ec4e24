import CloudFSTestSupport
import Foundation
import Testing

/// What a drive costs while nobody uses it: a laptop's battery pays for every wake-up.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RestTests {
    /// How many are in a second.
    ///
    /// libdispatch looks after each of its two pools once a second, which nobody can turn off; what
    /// else happens must be rare.
    private static let bearableWakeUps = 2.5
    private static let window = Duration.seconds(5)

    @Test func `a drive that nobody uses hardly wakes its machine`() async throws {
        let filling = Filling { cloud in
            try cloud.write("folder/file", "some bytes")
        }
        try await TestDrive.with(slots: .max, prepare: filling) { drive in
            try await drive.run("find . > /dev/null; cat folder/file > /dev/null")
            let pid = try #require(drive.mount.worker)
            let seconds = Double(Self.window.components.seconds)
            var before = WakeUps(of: pid)
            var rates: [String] = []
            // What follows the mount is over some time; what never ends makes no window quiet.
            do {
                try await eventually("a quiet window", within: .seconds(60)) {
                    let now = WakeUps(of: pid)
                    guard now.time - before.time >= Self.window else { return false }
                    let found = now.since(before)
                    rates = found.map { "\($0): \($1)" }.sorted()
                    before = now
                    return Double(found.values.reduce(0, +)) <= Self.bearableWakeUps * seconds
                }
            } catch {
                Issue.record("in \(seconds) s: \(rates.joined(separator: ", "))")
                throw error
            }
        }
    }
}

/// How often each thread of a process has gone to sleep, and so was or will be woken.
private struct WakeUps {
    let time = ContinuousClock.now
    private var counts: [String: Int] = [:]

    init(of process: Int32) {
        let folder = "/proc/\(process)/task"
        // A thread that ends meanwhile has no files any more.
        for thread in (try? FileManager.default.contentsOfDirectory(atPath: folder)) ?? [] {
            let status = FileManager.default.contents(atPath: "\(folder)/\(thread)/status")
            var name: Substring = ""
            for line in String(decoding: status ?? Data(), as: UTF8.self).split(separator: "\n") {
                let fields = line.split(whereSeparator: \.isWhitespace)
                if fields.first == "Name:" { name = fields.last ?? "" }
                if fields.first == "voluntary_ctxt_switches:" {
                    counts["\(thread) \(name)"] = fields.last.flatMap { Int($0) }
                }
            }
        }
    }

    /// By thread; those that ended in between are left out.
    func since(_ earlier: WakeUps) -> [String: Int] {
        var found: [String: Int] = [:]
        for (thread, count) in counts {
            let difference = count - (earlier.counts[thread] ?? 0)
            if difference != 0 { found[thread] = difference }
        }
        return found
    }
}
