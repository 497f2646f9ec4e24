import CloudFSTestSupport
import Crypto
import Logging
import Testing

@testable import CloudFS

/// Attributes that an item of a cloud has no room for, on every cloud.
@Suite struct AttributeSidecarsTests {
    /// Text that no cloud has room for beside an item.
    private static func large(_ mark: Character) -> [String: [UInt8]] {
        [
            "user.notes": Array(String(repeating: mark, count: 60_000).utf8),
            "user.xdg.tags": Array("red".utf8), "user.empty": [],
            "user.bytes": [0, 255, 10, 34],
        ]
    }

    /// One more device: it remembers nothing.
    private static func device(_ fixture: ProviderFixture) -> AttributeSidecars {
        AttributeSidecars(fixture.provider, logger: Logger(label: "test"))
    }

    private static func on(
        _ device: AttributeSidecars,
        _ fixture: ProviderFixture
    ) -> ProviderFixture {
        ProviderFixture(provider: device, foreign: fixture.foreign)
    }

    @Test(arguments: ContractedProvider.allCases)
    func `attributes of any size come with their item`(kind: ContractedProvider) async throws {
        let plain = try await kind.make()
        let fixture = Self.on(Self.device(plain), plain)
        let sent = try await fixture.upload([1], to: "file", attributes: Self.large("a"))
        #expect(sent.attributes == Self.large("a"))
        let other = Self.on(Self.device(plain), plain)
        #expect(try await other.item("file").attributes == Self.large("a"))
        let root = RemotePath.root
        let listed = try await other.provider.children(of: root, after: nil).items
        let details = try await other.provider.details(of: listed, in: root)
        #expect(details.map(\.attributes) == [Self.large("a")])

        // A change of them alone, from many to many and from many to few.
        let path = try ProviderFixture.path("file")
        for attributes in [Self.large("b"), ["user.few": [1]], [:]] {
            let base = try await fixture.item("file").version
            let update = MetadataUpdate(attributes: attributes)
            let changed = try await fixture.provider.setMetadata(update, at: path, base: base)
            #expect(changed.attributes == attributes)
            let seen = try await Self.on(Self.device(plain), plain).item("file")
            #expect(seen.attributes == attributes)
        }
        #expect(try await plain.item("file").attributes == [:])
    }

