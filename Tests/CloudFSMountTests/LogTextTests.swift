import Testing

@testable import cloudfs_mount

/// What a name can do to a line of the log: nothing.
@Suite struct LogTextTests {
    @Test(arguments: [
        ("plain", "plain"), ("ünïcode", "ünïcode"), ("", #""""#), ("two words", #""two words""#),
        ("a\"b\\c", #""a\"b\\c""#), ("a\nlevel=error", #""a\nlevel=error""#),
        ("\u{1b}[2J", #""\u{1b}[2J""#), ("\u{9b}2J", #""\u{9b}2J""#),
        ("txt.\u{202e}exe", #""txt.\u{202e}exe""#), ("a\u{2028}b", #""a\u{2028}b""#),
    ])
    func `a value is one word of one line, and steers no terminal`(text: String, line: String) {
        #expect(LogfmtHandler.quoted(text) == line)
    }
}
