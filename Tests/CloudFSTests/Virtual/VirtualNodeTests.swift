import Testing

@testable import CloudFS

@Suite struct VirtualNodeTests {
    private static let samples: [VirtualNode] =
        [.top, .tag(1), .tag(1 << 40), .search(1), .search(1 << 40)]
        + VirtualFolder.allCases.map { .folder($0) }
        + [1, 2, 1 << 50].flatMap { id in
            [.link(ItemID(id), depth: 2), .link(ItemID(id), depth: 3)]
        }

    @Test func `a number says all there is to know`() {
        for node in Self.samples { #expect(VirtualNode(node.id) == node) }
        #expect(Set(Self.samples.map(\.id)).count == Self.samples.count)
    }

    @Test func `no item has such a number, and no other number is one`() {
        for node in Self.samples {
            #expect(node.id.isVirtual)
            #expect(node.id.rawValue > 1 << 61)
        }
        for raw: Int64 in [1, 2, 1 << 40, -1, -2, .min, (1 << 62) - 1] {
            #expect(!ItemID(raw).isVirtual)
            #expect(VirtualNode(ItemID(raw)) == nil)
        }
        let top = VirtualNode.top.id.rawValue
        for raw in [
            top + 1, top | 60 << 56, top | 1 << 56, top | 1 << 56 | 99, top | 2 << 56,
            top | 5 << 56,
        ] {
            #expect(VirtualNode(ItemID(raw)) == nil, "\(raw)")
        }
    }

    @Test func `folders are found by their names`() throws {
        for folder in VirtualFolder.allCases {
            #expect(VirtualFolder(name: try ItemName(folder.name)) == folder)
        }
        #expect(VirtualFolder(name: try ItemName("other")) == nil)
    }

    @Test(arguments: ["red", "big one", "a/b", "100%", "%2F", ".", "..", "日本"])
    func `a tag's folder has a name that leads back to it`(tag: String) throws {
        let bytes = try #require(EscapedName.name(of: tag))
        let name = try ItemName(bytes)
        #expect(EscapedName.text(of: name) == tag)
    }

    @Test(arguments: ["%", "%2", "%zz", "%61", "%2f"])
    func `a name that no tag has is none`(text: String) throws {
        #expect(EscapedName.text(of: try ItemName(text)) == nil)
    }

    @Test func `a tag that is too long for a name has no folder`() {
        #expect(EscapedName.name(of: String(repeating: "/", count: 100)) == nil)
    }
}
