import Glibc
import Synchronization
import Testing

@testable import CloudFS

/// Who waits for whom at the connection that writes.
struct CatalogTurnsTests {
    private static let threads = 8
    private static let rounds = 51

    @Test func `a program waits for one transaction of the engine, not for one of each thread`()
        async throws
    {
        let fixture = try CatalogFixture()
        let catalog = fixture.catalog
        let id = try fixture.addFile("file")
        let engine = Engine()
        let pool = BlockingPool(name: "engine", width: Self.threads)
        var waits: [Int] = []
        try await withThrowingTaskGroup(of: Void.self) { group in
            for _ in 0..<Self.threads {
                group.addTask {
                    try await pool.run {
                        while !engine.isOver.load(ordering: .relaxed) {
                            try catalog.write { writer in
                                for _ in 0..<8 { _ = try writer.reader.existing(id) }
                                engine.done.add(1, ordering: .relaxed)
                            }
                        }
                    }
                }
            }
            defer { engine.isOver.store(true, ordering: .relaxed) }
            // On a thread that is none of a pool's, as those are that answer programs.
            waits = try await onOwnThread {
                while engine.done.load(ordering: .relaxed) < 100 { sched_yield() }
                return try (0..<Self.rounds).map { _ in
                    let before = engine.done.load(ordering: .relaxed)
                    return try catalog.write { _ in engine.done.load(ordering: .relaxed) } - before
                }
            }
        }
        // One that runs, and one that waits; more only if this thread was held up before it asked.
        let median = waits.sorted()[Self.rounds / 2]
        #expect(median <= 2, "\(waits)")
    }

    private final class Engine: Sendable {
        let done = Atomic(0)
        let isOver = Atomic(false)
    }

    private func onOwnThread<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        try await withCheckedThrowingContinuation { continuation in
            OwnThread.start("program") { continuation.resume(with: Result(catching: work)) }
        }
    }
}
