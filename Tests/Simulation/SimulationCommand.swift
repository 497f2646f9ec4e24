import CSimulation
import Foundation
import Glibc

@testable import CloudFS

/// Runs seeds, one after the other, and tells what they found.
struct SimulationCommand {
    private var first: UInt64 = 1
    private var count = 1_000
    private var seconds = 1_000_000
    private var isTraced = false
    private var folder = FileManager.default.temporaryDirectory.path
    private var limits = Simulation.Limits()
    private var step: UInt64 = 1
    private var isVerbose = false
    private var keepsFolders = false
    /// How many seeds are run twice, to see that they can be repeated.
    private static let repeated = 3
    /// Seeds that are run instead, whatever else was said.
    private var listed: [UInt64]?

    init(_ arguments: some Sequence<String>) {
        var rest = Array(arguments)[...]
        func number(_ text: String?) -> Int { text.flatMap { Int($0) } ?? 0 }
        while let argument = rest.popFirst() {
            switch argument {
            case "--from": first = UInt64(number(rest.popFirst()))
            case "--seeds": count = number(rest.popFirst())
            case "--step": step = UInt64(max(1, number(rest.popFirst())))
            case "--seconds": seconds = number(rest.popFirst())
            case "--folder": folder = rest.popFirst() ?? folder
            case "--devices": limits.devices = number(rest.popFirst())
            case "--operations": limits.operations = number(rest.popFirst())
            case "--no-crashes": limits.hasCrashes = false
            case "--no-faults": limits.hasFaults = false
            case "--no-partitions": limits.hasPartitions = false
            case "--list": listed = Self.seeds(in: rest.popFirst() ?? "")
            case "--trace": isTraced = true
            case "--verbose": isVerbose = true
            case "--keep": keepsFolders = true
            default:
                Swift.print("simulation: unknown argument \(argument); see scripts/simulate --help")
                exit(EX_USAGE)
            }
        }
    }

    /// The seeds of a file: one in each line, and behind it what it has found.
    private static func seeds(in path: String) -> [UInt64] {
        guard let text = try? String(contentsOfFile: path, encoding: .utf8) else { return [] }
        return text.split(separator: "\n").compactMap { line in
            line.split(separator: " ").first.flatMap { UInt64($0) }
        }
    }

    /// - Returns: The exit status: 1 if there was a finding.
    func run() -> Int32 {
        do {
            try FileManager.default.createDirectory(
                atPath: folder,
                withIntermediateDirectories: true
            )
        } catch {
            print("simulation: \(folder) cannot be made: \(error)")
            return 1
        }
        Scheduler.takeOver()
        let arms = FaultPoint.named.map { point in
            point.arm(Fault(effect: .tell { Life.current?.reachFault(point.name) }))
        }
        defer { for arm in arms { arm.disarm() } }
        let begin = csimulation_real_time()
        var totals: [String: Int] = [:]
        var elapsed = Duration.zero
        var steps = 0
        var failed: [UInt64] = []
        var done = 0
        for index in 0..<(listed?.count ?? count) {
            if csimulation_real_time() - begin >= Int64(seconds) * 1_000_000_000 { break }
            let seed = listed?[index] ?? first &+ UInt64(index) &* step
            let outcome = run(seed, isTraced: isTraced)
            if index < Self.repeated, !isTraced, run(seed, isTraced: false).digest != outcome.digest
            {
                failed.append(seed)
                print("seed \(seed) is not the same when it is run again")
            }
            if isVerbose { print("seed \(seed): \(String(outcome.digest, radix: 16))") }
            done += 1
            totals.merge(outcome.counts) { $0 + $1 }
            elapsed += outcome.elapsed
            steps += outcome.steps
            if isTraced { for line in Trace.lines { print(line) } }
            guard !outcome.findings.isEmpty else { continue }
            failed.append(seed)
            totals["findings", default: 0] += outcome.findings.count
            print("seed \(seed): \(outcome.findings.count) findings")
            for finding in outcome.findings.prefix(10) { print("    \(finding)") }
        }
        let real = Double(csimulation_real_time() - begin) / 1e9
        print("seeds=\(done) failed=\(failed.count) seconds=\(String(format: "%.1f", real))")
        print("virtual-seconds=\(elapsed.components.seconds) steps=\(steps)")
        for (what, number) in totals.sorted(by: { $0.key < $1.key }) {
            print("\(what.split(separator: " ").joined(separator: "-"))=\(number)")
        }
        return failed.isEmpty ? 0 : 1
    }

    /// Prints a line at once, however this ends.
    private func print(_ line: String) {
        FileHandle.standardOutput.write(Data((line + "\n").utf8))
    }

    private func run(_ seed: UInt64, isTraced: Bool) -> Simulation.Outcome {
        Trace.begin(isWanted: isTraced)
        let folder = "\(folder)/seed-\(seed)"
        let outcome = Simulation(seed: seed, limits: limits, folder: folder).run()
        if !keepsFolders { try? FileManager.default.removeItem(atPath: folder) }
        return outcome
    }
}
