import Testing

@testable import CloudFS

@Suite struct FailedListingsTests {
    private static let one = ItemID(2)
    private static let other = ItemID(3)

    @Test func `nothing is tried again that did not fail`() {
        let failed = FailedListings(limit: 10)
        #expect(failed.delay(at: .zero) == nil)
        #expect(failed.takeDue(at: .seconds(1_000)) == ([], false))
    }

    @Test func `what fails again and again is tried later, and at least once a minute`() throws {
        let failed = FailedListings(limit: 10)
        var now = Duration.zero
        var delays: [Duration] = []
        for _ in 0..<20 {
            _ = failed.add([Self.one], at: now)
            let delay = try #require(failed.delay(at: now))
            #expect(failed.takeDue(at: now + delay / 2) == ([], false))
            now += delay
            #expect(failed.takeDue(at: now) == ([Self.one], false))
            #expect(failed.delay(at: now) == nil, "it is being tried")
            delays.append(delay)
        }
        #expect(delays.allSatisfy { $0 >= .milliseconds(125) && $0 <= .seconds(60) })
        #expect(try #require(delays.first) <= .milliseconds(250))
        #expect(try #require(delays.last) >= .seconds(30))
    }

    @Test func `one that fails for ever is not tried more often because others do not`() {
        let failed = FailedListings(limit: 10)
        for _ in 0..<9 { _ = failed.add([Self.one], at: .zero) }
        _ = failed.add([Self.other], at: .zero)
        #expect(failed.takeDue(at: .seconds(1)) == ([Self.other], false))
        failed.forget(Self.other)
        failed.noteCompared()
        #expect(failed.takeDue(at: .seconds(29)) == ([], false))
        #expect(failed.takeDue(at: .seconds(60)) == ([Self.one], false))
        failed.forget(Self.one)
        _ = failed.add([Self.one], at: .seconds(60))
        #expect(failed.takeDue(at: .seconds(61)) == ([Self.one], false), "it was listed meanwhile")
    }

    @Test func `a connection has everything tried at once that waits`() {
        let failed = FailedListings(limit: 10)
        for _ in 0..<9 { _ = failed.add([Self.one, Self.other], at: .zero) }
        for _ in 0..<9 { failed.addAll(at: .zero) }
        failed.noteConnected(at: .seconds(1))
        #expect(failed.takeDue(at: .seconds(1)) == ([Self.one, Self.other], true))
        failed.noteConnected(at: .seconds(2))
        #expect(failed.takeDue(at: .seconds(100)) == ([], false), "they are being tried")
    }

    @Test func `more than can be remembered is everything`() {
        let failed = FailedListings(limit: 10)
        #expect(failed.add((2...12).map { ItemID($0) }, at: .zero))
        #expect(!failed.isEmpty)
        #expect(failed.takeDue(at: .seconds(1)) == ([], true))
        failed.noteCompared()
        #expect(failed.delay(at: .seconds(1)) == nil)
    }
}
