import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct BackoffTests {
    @Test func `waits double up to the longest`() {
        let backoff = Backoff(first: .seconds(1), longest: .seconds(300))
        let ceilings = (1...11).map { backoff.ceiling(afterFailures: $0) }
        #expect(ceilings == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].map { .seconds($0) })
        #expect(backoff.ceiling(afterFailures: .max) == .seconds(300))
    }

    @Test func `full jitter spreads waits from nothing to the ceiling`() {
        let backoff = Backoff(first: .seconds(1), longest: .seconds(60))
        var random = SeededRandom(seed: 3)
        let waits = (0..<2000).map { _ in backoff.delay(afterFailures: 4, using: &random) }
        #expect(waits.allSatisfy { $0 >= .zero && $0 <= .seconds(8) })
        for quarter in 0..<4 {
            let range = Duration.seconds(quarter * 2)..<Duration.seconds(quarter * 2 + 2)
            #expect(waits.count { range.contains($0) } > 400)
        }
    }

    @Test func `the certain part of a wait is always waited`() {
        let backoff = Backoff(first: .seconds(4), longest: .seconds(60), certainPart: 0.5)
        var random = SeededRandom(seed: 3)
        let waits = (0..<500).map { _ in backoff.delay(afterFailures: 1, using: &random) }
        #expect(waits.allSatisfy { $0 >= .seconds(2) && $0 <= .seconds(4) })
    }
}
