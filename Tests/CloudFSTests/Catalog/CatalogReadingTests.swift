import Dispatch
import Testing

@testable import CloudFS

/// Reads beside transactions.
@Suite struct CatalogReadingTests {
    @Test(arguments: [true, false])
    func `few rows are read at once while somebody writes for long`(isMarked: Bool) async throws {
        let fixture = try CatalogFixture()
        let id = try fixture.addFile("file")
        let catalog = fixture.catalog
        func size() throws -> Int64 { try catalog.readFew { try $0.existing(id).item.size } }
        #expect(try size() == 0)
        let pool = BlockingPool(name: "writer", width: 1)
        let (hasBegun, mayEnd) = (Signal(), DispatchSemaphore(value: 0))
        async let writing: Void = pool.run {
            try catalog.write(isLong: isMarked) { writer in
                try writer.setSize(7, of: id)
                hasBegun.raise()
                mayEnd.wait()
            }
        }
        await hasBegun.wait()
        while !catalog.isBusy { await Task.yield() }
        #expect(try size() == 0)
        mayEnd.signal()
        try await writing
        #expect(!catalog.isBusy)
        #expect(try size() == 7)
    }
}
