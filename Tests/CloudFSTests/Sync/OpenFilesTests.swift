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
            state.isCachedByKernel = true
            _ = try fixture.files.reload(&state, id)
            #expect(!state.isCachedByKernel)
        }
        try fixture.files.release(file)
    }
}
