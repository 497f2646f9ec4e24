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
        untold.noteTold([1], asOf: before)
        #expect(untold.contains(1) && untold.contains(2))
        untold.noteTold([1], asOf: untold.mark)
        #expect(!untold.contains(1) && untold.contains(2))
        untold.noteTold([1, 2], asOf: untold.mark)
        #expect(!untold.contains(1) && !untold.contains(2))
    }

    @Test func `of more changes than are remembered the newer half stays`() {
        let untold = Untold<Int>(capacity: 100)
        untold.beginTelling()
        for key in 0..<100 { untold.note([key]) }
        #expect(untold.contains(0) && untold.contains(99))
        untold.note([100])
        #expect(!untold.contains(0) && untold.contains(51) && untold.contains(100))
    }
}
