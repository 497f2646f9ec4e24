import Dispatch
import Foundation
import Testing

/// The faults that `scripts/sanitize` makes on purpose before it believes a sanitizer.
///
/// Without `CLOUDFS_CANARY` nothing is done wrong, and the script is compared with this.
@Suite struct SanitizerCanaryTests {
    private enum Canary: String, CaseIterable {
        case thread
        case address
    }

    @Test func `each sanitizer has a fault that it must report`() throws {
        if let name = ProcessInfo.processInfo.environment["CLOUDFS_CANARY"] {
            let canary = try #require(Canary(rawValue: name), "there is no canary \(name)")
            switch canary {
            case .thread: Self.raceOnPurpose()
            case .address: Self.useAfterFreeOnPurpose()
            }
            return
        }
        let script = try #require(
            try ProjectText.all(under: "scripts", withExtensions: [""])
                .first { $0.path == "scripts/sanitize" },
            "scripts/sanitize is missing"
        )
        let line = try #require(
            script.lines.first { $0.hasPrefix("kinds=(") },
            "the script names no sanitizers"
        )
        let kinds = line.dropFirst("kinds=(".count).dropLast().split(separator: " ")
        #expect(kinds.map(String.init) == Canary.allCases.map(\.rawValue))
        #expect(script.text.contains("CLOUDFS_CANARY=$kind run_tests"))
        #expect(script.text.contains("--filter SanitizerCanaryTests"))
    }

    @Test func `every suppression says why`() throws {
        let files = try ProjectText.all(under: "Tests/Sanitizers", withExtensions: ["supp"])
        try #require(!files.isEmpty)
        for file in files {
            var isExplained = false
            for (index, line) in file.lines.enumerated() {
                if line.isEmpty || line.hasPrefix("#") {
                    isExplained = line.hasPrefix("#")
                } else {
                    #expect(isExplained, "\(file.path):\(index + 1) has no comment above")
                }
            }
        }
    }

    /// Two threads count in one place, with nothing between them, for long enough to meet.
    private static func raceOnPurpose() {
        let memory = UnsafeMutablePointer<Int>.allocate(capacity: 1)
        memory.initialize(to: 0)
        defer { memory.deallocate() }
        // As a number, because the compiler would not let two threads have the pointer.
        let address = UInt(bitPattern: memory)
        let ended = DispatchSemaphore(value: 0)
        let end = ContinuousClock.now + .milliseconds(500)
        for _ in 0..<2 {
            Thread.detachNewThread {
                let shared = UnsafeMutablePointer<Int>(bitPattern: address)
                while ContinuousClock.now < end { shared?.pointee += 1 }
                ended.signal()
            }
        }
        for _ in 0..<2 { ended.wait() }
    }

    private static func useAfterFreeOnPurpose() {
        let memory = UnsafeMutablePointer<Int>.allocate(capacity: 16)
        memory.initialize(repeating: 1, count: 16)
        memory.deallocate()
        print("read after it was given back: \(memory[3])")
    }
}
