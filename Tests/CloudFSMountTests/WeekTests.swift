import CloudFSTestSupport
import Foundation
import Testing

/// A drive that is used for days: what it keeps is bounded by what is in it, not by what was ever
/// done with it.
///
/// `CLOUDFS_TEST_DAYS` and `CLOUDFS_TEST_DAY_LENGTH` make it a longer week.
@Suite(.onMounts, .printingLogs, .notingIssues)
struct WeekTests {
    private static func number(_ name: String, default usual: Int) -> Int {
        ProcessInfo.processInfo.environment[name].flatMap { Int($0) } ?? usual
    }

    /// The days whose figures are compared are those after this one: until then caches fill up.
    private static let settledDay = 3

    @Test func `a week of work leaves nothing behind`() async throws {
        let days = max(7, Self.number("CLOUDFS_TEST_DAYS", default: 8))
        let length = Self.number("CLOUDFS_TEST_DAY_LENGTH", default: 400)
        let program = try String(contentsOf: Self.program, encoding: .utf8)
        // The whole machine, as what the process uses is measured.
        try await TestDrive.with(slots: .max) { drive in
            var drive = drive
            var first: Day?
            for number in 1...days {
                // The last days begin anew, each in its own way.
                let isNew = number > days - 3
                if isNew {
                    drive = try await (number % 2 == 0 ? drive.restart() : drive.crash())
                }
                let day = try await Day.spend(number, length, program, on: drive)
                print("day \(number): \(day)")
                guard number > Self.settledDay, let first else {
                    first = day.after(first)
                    continue
                }
                day.compare(with: first, isSameProcess: !isNew)
            }
        }
    }

    private static var program: URL {
        URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .appending(path: "Week/week.py")
    }
}

/// What a drive keeps in the evening.
private struct Day: CustomStringConvertible {
    let number: Int
    let figures: [String: Int]

    /// How much of what is no row may be there beyond what was there before, in its own unit.
    private static let bounds: [(prefix: String, more: Int)] = [
        ("bytes of the catalog", 256 << 10),
        // The list of what was opened last is told to other devices once in a while.
        ("things of the drive in the cloud", 1),
        // What an item that is gone from the cloud had to send waits for a week for an heir: how
        // many there are is a matter of what the cloud took away just before it was sent.
        ("rows of bequest", 40),
        // Its length stays until SQLite begins it anew: 4,096 pages and what is written meanwhile.
        ("bytes of the log", 18 << 20),
        ("process: KiB", 12 << 10),
        // Made when first something is to be found or put there.
        ("in the state directory: thumbnails.sqlite", 1),
        // Threads are made when all others are busy, and kept.
        ("process: threads", 6),
        // Connections to the catalog are made when all others are busy, and kept; what is left open
        // by mistake comes to hundreds in a day.
        ("process: descriptors", 20),
    ]

    var description: String {
        figures.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
            .joined(separator: ", ")
    }

    static func spend(
        _ number: Int,
        _ length: Int,
        _ program: String,
        on drive: TestDrive
    ) async throws -> Day {
        let worker = drive.mount.worker ?? 0
        let words = "DAY, LENGTH = \(number), \(length)\nSTATE = '\(drive.mount.state)'\n"
        let processes = "PROCESSES = [\(drive.mount.pid ?? 0), \(worker)]\n"
        let output = try await drive.python(
            words + processes + program,
            within: .seconds(120 + length / 20)
        )
        let last = output.split(separator: "\n").last ?? ""
        return Day(
            number: number,
            figures: try JSONDecoder().decode([String: Int].self, from: Data(last.utf8))
        )
    }

    /// This day, with as much of the process as any until now had: what it has goes up and down.
    func after(_ earlier: Day?) -> Day {
        guard let earlier else { return self }
        var figures = figures
        for (name, before) in earlier.figures where name.hasPrefix("process") {
            figures[name] = max(figures[name] ?? 0, before)
        }
        return Day(number: number, figures: figures)
    }

    func compare(with first: Day, isSameProcess: Bool) {
        for name in Set(figures.keys).union(first.figures.keys).sorted() {
            if name.hasPrefix("process"), !isSameProcess { continue }
            let bound = Self.bounds.first { name.hasPrefix($0.prefix) }?.more ?? 0
            let (now, before) = (figures[name] ?? 0, first.figures[name] ?? 0)
            #expect(now <= before + bound, "\(name) on day \(number), and \(first.number) before")
        }
    }
}
