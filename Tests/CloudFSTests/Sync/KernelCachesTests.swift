import Testing

@testable import CloudFS

@Suite struct KernelCachesTests {
    private let id = ItemID(7)
    private let other = ItemID(8)

    private func use(_ id: ItemID, of caches: KernelCaches) -> Bool {
        defer { caches.noteClosed(id) }
        return caches.noteOpened(id)
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

    @Test func `nothing is kept before a first handle was closed, or if it changed meanwhile`() {
        let caches = KernelCaches()
        #expect(!caches.noteOpened(id))
        #expect(!caches.noteOpened(id))
        caches.noteChanged(id)
        caches.noteClosed(id)
        #expect(!caches.noteOpened(id))
        caches.noteClosed(id)
        #expect(caches.noteOpened(id))
    }

    @Test func `a folder is not kept when a name in it came, went or changed`() throws {
        let name = try ItemName("name")
        for change in [
            ItemChange.entryAppeared(parent: id, name: name),
            .entryReplaced(parent: id, name: name),
            .entryVanished(parent: id, name: name, item: other, isFolder: false),
        ] {
            let caches = KernelCaches()
            _ = use(id, of: caches)
            _ = use(other, of: caches)
            caches.noteChanged([change])
            #expect(!caches.noteOpened(id))
            #expect(caches.noteOpened(other))
        }
    }
}
