import Testing

@testable import CloudFS

@Suite struct UntoldTests {
    @Test func `a change is untold until the kernel is told what was read after it`() {
        let untold = Untold<Int>()
        untold.note([1])
        #expect(!untold.contains(1), "there is no kernel")
        untold.beginTelling()
        untold.note([1])
        let before = untold.mark
        untold.note([1, 2])
        untold.noteTold(1, asOf: before)
        #expect(untold.contains(1) && untold.contains(2))
        untold.noteTold(1, asOf: untold.mark)
        #expect(!untold.contains(1) && untold.contains(2))
        untold.noteTold(2, asOf: untold.mark)
        #expect(!untold.contains(1) && !untold.contains(2))
    }

    @Test func `of more changes than are remembered the newer ones stay`() {
        let untold = Untold<Int>(capacity: 100)
        untold.beginTelling()
        for key in 0..<200 { untold.note([key]) }
        #expect((0..<200).allSatisfy(untold.contains))
        untold.note([200])
        #expect(!untold.contains(0) && untold.contains(100) && untold.contains(200))
        untold.note([100])
        untold.noteTold(100, asOf: untold.mark - 1)
        #expect(untold.contains(100))
        untold.noteTold(100, asOf: untold.mark)
        #expect(!untold.contains(100))
    }
}
