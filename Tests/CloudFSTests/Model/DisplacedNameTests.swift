import Testing

@testable import CloudFS

@Suite struct DisplacedNameTests {
    private let item = ItemID(42)

    @Test(arguments: ["a", "-", "1-2", ".cloudfs-displaced-7-0-a", "ä b", "x.tar.gz"])
    func `the original comes back`(text: String) throws {
        let original = try ItemName(text)
        for number in [0, 1, 12_345] {
            let name = try DisplacedName.name(for: original, of: item, number: number)
            #expect(DisplacedName.original(of: name.bytes, item) == original)
            #expect(DisplacedName.original(of: name.bytes, ItemID(4)) == nil)
        }
    }

    @Test func `who is displaced again is still called the same`() throws {
        let once = try DisplacedName.name(for: ItemName("a"), of: item)
        let twice = try DisplacedName.name(for: once, of: item, number: 1)
        #expect(DisplacedName.original(of: twice.bytes, item) == (try ItemName("a")))
    }

    @Test func `of a long name the part stays that fits`() throws {
        let text = String(repeating: "ä", count: 127)
        let name = try DisplacedName.name(for: ItemName(text), of: ItemID(.max), number: .max)
        #expect(name.bytes.count <= ItemName.maximumByteCount)
        let kept = try #require(DisplacedName.original(of: name.bytes, ItemID(.max)))
        #expect(kept.bytes.count > 150)
        #expect(text.hasPrefix(kept.description))
    }

    @Test(arguments: [
        "", "a", ".cloudfs-displaced-42", ".cloudfs-displaced-42-", ".cloudfs-displaced-42-0",
        ".cloudfs-displaced-42-0-", ".cloudfs-displaced-42--a", ".cloudfs-displaced-42-x-a",
        ".cloudfs-displaced-42-0-..", ".cloudfs-displaced-421-0-a", "x.cloudfs-displaced-42-0-a",
    ])
    func `other names are none`(text: String) {
        #expect(DisplacedName.original(of: Array(text.utf8), item) == nil)
    }
}
