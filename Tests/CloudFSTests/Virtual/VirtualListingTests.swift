import Testing

@testable import CloudFS

@Suite struct VirtualListingTests {
    private func member(_ id: Int64, _ name: String, low: UInt64? = nil) -> VirtualMember {
        VirtualMember(
            item: ItemID(id),
            document: DocumentID(high: 7, low: low ?? UInt64(id)),
            name: Array(name.utf8)
        )
    }

    private func names(_ listing: VirtualListing) -> [String] {
        listing.entries.map { String(decoding: $0.name, as: UTF8.self) }
    }

    @Test func `of items of one name all but the first are marked`() {
        let listing = VirtualListing([
            member(9, "a.txt"), member(3, "a.txt"), member(5, "b"), member(11, "b"),
        ])
        #expect(names(listing) == ["a.txt", "b", "a (00000009).txt", "b (0000000b)"])
        for entry in listing.entries { #expect(listing.item(named: entry.name) == entry.item) }
        #expect(listing.item(named: Array("c".utf8)) == nil)
    }

    @Test func `a mark that is a name already becomes longer`() {
        let listing = VirtualListing([
            member(1, "a (00000003)"), member(2, "a"), member(3, "a"),
        ])
        #expect(names(listing) == ["a (00000003)", "a", "a (00000000000000070000000000000003)"])
    }

    @Test func `every name is one, however long the item's is`() throws {
        let long = String(repeating: "ü", count: 127)
        let listing = VirtualListing([
            member(1, long), member(2, long), member(3, long + "x", low: 2),
        ])
        #expect(listing.entries.count == 3)
        for entry in listing.entries {
            _ = try ItemName(entry.name)
            #expect(String(validating: entry.name, as: UTF8.self) != nil)
        }
    }

    @Test func `a stream goes on behind any number`() {
        let listing = VirtualListing((1...50).map { member($0 * 2, "n\($0)") })
        for position in Int64(0)...101 {
            let rest = listing.entries(after: ItemID(position))
            #expect(rest.map(\.item.rawValue) == (1...50).map { $0 * 2 }.filter { $0 > position })
        }
    }
}
