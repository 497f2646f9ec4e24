import Foundation
import Synchronization

/// Lets few drives run at once, so that tests that wait do so beside each other and tests that
/// measure are alone.
actor DriveSlots {
    static let shared = DriveSlots(
        count: ProcessInfo.processInfo.environment["CLOUDFS_TEST_DRIVES"].flatMap(Int.init) ?? 4
    )

    private let count: Int
    private var free: Int
    private var waiting: [(need: Int, continuation: CheckedContinuation<Void, Never>)] = []

    init(count: Int) {
        self.count = count
        free = count
    }

    /// Runs `body` while it holds `slots` of the slots; those who came first go first.
    nonisolated func take(_ slots: Int, _ body: () async throws -> Void) async throws {
        let need = min(slots, count)
        await enter(need)
        do {
            try await body()
        } catch {
            await leave(need)
            throw error
        }
        await leave(need)
    }

    private func enter(_ need: Int) async {
        guard free < need || !waiting.isEmpty else {
            free -= need
            return
        }
        await withCheckedContinuation { waiting.append((need, $0)) }
    }

    private func leave(_ need: Int) {
        free += need
        while let first = waiting.first, first.need <= free {
            free -= first.need
            waiting.removeFirst()
            first.continuation.resume()
        }
    }
}

/// Remembers whether the test around it recorded an issue, so that its drive shows its log.
public final class IssueMark: Sendable {
    @TaskLocal public static var current: IssueMark?

    private let mark = Mutex(false)

    public init() {}

    public var isNoted: Bool { mark.withLock { $0 } }

    public func note() {
        mark.withLock { $0 = true }
    }
}
