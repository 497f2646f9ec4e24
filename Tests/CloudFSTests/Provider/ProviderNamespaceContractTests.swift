import CloudFSTestSupport
import Testing

@testable import CloudFS

/// The part of the contract about folders, links, metadata, moves and deletions.
@Suite(.timeLimit(.minutes(10)))
struct ProviderNamespaceContractTests {
    typealias Kind = ContractedProvider

    @Test(arguments: Kind.allCases)
    func `a folder is made once, with its metadata and identity`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let document = DocumentID.random()
        let path = try ProviderFixture.path("f")
        let folder = try await cloud.provider.createFolder(
            at: path,
            documentID: document,
            metadata: ProviderFixture.metadata
        )
        #expect(folder.kind == .folder)
        #expect(folder.documentID == document)
        #expect(folder.metadata == ProviderFixture.metadata)
        #expect(folder.size == 0)
        #expect(try await cloud.undated(cloud.item("f")) == cloud.undated(folder))
        #expect(try await cloud.list("f").isEmpty)
        await expectError(.exists) { try await cloud.makeFolder("f") }
        try await cloud.upload([1], to: "file")
        await expectError(.exists) { try await cloud.makeFolder("file") }
    }

    @Test(arguments: Kind.allCases)
    func `a link keeps its target and is never followed`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let target = Array("../outside/\u{fc}".utf8) + [0xff]
        let path = try ProviderFixture.path("link")
        let link = try await cloud.provider.createSymlink(
            at: path,
            target: target,
            documentID: .random(),
            metadata: ProviderFixture.metadata
        )
        #expect(link.kind == .symlink)
        #expect(link.linkTarget == target)
        #expect(link.size == Int64(target.count))
        #expect(link.metadata.modified == ProviderFixture.metadata.modified)
        #expect(try await cloud.undated(cloud.item("link")) == cloud.undated(link))
        await expectError(.notFound) { try await cloud.item("link/x") }
        await expectError(.notDirectory) { try await cloud.list("link") }
        await expectError(.exists) {
            try await cloud.provider.createSymlink(
                at: path,
                target: target,
                documentID: .random(),
                metadata: ProviderFixture.metadata
            )
        }
        try await cloud.provider.delete(path, base: link.version)
        #expect(try await cloud.list().isEmpty)
    }

    @Test(arguments: Kind.allCases)
    func `metadata and attributes are written without the bytes`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let first = try await cloud.upload(
            [1, 2, 3],
            to: "a",
            attributes: ["user.keep": [1], "user.drop": [2]]
        )
        var metadata = ProviderFixture.metadata
        metadata.permissions = 0o400
        metadata.modified = Timestamp(seconds: 1_000, nanoseconds: 5)
        let update = MetadataUpdate(
            metadata: metadata,
            attributes: [
                "user.keep": [9], "user.new": [3], "user.cloudfs.favorite": Array("1".utf8),
            ]
        )
        let path = try ProviderFixture.path("a")
        let second = try await cloud.provider.setMetadata(update, at: path, base: first.version)
        #expect(second.metadata == metadata)
        #expect(
            second.attributes == [
                "user.keep": [9], "user.new": [3], "user.cloudfs.favorite": Array("1".utf8),
            ]
        )
        #expect(second.id == first.id)
        #expect(second.documentID == first.documentID)
        #expect(second.version != first.version)
        #expect(try await cloud.undated(cloud.item("a")) == cloud.undated(second))
        #expect(try await cloud.fetch("a", second.version) == [1, 2, 3])
        await expectError(.remoteChanged) {
            try await cloud.provider.setMetadata(update, at: path, base: first.version)
        }
        // Attributes of a file that its permissions protect, and nothing else.
        let only = MetadataUpdate(attributes: [:])
        let third = try await cloud.provider.setMetadata(only, at: path, base: second.version)
        #expect(third.attributes.isEmpty)
        #expect(third.metadata == metadata)
    }

    @Test(arguments: Kind.allCases)
    func `a folder's metadata can be written whatever happens in it`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let folder = try await cloud.makeFolder("f")
        try await cloud.upload([1], to: "f/a")
        var metadata = ProviderFixture.metadata
        metadata.permissions = 0o755
        metadata.modified = Timestamp(seconds: 77, nanoseconds: 0)
        let path = try ProviderFixture.path("f")
        let update = MetadataUpdate(metadata: metadata)
        let written = try await cloud.provider.setMetadata(update, at: path, base: folder.version)
        #expect(written.metadata == metadata)
        #expect(written.id == folder.id)
    }

    @Test(arguments: Kind.allCases)
    func `a move keeps identity, bytes and attributes`(kind: Kind) async throws {
        let cloud = try await kind.make()
        try await cloud.makeFolder("f")
        let item = try await cloud.upload([4, 5], to: "a", attributes: ["user.x": [1]])
        let (from, to) = (try ProviderFixture.path("a"), try ProviderFixture.path("f/b"))
        let moved = try await cloud.provider.move(from: from, to: to, base: item.version)
        #expect(!cloud.hasStableIDs || moved.id == item.id)
        #expect(moved.documentID == item.documentID)
        #expect(moved.name.description == "b")
        #expect(moved.attributes == item.attributes)
        #expect(moved.metadata == item.metadata)
        #expect(try await cloud.undated(cloud.item("f/b")) == cloud.undated(moved))
        #expect(try await cloud.names() == ["f"])
        #expect(try await cloud.fetch("f/b", moved.version) == [4, 5])
    }

    @Test(arguments: Kind.allCases)
    func `a move takes a free name and the meant version only`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let a = try await cloud.upload([1], to: "a")
        let b = try await cloud.upload([2], to: "b")
        let (pathA, pathB) = (try ProviderFixture.path("a"), try ProviderFixture.path("b"))
        let free = try ProviderFixture.path("c")
        await expectError(.exists) {
            try await cloud.provider.move(from: pathA, to: pathB, base: a.version)
        }
        await expectError(.remoteChanged) {
            try await cloud.provider.move(from: pathA, to: free, base: b.version)
        }
        await expectError(.notFound) {
            try await cloud.provider.move(from: free, to: pathB, base: a.version)
        }
        let missing = try ProviderFixture.path("none/c")
        await expectError(.notFound) {
            try await cloud.provider.move(from: pathA, to: missing, base: a.version)
        }
        let left = try await cloud.list().sorted { $0.name.bytes[0] < $1.name.bytes[0] }
        #expect(left.map(cloud.undated) == [a, b].map(cloud.undated))
    }

    @Test(arguments: Kind.allCases)
    func `a folder moves with everything in it`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let folder = try await cloud.makeFolder("f")
        let inside = try await cloud.upload([1], to: "f/a")
        let (from, to) = (try ProviderFixture.path("f"), try ProviderFixture.path("g"))
        let moved = try await cloud.provider.move(from: from, to: to, base: folder.version)
        #expect(!cloud.hasStableIDs || moved.id == folder.id)
        #expect(moved.documentID == folder.documentID)
        #expect(try await cloud.item("g/a").documentID == inside.documentID)
        if cloud.hasStableIDs { #expect(try await cloud.item("g/a").id == inside.id) }
        let below = try ProviderFixture.path("g/h")
        await expectError(.invalidArgument) {
            try await cloud.provider.move(from: to, to: below, base: moved.version)
        }
    }

    @Test(arguments: Kind.allCases)
    func `a deletion takes the meant version only`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let first = try await cloud.upload([1], to: "a")
        let second = try await cloud.upload([2], to: "a", replacing: first.version)
        let path = try ProviderFixture.path("a")
        await expectError(.remoteChanged) {
            try await cloud.provider.delete(path, base: first.version)
        }
        #expect(try await cloud.fetch("a", second.version) == [2])
        try await cloud.provider.delete(path, base: second.version)
        await expectError(.notFound) { try await cloud.item("a") }
    }

    @Test(arguments: Kind.allCases)
    func `a folder is deleted only when it is empty`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let folder = try await cloud.makeFolder("f")
        let item = try await cloud.upload([1], to: "f/a")
        let path = try ProviderFixture.path("f")
        await expectError(.notEmpty) {
            try await cloud.provider.delete(path, base: folder.version)
        }
        await expectError(.remoteChanged) {
            try await cloud.provider.delete(path, base: item.version)
        }
        try await cloud.provider.delete(path.appending(item.name), base: item.version)
        try await cloud.provider.delete(path, base: folder.version)
        #expect(try await cloud.list().isEmpty)
    }

    @Test(arguments: Kind.allCases)
    func `names arrive as they were stored`(kind: Kind) async throws {
        let cloud = try await kind.make()
        var names: [[UInt8]] = [
            Array(" space ".utf8), Array("-rf".utf8),
            Array("back\\slash".utf8), Array("e\u{301}".utf8), Array("\u{e9}".utf8),
            [UInt8](repeating: 0x61, count: 255), [0x01, 0x7f],
            Array("...".utf8), Array("%2F".utf8),
        ]
        if kind.takesLineBreaks { names.append(Array("line\nbreak".utf8)) }
        if kind.takesAnyBytes { names.append([0xff, 0xfe, 0x80]) }
        for bytes in names {
            let path = RemotePath([try ItemName(bytes)])
            let folder = try await cloud.provider.createFolder(
                at: path,
                documentID: .random(),
                metadata: ProviderFixture.metadata
            )
            #expect(folder.name.bytes == bytes)
        }
        #expect(Set(try await cloud.list().map(\.name.bytes)) == Set(names))
    }

    @Test(arguments: Kind.allCases)
    func `waiting for changes can be cancelled, and hears of them`(kind: Kind) async throws {
        let cloud = try await kind.make()
        let start = try await cloud.provider.changes(after: nil)
        #expect(start.hints.isEmpty)
        let waiting = Task { try await cloud.provider.changes(after: start.anchor) }
        waiting.cancel()
        await expectError(.cancelled) { try await waiting.value }
        _ = try await cloud.other.createFolder(
            at: try ProviderFixture.path("f"),
            documentID: .random(),
            metadata: ProviderFixture.metadata
        )
        let page = try await cloud.provider.changes(after: start.anchor)
        #expect(page.hints.contains(.children(of: .root)) || page.hints.contains(.subtree(.root)))
        #expect(page.anchor != start.anchor)
        let unknown = try await cloud.provider.changes(after: SyncAnchor("of another time"))
        #expect(unknown.hints == [.subtree(.root)])
    }
}
