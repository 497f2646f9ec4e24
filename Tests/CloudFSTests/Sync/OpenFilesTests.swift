import Testing

@testable import CloudFS

@Suite struct OpenFilesTests {
    @Test func `pages of a content that was replaced are not those of the new one`() throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        try fixture.catalog.write { writer in
            try writer.setBase(CatalogFixture.base(of: id, named: "file", version: "1"))
        }
        let file = try fixture.files.acquire(id)
        try file.state.withLock { state throws(CloudFSError) in
            _ = fixture.files.caches.noteOpened(id)
            fixture.files.caches.noteClosed(id)
            _ = try fixture.files.reload(&state, id)
            #expect(!fixture.files.caches.noteOpened(id))
        }
        try fixture.files.release(file)
    }
}