    @Test(arguments: ContractedProvider.allCases)
    func `times alone change no attributes, and a move keeps them`(
        kind: ContractedProvider
    ) async throws {
        let plain = try await kind.make()
        let fixture = Self.on(Self.device(plain), plain)
        let sent = try await fixture.upload([1], to: "file", attributes: Self.large("a"))
        var metadata = ProviderFixture.metadata
        metadata.modified = Timestamp(seconds: 1_300_000_000, nanoseconds: 0)
        let changed = try await fixture.provider.setMetadata(
            MetadataUpdate(metadata: metadata),
            at: try ProviderFixture.path("file"),
            base: sent.version
        )
        #expect(changed.attributes == Self.large("a"))
        let moved = try await fixture.provider.move(
            from: try ProviderFixture.path("file"),
            to: try ProviderFixture.path("moved"),
            base: changed.version
        )
        #expect(moved.attributes == Self.large("a"))
        #expect(
            try await Self.on(Self.device(plain), plain).item("moved").attributes == Self.large("a")
        )
    }

    @Test func `what fits has no sidecar, and one that is gone takes no item with it`()
        async throws
    {
        let plain = try await ContractedProvider.embedded.make()
        let fixture = Self.on(Self.device(plain), plain)
        try await fixture.upload([1], to: "small", attributes: ["user.a": [1]])
        #expect(try await plain.item("small").attributes == ["user.a": [1]])
        try await fixture.upload([1], to: "large", attributes: Self.large("a"))
        let inside = try await plain.item("large").attributes
        #expect(Array(inside.keys) == [RemoteAttribute.elsewhere])
        let digest = String(decoding: inside[RemoteAttribute.elsewhere] ?? [], as: UTF8.self)
        let name = SidecarName(room: .attributes, name: digest)
        let sidecars = try #require(plain.provider.sidecars)
        // Something else of the name is not taken for it.
        try await sidecars.write(Array("{\"user.other\":\"\"}".utf8), to: name)
        #expect(try await Self.on(Self.device(plain), plain).item("large").attributes == [:])
        try await sidecars.remove(name)
        #expect(try await Self.on(Self.device(plain), plain).item("large").attributes == [:])
        // Nobody but us names a sidecar.
        #expect(!RemoteAttribute.isApplications(RemoteAttribute.elsewhere))
    }

    @Test func `a sidecar that comes after its item makes it another version`() async throws {
        let plain = try await ContractedProvider.embedded.make()
        let fixture = Self.on(Self.device(plain), plain)
        let sent = try await fixture.upload([1], to: "file", attributes: Self.large("a"))
        let away = try await Away(from: plain, item: "file")
        // What another device sees of a directory that is copied by another tool.
        let other = Self.on(Self.device(plain), plain)
        let early = try await other.item("file")
        #expect(early.attributes == [:] && early.version != sent.version)
        #expect(try await other.fetch("file", early.version) == [1])
        try await away.comeBack()
        #expect(try await other.item("file") == sent)
    }

    @Test(arguments: ContractedProvider.allCases)
    func `attributes that nobody here has seen stay, whatever is sent`(
        kind: ContractedProvider
    ) async throws {
        let plain = try await kind.make()
        let fixture = Self.on(Self.device(plain), plain)
        _ = try await fixture.upload([1], to: "file", attributes: Self.large("a"))
        let away = try await Away(from: plain, item: "file")
        let other = Self.on(Self.device(plain), plain)
        let early = try await other.item("file")
        #expect(early.attributes == [:])
        // Times, an attribute of its own, and content.
        let path = try ProviderFixture.path("file")
        let own = ["user.a": [1], "user.xdg.tags": Array("blue".utf8)]
        let update = MetadataUpdate(attributes: own)
        let changed = try await other.provider.setMetadata(update, at: path, base: early.version)
        #expect(changed.attributes == own)
        #expect(try await other.item("file").attributes == own)
        let sent = try await other.upload(
            [2],
            to: "file",
            replacing: changed.version,
            attributes: ["user.a": [2], "user.xdg.tags": Array("blue".utf8)]
        )
        // There is no room beside the place of those that are not here.
        await expectError(.attributesFull) {
            try await other.upload(
                [3],
                to: "file",
                replacing: sent.version,
                attributes: Self.large("b")
            )
        }
        // A listing that tells little has it asked for again.
        var sketch = try await plain.item("file")
        sketch.isSketch = true
        #expect(!sketch.isUnchanged(since: sent.version))
        try await away.comeBack()
        var all = Self.large("a")
        all["user.a"] = [2]
        all["user.xdg.tags"] = Array("red,blue".utf8)
        let whole = try await other.item("file")
        #expect(whole.attributes == all)
        // Whoever was told less is told that there is more.
        #expect(whole.version != sent.version)
        #expect(try await other.fetch("file", whole.version) == [2])
        // Who still knows nothing of them adds as much as there is, and removes what was seen.
        let late = Self.on(Self.device(plain), plain)
        let third = try await late.upload(
            [3],
            to: "file",
            replacing: sent.version,
            attributes: ["user.b": Self.large("b")["user.notes"] ?? []]
        )
        all["user.a"] = nil
        all["user.xdg.tags"] = Array("red".utf8)
        all["user.b"] = Self.large("b")["user.notes"]
        #expect(try await late.item("file").attributes == all)
        #expect(try await late.item("file").version != third.version)
    }

    /// A sidecar that another tool has not copied yet.
    private struct Away {
        let sidecars: any SidecarStore
        let name: SidecarName
        let bytes: [UInt8]

        init(from plain: ProviderFixture, item: String) async throws {
            let inside = try await plain.item(item).attributes[RemoteAttribute.elsewhere] ?? []
            name = SidecarName(room: .attributes, name: String(decoding: inside, as: UTF8.self))
            sidecars = try #require(plain.provider.sidecars)
            bytes = try #require(try await sidecars.read(name, atMost: 1 << 20))
            try await sidecars.remove(name)
        }

        func comeBack() async throws { try await sidecars.write(bytes, to: name) }
    }

    @Test func `a sidecar with more than programs could have set is none`() async throws {
        let plain = try await ContractedProvider.embedded.make()
        let many = (0..<20_000).map { "\"user.\($0)\":\"\"" }.joined(separator: ",")
        let long = "\"user.a\":\"\(String(repeating: "AAAA", count: 30_000))\""
        let much = (0..<50).map { number in
            "\"user.\(number)\":\"\(String(repeating: "AAAA", count: 20_000))\""
        }.joined(separator: ",")
        for (number, text) in [many, long, much].enumerated() {
            let bytes = Array("{\(text)}".utf8)
            let digest = Hexadecimal.text(SHA256.hash(data: bytes))
            let name = SidecarName(room: .attributes, name: digest)
            try await plain.provider.sidecars?.write(bytes, to: name)
            try await plain.upload(
                [1],
                to: "\(number)",
                attributes: [RemoteAttribute.elsewhere: Array(digest.utf8)]
            )
        }
        let items = try await Self.device(plain).children(of: .root, after: nil).items
        #expect(items.map(\.attributes) == [[:], [:], [:]])
    }

    @Test func `a sidecar that many items name is read once`() async throws {
        let plain = try await ContractedProvider.embedded.make()
        let fixture = Self.on(Self.device(plain), plain)
        for number in 0..<20 {
            _ = try await fixture.upload([1], to: "\(number)", attributes: Self.large("a"))
        }
        let faulty = FaultyProvider(plain.provider)
        let other = AttributeSidecars(faulty, logger: Logger(label: "test"))
        let items = try await other.children(of: .root, after: nil).items
        #expect(items.allSatisfy { $0.attributes == Self.large("a") } && items.count == 20)
        #expect(faulty.count(of: .sidecars) == 1)
    }

    @Test func `a sidecar that can never be read keeps no folder from being listed`()
        async throws
    {
        let plain = try await ContractedProvider.embedded.make()
        let faulty = FaultyProvider(plain.provider)
        let fixture = Self.on(Self.device(plain), plain)
        try await fixture.upload([1], to: "file", attributes: Self.large("a"))
        for code in [CloudFSError.Code.denied, .tooLarge, .notFound] {
            let other = AttributeSidecars(faulty, logger: Logger(label: "test"))
            faulty.fail(.sidecars, with: CloudFSError(code, "a planned failure"))
            let items = try await other.children(of: .root, after: nil).items
            #expect(items.map(\.attributes) == [[:]])
        }
        #expect(faulty.forgetFaults() == 0)
    }

    @Test(.timeLimit(.minutes(10)))
    func `those of a folder are asked for together, and not all at once`() async throws {
        let plain = try await ContractedProvider.embedded.make()
        let fixture = Self.on(Self.device(plain), plain)
        for number in 0..<40 {
            var attributes = Self.large("a")
            attributes["user.number"] = Array("\(number)".utf8)
            _ = try await fixture.upload([1], to: "\(number)", attributes: attributes)
        }
        let faulty = FaultyProvider(plain.provider)
        let other = AttributeSidecars(faulty, logger: Logger(label: "test"))
        faulty.hang([.sidecars])
        let listing = Task { try await other.children(of: .root, after: nil).items }
        await faulty.waitForCall(16, of: .sidecars)
        #expect(faulty.count(of: .sidecars) == 16)
        faulty.release()
        let items = try await listing.value
        #expect(items.count == 40)
        for item in items {
            #expect(item.attributes["user.number"] == item.name.bytes)
        }
    }

    @Test func `what cannot be read now is not taken for absent`() async throws {
        let plain = try await ContractedProvider.embedded.make()
        let faulty = FaultyProvider(plain.provider)
        let fixture = Self.on(Self.device(plain), plain)
        try await fixture.upload([1], to: "file", attributes: Self.large("a"))
        let other = AttributeSidecars(faulty, logger: Logger(label: "test"))
        faulty.fail(.sidecars, with: CloudFSError(.offline, "a planned failure"))
        await #expect(throws: CloudFSError.self) {
            try await other.item(at: try ProviderFixture.path("file"))
        }
        let item = try await other.item(at: try ProviderFixture.path("file"))
        #expect(item.attributes == Self.large("a"))
    }
}
