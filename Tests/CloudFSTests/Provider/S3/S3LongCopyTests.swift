import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Objects that a server copies in several parts, as it does those of more than 5 GiB.
@Suite struct S3LongCopyTests {
    private typealias Bench = S3ProviderBench

    private static let partCount = 6
    private static let bytes = Bench.content(1, parts: partCount)

    private static func make() async throws -> (Bench, S3Provider) {
        var server = FakeS3Settings()
        server.minimumPartByteCount = 1
        let bench = try await Bench.make(server)
        var settings = Bench.smallParts
        settings.longestCopy = 1
        settings.copyPartByteCount = Int64(Bench.part)
        return (bench, try await bench.provider(settings: settings))
    }

    private static func move(
        _ base: ItemVersion,
        of provider: S3Provider
    ) async throws -> RemoteItem {
        try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
    }

    @Test func `the parts are all of it, each once, and its metadata comes along`() async throws {
        let (bench, provider) = try await Self.make()
        let item = try await Bench.upload(Self.bytes, to: "a", of: provider)
        let metadata = bench.fake.object("a")?.metadata
        let moved = try await Self.move(item.version, of: provider)
        #expect(moved.documentID == item.documentID)
        #expect(bench.fake.object("b")?.bytes == Self.bytes)
        #expect(bench.fake.object("b")?.metadata == metadata)
        #expect(bench.fake.object("a") == nil)
        let ranges = bench.fake.requests(.copyPart).compactMap {
            $0.header("x-amz-copy-source-range")
        }
        let expected = (0..<Self.partCount).map { number in
            let end = min((number + 1) * Bench.part, Self.bytes.count)
            return "bytes=\(number * Bench.part)-\(end - 1)"
        }
        #expect(Set(ranges) == Set(expected))
        #expect(ranges.count == Self.partCount)
        #expect(bench.fake.uploads().isEmpty)
    }

    @Test(arguments: 0..<partCount)
    func `a part that fails leaves the source and nothing else`(number: Int) async throws {
        let (bench, provider) = try await Self.make()
        let base = try await Bench.upload(Self.bytes, to: "a", of: provider).version
        bench.fake.add(FakeS3Fault(Bench.refusal, skipping: number, on: .copyPart))
        let code = await s3Failure { _ = try await Self.move(base, of: provider) }
        #expect(code == .denied)
        #expect(bench.fake.object("a")?.bytes == Self.bytes)
        #expect(bench.fake.object("b") == nil)
        #expect(bench.fake.uploads().isEmpty)
        _ = try await Self.move(base, of: provider)
        #expect(bench.fake.object("b")?.bytes == Self.bytes)
    }

    @Test(arguments: 0..<partCount)
    func `a part whose answer is lost is copied again`(number: Int) async throws {
        let (bench, provider) = try await Self.make()
        let base = try await Bench.upload(Self.bytes, to: "a", of: provider).version
        bench.fake.add(FakeS3Fault(Bench.lost, skipping: number, on: .copyPart))
        _ = try await Self.move(base, of: provider)
        #expect(bench.fake.object("b")?.bytes == Self.bytes)
        #expect(bench.fake.uploads().isEmpty)
    }

    @Test func `what is replaced between two parts is not copied half and half`() async throws {
        let (bench, provider) = try await Self.make()
        let base = try await Bench.upload(Self.bytes, to: "a", of: provider).version
        let other = Bench.content(2, parts: Self.partCount)
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: 3, on: .copyPart))
        let result = try await Bench.during(gate) {
            bench.fake.put("a", other)
        } _: {
            try await Self.move(base, of: provider)
        }
        let code = await s3Failure { _ = try result.get() }
        #expect(code == .remoteChanged)
        #expect(bench.fake.object("a")?.bytes == other)
        #expect(bench.fake.object("b") == nil)
        #expect(bench.fake.uploads().isEmpty)
    }

    /// Servers take no parts of less than 5 MiB but the last.
    @Test(
        .enabled(if: !S3TestServers.all.isEmpty, Comment(rawValue: S3TestServers.reason)),
        arguments: S3TestServers.all
    )
    func `real servers copy in parts`(server: S3TestServer) async throws {
        let bucket = try await S3Bucket.make(on: .real(server))
        var settings = S3ProviderSettings.forTests
        settings.longestCopy = 1
        settings.copyPartByteCount = 5 << 20
        let provider = try bucket.provider(device: "one", settings: settings)
        try await Bench.connect(provider)
        let bytes = Bench.content(3, parts: 12)
        let item = try await Bench.upload(bytes, to: "a", of: provider)
        let moved = try await Self.move(item.version, of: provider)
        #expect(moved.documentID == item.documentID)
        let read = try await Bench.read(
            Bench.path("b"),
            moved.version,
            size: moved.size,
            of: provider
        )
        #expect(read == bytes)
        // Its tag says of how many parts it is made.
        let key = Array("\(bucket.prefix)/b".utf8)
        #expect(try await bucket.client.head(key).object.entityTag.hasSuffix("-3"))
        let code = await s3Failure { _ = try await provider.item(at: Bench.path("a")) }
        #expect(code == .notFound)
    }
}
