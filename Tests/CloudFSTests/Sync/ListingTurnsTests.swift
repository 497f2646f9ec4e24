import Synchronization
import Testing

@testable import CloudFS

/// How a listing shares the catalog with programs.
struct ListingTurnsTests {
    private static let count = 1_000

    @Test func `a listing is stored in small pieces while others write, and whole in the end`()
        async throws
    {
        let drive = try await QuietDrive(inCloud: (0..<Self.count).map { "many/f\($0)" })
        let catalog = drive.filesystem.catalog
        let folder = try #require(try catalog.read { try $0.item(at: [Array("many".utf8)])?.id })
        let steps = Steps()
        // It blocks its thread from the beginning to the end, of which tasks have two.
        let pool = BlockingPool(name: "writer", width: 1)
        async let writing: Void = pool.run {
            while !steps.areAll {
                // Nothing is changed, but a turn is needed.
                let known = try catalog.write { writer in
                    try writer.reader.children(of: folder, after: 0, limit: .max).count
                }
                steps.note(known)
            }
        }
        defer { steps.end() }
        try await drive.filesystem.ensureListed(folder, within: .seconds(30))
        steps.end()
        try await writing
        let (record, children) = try catalog.read { reader in
            (try reader.existing(folder), try reader.children(of: folder, after: 0, limit: .max))
        }
        #expect(record.isListed)
        #expect(children.count == Self.count)
        // A page of 1,000 items is four transactions when nobody waits.
        #expect(steps.between(0, Self.count) > 4)
    }

    /// How many items were known from time to time.
    private final class Steps: Sendable {
        private struct State {
            var seen: Set<Int> = []
            var areAll = false
        }

        private let state = Mutex(State())

        var areAll: Bool { state.withLock { $0.areAll } }

        func note(_ count: Int) { state.withLock { _ = $0.seen.insert(count) } }

        func end() { state.withLock { $0.areAll = true } }

        func between(_ least: Int, _ most: Int) -> Int {
            state.withLock { $0.seen.count { $0 > least && $0 < most } }
        }
    }
}
