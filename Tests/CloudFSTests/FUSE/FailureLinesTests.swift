import Testing

@testable import CloudFS

/// What fails over and over does not fill the log.
@Suite struct FailureLinesTests {
    @Test func `of what fails alike one line a second is written, which counts the others`() {
        let lines = FailureLines()
        #expect(lines.note("open", .offline, at: .zero) == 0)
        for _ in 0..<1_000 {
            #expect(lines.note("open", .offline, at: .milliseconds(999)) == nil)
        }
        #expect(lines.note("open", .timedOut, at: .milliseconds(999)) == 0)
        #expect(lines.note("read", .offline, at: .milliseconds(999)) == 0)
        #expect(lines.note("open", .offline, at: .seconds(1)) == 1_000)
        #expect(lines.note("open", .offline, at: .milliseconds(1_500)) == nil)
        #expect(lines.note("open", .offline, at: .seconds(60)) == 1)
    }
}
