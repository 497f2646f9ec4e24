import Testing

@testable import CloudFS

@Suite struct ControlAnswerTests {
    @Test(arguments: [
        (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"), (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
    ])
    func `a date is written as HTTP wants it`(seconds: Int, text: String) {
        #expect(ControlAnswer.date(of: seconds) == text)
    }
}
