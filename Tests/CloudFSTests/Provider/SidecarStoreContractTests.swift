import CloudFSTestSupport
import Testing

@testable import CloudFS

/// The written contract of `SidecarStore`, for every provider that has one.
@Suite(.timeLimit(.minutes(10)))
struct SidecarStoreContractTests {
    typealias Kind = ContractedProvider

    private func name(_ text: String) -> SidecarName {
        SidecarName(room: .thumbnails, name: text)
    }

    @Test(arguments: Kind.allCases)
    func `what one device writes another reads, until it is removed`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let store = try #require(cloud.provider.sidecars)
        let other = try #require(cloud.other.sidecars)
        let name = name("0123456789abcdef.small")
        #expect(try await store.read(name, atMost: 100) == nil)
        // There is nothing to remove.
        try await store.remove(name)
        try await store.write([1, 2, 3], to: name)
        #expect(try await other.read(name, atMost: 100) == [1, 2, 3])
        try await other.write([4], to: name)
        #expect(try await store.read(name, atMost: 1) == [4])
        try await store.write([], to: name)
        #expect(try await other.read(name, atMost: 100) == [])
        try await store.remove(name)
        #expect(try await other.read(name, atMost: 100) == nil)
        #expect(try await store.read(self.name("01ff.small"), atMost: 100) == nil)
    }

    @Test(arguments: Kind.allCases)
    func `what is too long is not read`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let store = try #require(cloud.provider.sidecars)
        let bytes = [UInt8](repeating: 7, count: 200_000)
        try await store.write(bytes, to: name("aa.big"))
        #expect(try await store.read(name("aa.big"), atMost: 200_000) == bytes)
        let error = await #expect(throws: CloudFSError.self) {
            try await store.read(name("aa.big"), atMost: 199_999)
        }
        #expect(error?.code == .tooLarge)
    }

    @Test(arguments: Kind.allCases)
    func `writers at once leave the bytes of one of them`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let stores = [
            try #require(cloud.provider.sidecars), try #require(cloud.other.sidecars),
        ]
        let name = name("bb.small")
        try await withThrowingTaskGroup(of: Void.self) { group in
            for writer in 0..<12 {
                let bytes = [UInt8](repeating: UInt8(writer), count: 5_000)
                group.addTask { try await stores[writer % 2].write(bytes, to: name) }
            }
            try await group.waitForAll()
        }
        let read = try #require(try await stores[0].read(name, atMost: 10_000))
        #expect(read.count == 5_000)
        #expect(Set(read).count == 1)
    }

    @Test(arguments: Kind.allCases)
    func `no listing shows them`(kind: Kind) async throws {
        let cloud = try await kind.make()
        try await #require(cloud.provider.sidecars).write([1], to: name("cc.small"))
        #expect(try await cloud.provider.children(of: .root, after: nil).items.isEmpty)
    }
}
