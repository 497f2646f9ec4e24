import Testing

@testable import CloudFS

@Suite struct KernelCachesTests {
    private let id = ItemID(7)
    private let other = ItemID(8)

    @Test func `what the kernel kept is right from the second open until a change`() {
        let caches = KernelCaches()
        #expect(!caches.noteOpened(id))
        #expect(caches.noteOpened(id))
        caches.noteChanged(other)
        #expect(caches.noteOpened(id))
        caches.noteChanged(id)
        #expect(!caches.noteOpened(id))
        #expect(caches.noteOpened(id))
    }

    @Test func `a folder is not kept when a name in it came, went or changed`() throws {
        let name = try ItemName("name")
        for change in [
            ItemChange.entryAppeared(parent: id, name: name),
            .entryReplaced(parent: id, name: name),
            .entryVanished(parent: id, name: name, item: other),
        ] {
            let caches = KernelCaches()
            _ = caches.noteOpened(id)
            _ = caches.noteOpened(other)
            caches.noteChanged([change])
            #expect(!caches.noteOpened(id))
            #expect(caches.noteOpened(other))
        }
    }
}
