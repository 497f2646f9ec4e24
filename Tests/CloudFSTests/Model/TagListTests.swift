import Testing

@testable import CloudFS

@Suite struct TagListTests {
    private func tags(_ text: String) -> TagList { TagList(attribute: Array(text.utf8)) }

    @Test func `tags are separated by commas, trimmed, and each there once`() {
        #expect(tags("red, big one ,,red,\tblue\n").names == ["red", "big one", "blue"])
        #expect(tags("").names.isEmpty)
        #expect(TagList(attribute: [0xff, 0x2c, 0x61]).names.isEmpty)
        #expect(tags("a\0b,c").names == ["c"])
        #expect(tags(String(repeating: "x", count: 256)).names.isEmpty)
        #expect(tags("red,blue").bytes == Array("red,blue".utf8))
    }

    @Test func `no more tags are taken notice of than a person gives`() {
        let many = (0..<10_000).map { "t\($0)" }.joined(separator: ",")
        #expect(tags(many).names.count == TagList.mostTags)
    }

    @Test(arguments: [
        ("", "a", "b", "b,a"),
        ("a", "a", "", ""),
        ("a,b", "a", "b", ""),
        ("a,b", "a,b,c", "a,b,d", "a,b,d,c"),
        ("a", "", "a,b", "b"),
        ("a,b", "b,a", "a,b", "a,b"),
        ("", "a", "a", "a"),
    ])
    func `what one side added is there, what one side took away is not`(
        base: String,
        ours: String,
        theirs: String,
        merged: String
    ) {
        let found = TagList.merged(base: tags(base), ours: tags(ours), theirs: tags(theirs))
        #expect(found == tags(merged))
    }

    @Test func `a moment is written in UTC`() {
        #expect(Timestamp(seconds: 1_795_185_005, nanoseconds: 9).text == "2026-11-20T14:30:05Z")
        #expect(Timestamp(seconds: 0, nanoseconds: 0).text == "1970-01-01T00:00:00Z")
        #expect(Timestamp(seconds: -1, nanoseconds: 0).text == "1969-12-31T23:59:59Z")
    }
}
