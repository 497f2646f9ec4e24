import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// A cloud directory whose modes keep its owner from something, as they keep no root.
@Suite(.timeLimit(.minutes(10)))
struct EmbeddedPermissionTests {
    private static let color = ["user.color": Array("red".utf8)]
    private static let both = ["user.color": Array("red".utf8), "user.new": [2]]

    // MARK: - Attributes

    @Test func `attributes that a mode hides are not known, and stay`() async throws {
        let fixture = try await EmbeddedFixture.makeOrdinary()
        let path = try ProviderFixture.path("a")
        try await fixture.cloud.upload([1], to: "a", attributes: Self.color)
        try #require(chmod("\(fixture.root)/a", 0) == 0)
        let hidden = try await fixture.cloud.item("a")
        #expect(!hidden.areAttributesKnown)
        #expect(try await fixture.cloud.list() == [hidden])
        // By a device that has never seen them.
        let told = try await fixture.embedded.setMetadata(
            MetadataUpdate(metadata: ProviderFixture.metadata, attributes: ["user.new": [2]]),
            at: path,
            base: hidden.version
        )
        let item = try await fixture.cloud.item("a")
        #expect(item.areAttributesKnown)
        #expect(item.attributes == Self.both)
        #expect(item.metadata.permissions == ProviderFixture.metadata.permissions)
        // Of a version that nothing has, so that this device lists it once more.
        #expect(told.version.content == item.version.content)
        #expect(told.version != item.version)
        // Seen now, it can be removed.
        let rest = MetadataUpdate(attributes: Self.color)
        let last = try await fixture.embedded.setMetadata(rest, at: path, base: item.version)
        #expect(last.attributes == Self.color)
        #expect(try await fixture.cloud.item("a") == last)
    }

    @Test func `whoever knows what a mode hides writes it`() async throws {
        let fixture = try await EmbeddedFixture.makeOrdinary()
        let path = try ProviderFixture.path("a")
        let item = try await fixture.cloud.upload([1], to: "a", attributes: Self.color)
        var metadata = ProviderFixture.metadata
        metadata.permissions = 0
        let closed = try await fixture.embedded.setMetadata(
            MetadataUpdate(metadata: metadata, attributes: Self.color),
            at: path,
            base: item.version
        )
        #expect(closed.areAttributesKnown)
        #expect(closed.attributes == Self.color)
        #expect(try await fixture.cloud.item("a").version == closed.version)
        let opened = try await fixture.embedded.setMetadata(
            MetadataUpdate(metadata: ProviderFixture.metadata, attributes: Self.both),
            at: path,
            base: closed.version
        )
        #expect(opened.attributes == Self.both)
        let found = try await fixture.cloud.item("a")
        #expect(found.version == opened.version)
        #expect(found.attributes == opened.attributes)
    }

    // MARK: - Read-only folders

    private func makeReadOnlyFolder(_ name: String, in fixture: EmbeddedFixture) async throws {
        var metadata = ProviderFixture.metadata
        metadata.permissions = 0o555
        let folder = try await fixture.embedded.createFolder(
            at: try ProviderFixture.path(name),
            documentID: .random(),
            metadata: metadata
        )
        #expect(folder.metadata.permissions == 0o555)
        #expect(folder.metadata.modified == metadata.modified)
        #expect(try await fixture.cloud.item(name).version == folder.version)
        // Nobody but root gives folders away: where it was made for root, it stays root's.
        let isRefused = OrdinaryUser.id != metadata.userID
        #expect(folder.metadata.userID == (isRefused ? ItemMetadata.keptID : metadata.userID))
    }

    @Test func `a read-only folder is made, filled and emptied, and stays read-only`() async throws
    {
        let fixture = try await EmbeddedFixture.makeOrdinary()
        let (cloud, embedded) = (fixture.cloud, fixture.embedded)
        try await makeReadOnlyFolder("f", in: fixture)
        try await makeReadOnlyFolder("f/below", in: fixture)
        let first = try await cloud.upload([1], to: "f/a")
        let second = try await cloud.upload([2], to: "f/a", replacing: first.version)
        let link = try await embedded.createSymlink(
            at: try ProviderFixture.path("f/link"),
            target: Array("a".utf8),
            documentID: .random(),
            metadata: ProviderFixture.metadata
        )
        #expect(try await cloud.names("f") == ["a", "below", "link"])
        #expect(try fixture.read("f/a") == [2])
        // Folders are moved out of it, into it and within it, read-only themselves.
        var below = try await cloud.item("f/below")
        for (old, new) in [("f/below", "moved"), ("moved", "f/back"), ("f/back", "f/below")] {
            let (from, to) = (try ProviderFixture.path(old), try ProviderFixture.path(new))
            below = try await embedded.move(from: from, to: to, base: below.version)
            #expect(below.metadata.permissions == 0o555)
        }
        for (name, item) in [("a", second), ("link", link), ("below", below)] {
            let path = try ProviderFixture.path("f/\(name)")
            try await embedded.delete(path, base: item.version)
        }
        #expect(try await cloud.list("f").isEmpty)
        #expect(try await cloud.item("f").metadata.permissions == 0o555)
        #expect(try fixture.leftovers().isEmpty)
    }

    @Test(.enabled(if: geteuid() == 0, "only root can make a folder somebody else's"))
    func `a folder of somebody else's stays as it is, and so does what is to be moved there`()
        async throws
    {
        let fixture = try await EmbeddedFixture.makeOrdinary()
        try fixture.directory.makeFolder("cloud/other")
        try #require(chmod("\(fixture.root)/other", 0o755) == 0)
        try await makeReadOnlyFolder("own", in: fixture)
        let item = try await fixture.cloud.upload([1], to: "own/a")
        let (from, to) = (
            try ProviderFixture.path("own/a"), try ProviderFixture.path("other/a")
        )
        await expectError(.denied) { try await fixture.cloud.upload([1], to: "other/a") }
        await expectError(.denied) { try await fixture.cloud.makeFolder("other/f") }
        await expectError(.denied) {
            try await fixture.embedded.move(from: from, to: to, base: item.version)
        }
        #expect(try await fixture.cloud.item("other").metadata.permissions == 0o755)
        #expect(try await fixture.cloud.item("own").metadata.permissions == 0o555)
        #expect(try await fixture.cloud.names("own") == ["a"])
        #expect(try fixture.leftovers().isEmpty)
    }
}
