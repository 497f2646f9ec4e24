import Testing

@testable import CloudFS

@Suite struct KernelCachesTests {
    private let id = ItemID(7)
    private let other = ItemID(8)

    private func use(_ id: ItemID, of caches: KernelCaches) -> Bool {
        defer { caches.noteUsed(id, by: 1) }
        return caches.noteOpened(id, by: 1)
    }

    @Test func `what the kernel kept is right from the second use until a change`() {
        let caches = KernelCaches()
        #expect(!use(id, of: caches))
        #expect(use(id, of: caches))
        caches.noteChanged(other)
        #expect(use(id, of: caches))
        caches.noteChanged(id)
        #expect(!use(id, of: caches))
        #expect(use(id, of: caches))
    }

    @Test func `nothing is kept before a first handle was used`() {
        let caches = KernelCaches()
        #expect(!caches.noteOpened(id, by: 1))
        #expect(!caches.noteOpened(id, by: 2))
        caches.noteUsed(id, by: 1)
        #expect(caches.noteOpened(id, by: 3))
    }

    @Test func `a handle from before a change tells nothing of those after it`() {
        let caches = KernelCaches()
        _ = caches.noteOpened(id, by: 1)
        caches.noteChanged(id)
        caches.noteUsed(id, by: 1)
        #expect(!caches.noteOpened(id, by: 2))
        caches.noteUsed(id, by: 1)
        #expect(!caches.noteOpened(id, by: 3))
        caches.noteUsed(id, by: 3)
        #expect(caches.noteOpened(id, by: 4))
    }

    @Test func `a folder is not kept when a name in it came, went or changed`() throws {
        let name = try ItemName("name")
        for change in [
            ItemChange.entryAppeared(parent: id, name: name),
            .entryReplaced(parent: id, name: name),
            .entryVanished(
                parent: id,
                name: name,
                item: other,
                isFolder: false,
                isGone: true
            ),
        ] {
            let caches = KernelCaches()
            _ = use(id, of: caches)
            _ = use(other, of: caches)
            caches.noteChanged([change])
            #expect(!caches.noteOpened(id, by: 2))
            #expect(caches.noteOpened(other, by: 2))
        }
    }
}
