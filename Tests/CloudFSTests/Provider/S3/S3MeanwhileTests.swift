import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What others write between the requests of one change.
@Suite struct S3MeanwhileTests {
    private typealias Bench = S3ProviderBench

    /// Requires that a change is refused, or tells another version than the one that somebody else
    /// writes before the request about `key` that comes after `spared` others.
    private static func requireKnown(
        _ bench: Bench,
        writing key: FakeS3Key,
        _ spared: Int,
        _ work: @escaping @Sendable () async throws -> RemoteItem
    ) async throws {
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: spared) { $0.key == key })
        var tag = ""
        let outcome = try await Bench.during(gate) {
            tag = bench.fake.put(key, "other")
        } _: {
            try await work()
        }
        let isKnown =
            switch outcome {
            case .success(let item): S3Provider.entityTag(item.version) != tag
            case .failure(let error as CloudFSError):
                [.remoteChanged, .exists, .notFound].contains(error.code)
            case .failure: false
            }
        #expect(isKnown, "\(outcome)")
    }

    @Test(arguments: 0..<4, [FakeS3Settings.Conditions.honoured, .ignored])
    func `a version written while metadata change is not taken for their own`(
        spared: Int,
        conditions: FakeS3Settings.Conditions
    ) async throws {
        var settings = FakeS3Settings()
        settings.conditionsOnCopySource = conditions
        settings.conditionsOnCopy = conditions
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "x", of: provider).version
        try await Self.requireKnown(bench, writing: "x", spared) {
            let update = MetadataUpdate(metadata: Bench.metadata)
            return try await provider.setMetadata(update, at: Bench.path("x"), base: base)
        }
    }

    @Test(arguments: 0..<5)
    func `a version written after a move is not taken for the moved one`(spared: Int) async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        try await Self.requireKnown(bench, writing: "b", spared) {
            try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        }
    }

    @Test(arguments: ["a", "d/"])
    func `a version written while a file moves away is not deleted`(key: String) async throws {
        let bench = try await Bench.make(.ceph)
        let provider = try await bench.provider()
        bench.fake.put("d/a", "old")
        let base = try await provider.item(at: Bench.path("d/a")).version
        let gate = FakeS3Gate()
        // While it is copied, or its folder gets a marker.
        bench.fake.add(
            FakeS3Fault(.wait(gate)) { request in
                request.method == "PUT" && request.key == FakeS3Key(key == "a" ? "b" : "d/")
            }
        )
        let outcome = try await Bench.during(gate) {
            bench.fake.put("d/a", "new")
        } _: {
            try await provider.move(from: Bench.path("d/a"), to: Bench.path("b"), base: base)
        }
        #expect(bench.fake.object("d/a")?.bytes == Array("new".utf8))
        #expect(throws: CloudFSError.self) { try outcome.get() }
    }

    @Test func `a version written while its folder gets a marker is not deleted`() async throws {
        let bench = try await Bench.make(.ceph)
        let provider = try await bench.provider()
        bench.fake.put("d/a", "old")
        let base = try await provider.item(at: Bench.path("d/a")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate)) { $0.method == "PUT" && $0.key == "d/" })
        let outcome = try await Bench.during(gate) {
            bench.fake.put("d/a", "new")
        } _: {
            try await provider.delete(Bench.path("d/a"), base: base)
        }
        #expect(bench.fake.object("d/a")?.bytes == Array("new".utf8))
        #expect(throws: CloudFSError.self) { try outcome.get() }
    }

    @Test func `an object with bytes under the name of a folder is not removed`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("a/", "data")
        let path = try Bench.path("a")
        let base = try await provider.item(at: path).version
        let error = await #expect(throws: CloudFSError.self) {
            try await provider.delete(path, base: base)
        }
        #expect(error?.code == .notEmpty)
        #expect(bench.fake.object("a/")?.bytes == Array("data".utf8))
    }

    /// Requires that every request fails with `offline`, and leaves the file as it is.
    ///
    /// - Parameter hidesListings: Whether that is also what listings are answered with.
    private static func requireAway(
        _ answer: FakeS3Fault.Action,
        hidesListings: Bool = true,
        saying words: String
    ) async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        bench.fake.put("d/b", "b")
        let folder = try await provider.item(at: Bench.path("d")).version
        bench.fake.add(FakeS3Fault(answer, count: nil) { hidesListings || $0.key != "" })
        let path = try Bench.path("a")
        let update = MetadataUpdate(metadata: Bench.metadata)
        var asks: [@Sendable () async throws -> Void] = [
            { _ = try await provider.item(at: path) },
            { try await provider.delete(path, base: base) },
            { _ = try await Bench.upload([2], to: "a", of: provider, replacing: base) },
            { _ = try await Bench.upload([2], to: "new", of: provider) },
            { _ = try await provider.move(from: path, to: Bench.path("c"), base: base) },
            { _ = try await provider.move(from: Bench.path("d"), to: path, base: folder) },
            { _ = try await provider.setMetadata(update, at: path, base: base) },
        ]
        if hidesListings {
            asks.append { _ = try await provider.children(of: .root, after: nil) }
            asks.append { try await provider.delete(Bench.path("d"), base: folder) }
        }
        for (number, ask) in asks.enumerated() {
            let error = await #expect(throws: CloudFSError.self, "\(number)") { try await ask() }
            #expect(error?.code == .offline, "\(number)")
            #expect(error?.message.contains(words) == true, "\(number): \(error?.message ?? "")")
        }
        bench.fake.removeFaults()
        #expect(bench.fake.object("a")?.bytes == [1])
    }

    @Test(arguments: [true, false])
    func `what a proxy does not find while the server is away is not gone`(
        hidesListings: Bool
    ) async throws {
        let page = """
            HTTP/1.1 404 Not Found\r
            Content-Type: text/plain\r
            Content-Length: 0\r
            Connection: close\r
            \r

            """
        try await Self.requireAway(
            .raw(Array(page.utf8)),
            hidesListings: hidesListings,
            saying: "answers as no server of objects does"
        )
    }

    @Test func `a bucket that is gone takes nothing along`() async throws {
        try await Self.requireAway(
            .fail(status: 404, code: "NoSuchBucket"),
            saying: "there is no bucket \"bucket\""
        )
    }
}
