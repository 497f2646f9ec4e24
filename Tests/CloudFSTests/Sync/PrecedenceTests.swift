import CloudFSTestSupport
import Testing

@testable import CloudFS

@Suite struct PrecedenceTests {
    private let clock = ManualClock()
    private let precedence: Precedence

    init() {
        let clock = clock
        precedence = Precedence(
            clocks: Clocks(now: { Timestamp(nanoseconds: 0) }, elapsed: { clock.now.offset })
        )
    }

    @Test func `nobody gives way while nothing is asked for`() async {
        #expect(!precedence.isDue(for: .comparison))
        await precedence.giveWay(with: .comparison)
    }

    @Test func `programs go before everything, for a moment`() {
        precedence.noteUse()
        #expect(precedence.isDue(for: .comparison) && precedence.isDue(for: .upload))
        clock.advance(by: .milliseconds(9))
        #expect(precedence.isDue(for: .upload))
        clock.advance(by: .milliseconds(1))
        #expect(!precedence.isDue(for: .comparison))
    }

    @Test func `uploads go before comparisons, and wait for no other upload`() {
        precedence.noteUpload()
        #expect(precedence.isDue(for: .comparison) && !precedence.isDue(for: .upload))
        clock.advance(by: .milliseconds(10))
        #expect(!precedence.isDue(for: .comparison))
    }

    @Test func `comparisons go on while a program waits for listings, and uploads do not`() async {
        precedence.noteUse()
        precedence.noteUpload()
        precedence.noteListing()
        #expect(!precedence.isDue(for: .comparison) && precedence.isDue(for: .upload))
        await precedence.giveWay(with: .comparison)
        clock.advance(by: .milliseconds(200))
        precedence.noteUse()
        #expect(precedence.isDue(for: .comparison))
    }

    @Test func `what listings left out is asked for after them`() {
        precedence.noteListing()
        #expect(precedence.isDue(for: .closeLook) && !precedence.isDue(for: .comparison))
        clock.advance(by: .milliseconds(200))
        #expect(!precedence.isDue(for: .closeLook))
        precedence.beginWaiting(for: ItemID(7))
        #expect(precedence.isDue(for: .closeLook))
        precedence.endWaiting(for: ItemID(7))
        for note in [precedence.noteUse, precedence.noteUpload] {
            note()
            #expect(precedence.isDue(for: .closeLook))
            clock.advance(by: .milliseconds(10))
            #expect(!precedence.isDue(for: .closeLook))
        }
    }

    @Test func `a comparison that a program waits for is not held back by it`() {
        precedence.noteUse()
        let (folder, other) = (ItemID(7), ItemID(8))
        for _ in 0..<2 { precedence.beginWaiting(for: folder) }
        #expect(!precedence.isDue(for: .comparison) && precedence.isDue(for: .upload))
        precedence.endWaiting(for: folder)
        #expect(precedence.isAwaited(folder) && !precedence.isAwaited(other))
        precedence.endWaiting(for: folder)
        #expect(!precedence.isAwaited(folder))
        #expect(precedence.isDue(for: .comparison))
    }

    @Test func `what gives way is held back and not stopped`() async {
        let busy = Precedence(clocks: .system)
        let program = Task {
            while !Task.isCancelled {
                busy.noteUse()
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
        await busy.giveWay(with: .comparison)
        program.cancel()
    }
}
