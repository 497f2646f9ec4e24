import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// The written contract of `CloudProvider`, for every provider.
@Suite(.timeLimit(.minutes(10)))
struct ProviderContractTests {
    typealias Kind = ContractedProvider

    // MARK: - Items and listings

    @Test(arguments: Kind.allCases)
    func `an upload can be listed, looked up and fetched`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let document = DocumentID.random()
        let uploaded = try await cloud.upload(
            Array("hello".utf8),
            to: "a.txt",
            documentID: document,
            attributes: ["user.xdg.tags": Array("red,blue".utf8), "user.empty": []]
        )
        #expect(uploaded.name.description == "a.txt")
        #expect(uploaded.kind == .file)
        #expect(uploaded.size == 5)
        #expect(uploaded.documentID == document)
        #expect(uploaded.metadata == ProviderFixture.metadata)
        #expect(
            uploaded.attributes == [
                "user.xdg.tags": Array("red,blue".utf8), "user.empty": [],
            ]
        )
        #expect(try await cloud.undated(cloud.item("a.txt")) == cloud.undated(uploaded))
        #expect(try await cloud.list().map(cloud.undated) == [cloud.undated(uploaded)])
        let bytes = try await cloud.fetch("a.txt", uploaded.version)
        #expect(bytes == Array("hello".utf8))
    }

    @Test(arguments: Kind.allCases)
    func `an empty container lists nothing, not even the provider's own room`(
        kind: Kind
    ) async throws {
        let cloud = try await kind.make()
        #expect(try await cloud.list().isEmpty)
        let item = try await cloud.upload([1], to: "x")
        try await cloud.provider.delete(try ProviderFixture.path("x"), base: item.version)
        #expect(try await cloud.list().isEmpty)
        #expect(try await cloud.provider.item(at: .root).kind == .folder)
    }

    @Test(arguments: Kind.allCases)
    func `the provider's own room is never addressed`(kind: Kind) async throws {
        let cloud = try await kind.make()
        try await cloud.upload([1], to: "x")
        await expectError(.notFound) { try await cloud.item(".cloudfs") }
        await expectError(.notFound) { try await cloud.list(".cloudfs") }
        await expectError(.notFound) { try await cloud.item(".cloudfs/lock") }
        await expectError(.denied) { try await cloud.upload([1], to: ".cloudfs/x") }
        await expectError(.denied) { try await cloud.makeFolder(".cloudfs") }
        try await cloud.makeFolder("f")
        try await cloud.upload([2], to: "f/.cloudfs")
        #expect(try await cloud.names("f") == [".cloudfs"])
    }

    @Test(arguments: Kind.allCases)
    func `what is not there is not found`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let item = try await cloud.upload([1], to: "file")
        let path = try ProviderFixture.path("none")
        await expectError(.notFound) { try await cloud.item("none") }
        await expectError(.notFound) { try await cloud.list("none/deeper") }
        await expectError(.notFound) { try await cloud.item("file/below") }
        await expectError(.notDirectory) { try await cloud.list("file") }
        await expectError(.notFound) { try await cloud.upload([1], to: "none/x") }
        await expectError(.notFound) { try await cloud.makeFolder("none/x") }
        await expectError(.notFound) {
            try await cloud.provider.delete(path, base: item.version)
        }
        await expectError(.notFound) {
            try await cloud.upload([1], to: "none", replacing: item.version)
        }
        await expectError(.notFound) {
            try await cloud.fetch("none", item.version, range: 0..<1)
        }
    }

    @Test(arguments: Kind.allCases)
    func `a large folder comes in pages, each item once`(kind: Kind) async throws {
        let cloud = try await kind.make()
        try await cloud.foreign.makeFiles(2_345, in: "big")
        let items = try await cloud.list("big")
        #expect(Set(items.map(\.name.description)) == Set((0..<2_345).map(String.init)))
        #expect(items.count == 2_345)
        #expect(Set(items.map(\.id)).count == 2_345)
    }

    @Test(arguments: Kind.allCases)
    func `a folder that was only added to while it was listed is listed whole`(
        kind: Kind
    ) async throws {
        let cloud = try await kind.make()
        try await cloud.foreign.makeFiles(1_500, in: "big")
        let path = try ProviderFixture.path("big")
        let first = try await cloud.provider.children(of: path, after: nil)
        try await cloud.foreign.write([1], to: "big/later")
        let token = try #require(first.next)
        var names = first.items.map(\.name.description)
        var next: PageToken? = token
        while let token = next {
            let page = try await cloud.provider.children(of: path, after: token)
            names += page.items.map(\.name.description)
            next = page.next
        }
        #expect(names.count == 1_501)
        #expect(names.contains("later"))
    }

    // MARK: - Fetching

    @Test(arguments: Kind.allCases)
    func `any range of any size is delivered in order`(kind: Kind) async throws {
        let cloud = try await kind.make()
        var random = SeededRandom(seed: 42)
        let bytes = random.bytes(3_500_001)
        let item = try await cloud.upload(bytes, to: "large")
        #expect(try await cloud.fetch("large", item.version) == bytes)
        for range: Range<Int64> in [
            0..<1, 0..<0, 5..<5, 1_048_575..<1_048_577, 3_500_000..<3_500_001,
        ] {
            let part = try await cloud.fetch("large", item.version, range: range)
            #expect(part == Array(bytes[Int(range.lowerBound)..<Int(range.upperBound)]))
        }
        await expectError(.invalidArgument) {
            try await cloud.fetch("large", item.version, range: 0..<3_500_002)
        }
    }

    @Test(arguments: Kind.allCases)
    func `another version is never delivered`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let first = try await cloud.upload(Array("first".utf8), to: "a")
        let second = try await cloud.upload(
            Array("other".utf8),
            to: "a",
            replacing: first.version
        )
        #expect(first.version.content != second.version.content)
        await expectError(.remoteChanged) { try await cloud.fetch("a", first.version) }
        #expect(try await cloud.fetch("a", second.version) == Array("other".utf8))
    }

    @Test(arguments: Kind.allCases)
    func `a version that changes in the middle of a fetch stops it`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let old = [UInt8](repeating: 1, count: 4 << 20)
        let item = try await cloud.upload(old, to: "a")
        let path = try ProviderFixture.path("a")
        let delivered = Mutex<[UInt8]>([])
        await expectError(.remoteChanged, orNothing: kind.keepsOpenVersions) {
            try await cloud.provider.fetch(path, range: 0..<(4 << 20), version: item.version) {
                offset,
                piece async throws(CloudFSError) in
                delivered.withLock { $0 += piece.bytes }
                guard offset == 0 else { return }
                do {
                    try await cloud.foreign.write([UInt8](repeating: 2, count: 4 << 20), to: "a")
                } catch {
                    throw CloudFSError(.internalFailure, "\(error)")
                }
            }
        }
        #expect(delivered.withLock { $0.allSatisfy { $0 == 1 } })
    }

    @Test(arguments: Kind.allCases)
    func `the digest is the content's`(kind: Kind) async throws {
        let cloud = try await kind.make()
        guard cloud.provider.capabilities.contains(.digests) else { return }
        let item = try await cloud.upload(Array("abc".utf8), to: "a")
        let path = try ProviderFixture.path("a")
        let digest = try await cloud.provider.digest(of: path, version: item.version)
        let text = digest?.bytes.map { String($0 >> 4, radix: 16) + String($0 & 15, radix: 16) }
        #expect(
            text?.joined() == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        )
    }

    // MARK: - Uploading

    @Test(arguments: Kind.allCases)
    func `an upload without base creates only`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let item = try await cloud.upload([1], to: "a")
        await expectError(.exists) { try await cloud.upload([2], to: "a") }
        #expect(try await cloud.undated(cloud.item("a")) == cloud.undated(item))
        try await cloud.makeFolder("f")
        await expectError(.exists) { try await cloud.upload([2], to: "f") }
    }

    @Test(arguments: Kind.allCases)
    func `an upload with a base replaces that version only`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let first = try await cloud.upload([1], to: "a")
        let second = try await cloud.upload([2, 2], to: "a", replacing: first.version)
        await expectError(.remoteChanged) {
            try await cloud.upload([3], to: "a", replacing: first.version)
        }
        #expect(try await cloud.undated(cloud.item("a")) == cloud.undated(second))
        #expect(try await cloud.fetch("a", second.version) == [2, 2])
        let folder = try await cloud.makeFolder("f")
        await expectError(.remoteChanged) {
            try await cloud.upload([3], to: "f", replacing: folder.version)
        }
    }

    @Test(arguments: Kind.allCases)
    func `a source that changed is not made true`(kind: Kind) async throws {
        let cloud = try await kind.make()
        await expectError(.cancelled) {
            try await cloud.upload([1], to: "a", isUnchanged: { false })
        }
        #expect(try await cloud.list().isEmpty)
    }

    @Test(arguments: Kind.allCases)
    func `every byte is announced before and told after it was sent`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let file = try ScratchFile([UInt8](repeating: 7, count: 2_500_000))
        let announced = Mutex(0)
        let told = Mutex<[Int64]>([])
        var source = UploadSource(
            descriptor: file.descriptor,
            byteCount: 2_500_000,
            documentID: .random(),
            metadata: ProviderFixture.metadata,
            attributes: [:],
            isUnchanged: { true },
            didSend: { count in told.withLock { $0.append(count) } }
        )
        source.willSend = { count async throws(CloudFSError) in announced.withLock { $0 += count } }
        let path = try ProviderFixture.path("a")
        _ = try await cloud.provider.upload(source, to: path, replacing: nil)
        #expect(announced.withLock { $0 } == 2_500_000)
        #expect(told.withLock { $0.last } == 2_500_000)
        #expect(told.withLock { $0 == $0.sorted() })
    }

    @Test(arguments: Kind.allCases)
    func `an empty file is a file`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let item = try await cloud.upload([], to: "empty")
        #expect(item.size == 0)
        #expect(try await cloud.fetch("empty", item.version).isEmpty)
    }

    @Test(arguments: Kind.allCases)
    func `of several uploads of one new name exactly one succeeds`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let successes = await withTaskGroup(of: Bool.self) { group in
            for number in 0..<8 {
                group.addTask {
                    do {
                        try await cloud.upload([UInt8(number)], to: "a")
                        return true
                    } catch let error as CloudFSError {
                        #expect(error.code == .exists)
                    } catch {
                        Issue.record(error)
                    }
                    return false
                }
            }
            return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
        }
        #expect(successes == 1 || !kind.isAtomic && successes > 1)
        #expect(try await cloud.list().count == 1)
    }
}
