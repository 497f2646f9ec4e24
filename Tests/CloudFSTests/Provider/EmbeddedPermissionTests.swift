import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// A cloud directory whose modes keep its owner from something, as they keep no root.
@Suite(.timeLimit(.minutes(5)))
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
        #expect(try await fixture.cloud.item("a") == opened)
    }
}
