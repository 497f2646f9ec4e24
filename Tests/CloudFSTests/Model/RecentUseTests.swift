import Testing

@testable import CloudFS

@Suite struct RecentUseTests {
    private static func use(_ document: DocumentID, _ seconds: Int64) -> RecentUse {
        RecentUse(document: document, opened: Timestamp(seconds: seconds, nanoseconds: 0))
    }

    @Test func `of each document the latest use counts, and the latest of all are kept`() {
        let (one, two) = (DocumentID.random(), DocumentID.random())
        let merged = RecentUse.merged(
            [Self.use(one, 5), Self.use(two, 9)],
            [Self.use(one, 7), Self.use(two, 8)]
        )
        #expect(merged == [Self.use(two, 9), Self.use(one, 7)])
        let many = (0..<300).map { Self.use(.random(), $0) }
        let kept = RecentUse.merged(many, many)
        #expect(kept == Array(many.reversed().prefix(RecentUse.most)))
        #expect(RecentUse.text(of: kept).count < RecentUse.textLimit)
    }

    @Test func `merging gives the same in any order`() {
        let uses = (0..<50).map { Self.use(.random(), $0 % 3) }
        let merged = RecentUse.merged(uses, [])
        #expect(RecentUse.merged([], uses.shuffled()) == merged)
        #expect(RecentUse.merged(Array(uses[..<20]), Array(uses[10...].reversed())) == merged)
    }

    @Test func `a text is what it was made of`() {
        let uses = RecentUse.merged((0..<9).map { Self.use(.random(), $0 * 1_000) }, [])
        let now = Timestamp(seconds: 8_000, nanoseconds: 5)
        #expect(RecentUse.uses(in: RecentUse.text(of: uses), now: now) == uses)
    }

    @Test func `lines that make no sense are left out, and nothing is in the future`() {
        let document = DocumentID.random()
        let text = """
            \(document) 99999999999

            \(document)
            x 5
            \(document) -5
            \(document) 5 6
            \(document) 99999999999999999999
            \u{0}\u{fffd}
            """
        let uses = RecentUse.uses(in: Array(text.utf8) + [0xff], now: Timestamp(nanoseconds: 7))
        #expect(uses == [Self.use(document, 0)])
        let endless = Array(repeating: Array("\(document) 1\n".utf8), count: 5_000).flatMap { $0 }
        #expect(RecentUse.uses(in: endless, now: .init(nanoseconds: 0)).count == RecentUse.most)
    }
}
