import Foundation

/// How often each thread of some processes has gone to sleep, and so was or will be woken.
struct WakeUps {
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
