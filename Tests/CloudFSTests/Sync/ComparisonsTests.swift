import Testing

@testable import CloudFS

@Suite struct ComparisonsTests {
    private static let folder = ItemID(7)

    /// What comparisons come to.
    private var comparisons = Comparisons()

    private mutating func isHeld(_ folder: ItemID = folder) -> Bool {
        comparisons.holdsBack(folder)
    }

    private mutating func make(for needed: UInt64) -> [ItemID] {
        comparisons.noteMade(for: needed)
    }

    @Test mutating func `nothing is taken for gone before all is compared`() {
        let before = (comparisons.areCurrent, isHeld())
        #expect(before == (false, true))
        let due = make(for: comparisons.needed)
        #expect(due == [Self.folder])
        let after = (comparisons.areCurrent, isHeld(), isHeld(ItemID(8)))
        #expect(after == (true, false, false))
    }

    @Test mutating func `what is held back waits for no more than the next comparison`() {
        // Each is made necessary while the one before is made.
        for _ in 0..<5 {
            let first = comparisons.needed
            comparisons.need()
            let isHeldAtFirst = isHeld()
            let second = comparisons.needed
            let early = make(for: first)
            comparisons.need()
            let due = make(for: second)
            let isHeldStill = isHeld()
            #expect(isHeldAtFirst && early.isEmpty && due == [Self.folder])
            #expect(!isHeldStill && !comparisons.areCurrent)
        }
    }

    @Test mutating func `what nobody asks about again is told once, and forgotten`() {
        let wasHeld = isHeld()
        let due = make(for: comparisons.needed)
        comparisons.need()
        let later = make(for: comparisons.needed)
        #expect(wasHeld && due == [Self.folder] && later.isEmpty)
    }
}
