import CloudFSTestSupport
import Foundation
import Testing

/// What a drive costs while nobody uses it: a laptop's battery pays for every wake-up.
///
/// Built by a compiler that `TaskThreads` does not know, a drive fails here.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct RestTests {
    private static let window = Duration.seconds(10)

    @Test func `a drive that nobody uses does not wake its machine`() async throws {
        let filling = Filling { cloud in
            try cloud.write("folder/file", "some bytes")
        }
        try await TestDrive.with(slots: .max, prepare: filling) { drive in
            try await drive.run("find . > /dev/null; cat folder/file > /dev/null")
            let processes = [
                try #require(drive.mount.pid), try #require(drive.mount.worker),
            ]
            var before = WakeUps(of: processes)
            var rates: [String] = []
            // What follows the mount is over some time; what never ends makes no window quiet.
            do {
                try await eventually("a quiet window", within: .seconds(60)) {
                    let now = WakeUps(of: processes)
                    guard now.time - before.time >= Self.window else { return false }
                    let found = now.since(before)
                    rates = found.map { "\($0): \($1)" }.sorted()
                    before = now
                    return found.isEmpty
                }
            } catch {
                Issue.record("in \(Self.window): \(rates.joined(separator: ", "))")
                throw error
            }
        }
    }

    @Test func `a drive that nobody uses holds little of its own program`() async throws {
        try await TestDrive.with { drive in
            let processes = [
                try #require(drive.mount.pid), try #require(drive.mount.worker),
            ]
            // The two had 30 MB mapped after they had begun, built for debugging, and 43 otherwise.
            try await eventually("its pages are given back", within: .seconds(20)) {
                try processes.map { try Self.programBytes(of: $0) }.reduce(0, +) < 12 << 20
            }
        }
    }

    /// How many bytes of its program's code a process has mapped.
    private static func programBytes(of process: Int32) throws -> Int {
        let maps = try String(contentsOfFile: "/proc/\(process)/smaps", encoding: .utf8)
        let lines = maps.split(separator: "\n")
        let code = try #require(
            lines.firstIndex { $0.contains(" r-xp ") && $0.hasSuffix("/cloudfs-mount") }
        )
        let resident = try #require(lines[code...].first { $0.hasPrefix("Rss:") })
        let count = try #require(resident.firstMatch(of: /\d+/)?.output)
        return try #require(Int(count)) << 10
    }
}

/// How often each thread of some processes has gone to sleep, and so was or will be woken.
private struct WakeUps {
    let time = ContinuousClock.now
    private var counts: [String: Int] = [:]

    init(of processes: [Int32]) {
        for process in processes { look(at: "/proc/\(process)/task") }
    }

    private mutating func look(at folder: String) {
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
