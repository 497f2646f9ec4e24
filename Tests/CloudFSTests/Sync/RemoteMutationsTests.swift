import Testing

@testable import CloudFS

@Suite struct RemoteMutationsTests {
    private static let place = NamePlace(parent: .root, name: [0x61])

    @Test func `what is being changed is blurred, item and place`() {
        let mutations = RemoteMutations()
        let mark = mutations.beginListing()
        #expect(!mutations.blurs(ItemID(5), since: mark))
        mutations.begin(ItemID(5), at: [Self.place], isInPlace: false)
        #expect(mutations.blurs(ItemID(5), since: mark))
        #expect(mutations.blurs(Self.place, since: mark))
    }

    @Test func `a listing that began before the end is blurred, a later one is not`() {
        let mutations = RemoteMutations()
        let before = mutations.beginListing()
        mutations.begin(ItemID(5), at: [Self.place], isInPlace: false)
        mutations.end(ItemID(5), at: [Self.place], isInPlace: false)
        let after = mutations.beginListing()
        #expect(mutations.blurs(ItemID(5), since: before))
        #expect(mutations.blurs(Self.place, since: before))
        #expect(!mutations.blurs(ItemID(5), since: after))
        #expect(!mutations.blurs(Self.place, since: after))
    }

    @Test func `what another device writes on meanwhile is blurred for listings under way`() {
        let mutations = RemoteMutations()
        mutations.noteWrittenElsewhere(ItemID(5))
        let before = mutations.beginListing()
        #expect(!mutations.blurs(ItemID(5), since: before))
        mutations.noteWrittenElsewhere(ItemID(5))
        #expect(mutations.blurs(ItemID(5), since: before))
        #expect(!mutations.blursPath(of: ItemID(5), since: before))
        #expect(!mutations.isActive(ItemID(5)))
        #expect(!mutations.blurs(ItemID(5), since: mutations.beginListing()))
    }

    @Test func `what took over a place is blurred with it`() {
        let mutations = RemoteMutations()
        let mark = mutations.beginListing()
        #expect(!mutations.blurs(ItemID(6), at: Self.place, since: mark))
        mutations.begin(ItemID(5), at: [Self.place], isInPlace: false)
        mutations.end(ItemID(5), at: [Self.place], isInPlace: false)
        #expect(mutations.blurs(ItemID(6), at: Self.place, since: mark))
        #expect(!mutations.blurs(ItemID(6), at: nil, since: mark))
        #expect(mutations.blurs(ItemID(5), at: nil, since: mark))
    }

    /// While a drive is busy, something is written on some folder above all the time.
    @Test func `what is only written on does not blur the path of what is in it`() {
        let mutations = RemoteMutations()
        let mark = mutations.beginListing()
        mutations.begin(ItemID(5), at: [Self.place], isInPlace: true)
        #expect(mutations.blurs(ItemID(5), since: mark))
        #expect(!mutations.blursPath(of: ItemID(5), since: mark))
        mutations.begin(ItemID(5), at: [Self.place], isInPlace: false)
        mutations.end(ItemID(5), at: [Self.place], isInPlace: true)
        #expect(mutations.blursPath(of: ItemID(5), since: mark))
        mutations.end(ItemID(5), at: [Self.place], isInPlace: false)
        #expect(mutations.blursPath(of: ItemID(5), since: mark))
        #expect(!mutations.blursPath(of: ItemID(5), since: mutations.beginListing()))
    }
}
