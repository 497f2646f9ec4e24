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
        #expect(!precedence.isDue(toUploads: true))
        await precedence.giveWay()
    }

    @Test func `programs go before everything, for a moment`() {
        precedence.noteUse()
        #expect(precedence.isDue(toUploads: true) && precedence.isDue(toUploads: false))
        clock.advance(by: .milliseconds(9))
        #expect(precedence.isDue(toUploads: false))
        clock.advance(by: .milliseconds(1))
        #expect(!precedence.isDue(toUploads: true))
    }

    @Test func `uploads go before comparisons, and wait for no other upload`() {
        precedence.noteUpload()
        #expect(precedence.isDue(toUploads: true) && !precedence.isDue(toUploads: false))
        clock.advance(by: .milliseconds(10))
        #expect(!precedence.isDue(toUploads: true))
    }

    @Test func `comparisons go on while a program waits for listings, and uploads do not`() async {
        precedence.noteUse()
        precedence.noteUpload()
        precedence.noteListing()
        #expect(!precedence.isDue(toUploads: true) && precedence.isDue(toUploads: false))
        await precedence.giveWay()
        clock.advance(by: .milliseconds(200))
        precedence.noteUse()
        #expect(precedence.isDue(toUploads: true))
    }

    @Test func `what gives way is held back and not stopped`() async {
        let busy = Precedence(clocks: .system)
        let program = Task {
            while !Task.isCancelled {
                busy.noteUse()
                try? await Task.sleep(for: .milliseconds(1))
            }
        }
        await busy.giveWay()
        program.cancel()
    }
}
