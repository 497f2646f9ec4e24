import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What others write in the place of something that is on its way.
@Suite(.timeLimit(.minutes(10))) struct S3OverwritingTests {
    private typealias Bench = S3ProviderBench

    @Test(arguments: S3LostAnswerTests.Server.allCases, [false, true])
    func `what is written in a file's new place while it moves is not overwritten`(
        server: S3LostAnswerTests.Server,
        isInParts: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider(
            settings: Bench.settings(copyingInParts: isInParts)
        )
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let gate = FakeS3Gate()
        // Servers without conditions leave a window of one request: it comes after the last look.
        let takesConditions = server == .ideal
        bench.fake.add(
            FakeS3Fault(.wait(gate)) { request in
                let isLast = request.kind == .copy || request.kind == .completeUpload
                return takesConditions
                    ? isLast && request.key == "b"
                    : request.kind == (isInParts ? .copyPart : .list)
                        && (request.key == "b" || request.parameter("prefix") == "b/")
            }
        )
        let outcome = try await Bench.during(gate) {
            bench.fake.put("b", "other")
        } _: {
            try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        }
        #expect(bench.fake.object("b")?.bytes == Array("other".utf8))
        #expect(bench.fake.object("a")?.bytes == [1])
        let error = #expect(throws: CloudFSError.self) { try outcome.get() }
        #expect(error?.code == .exists)
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases, [false, true])
    func `what is written in the new folder before its copy is not overwritten`(
        server: S3LostAnswerTests.Server,
        isInParts: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        bench.fake.put("d/a", "a")
        bench.fake.put("d/b", "b")
        var settings = Bench.settings(copyingInParts: isInParts)
        settings.parallelLooks = 1
        let provider = try await bench.provider(settings: settings)
        let base = try await provider.item(at: Bench.path("d")).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate)) { $0.method == "PUT" && $0.key == "e/a" })
        let outcome = try await Bench.during(gate) {
            bench.fake.put("e/b", "other")
        } _: {
            try await provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        }
        _ = try outcome.get()
        let all = bench.fake.keys("e/").compactMap { bench.fake.object($0)?.bytes }
        for bytes in ["a", "b", "other"].map({ Array($0.utf8) }) {
            #expect(all.contains(bytes))
        }
        #expect(bench.fake.object("e/b")?.bytes == Array("other".utf8))
    }

    @Test func `attributes that a folder gets elsewhere are not overwritten unseen`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        bench.fake.put("d/", "")
        let path = try Bench.path("d")
        let base = try await provider.item(at: path).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), on: .put, key: "d/"))
        let outcome = try await Bench.during(gate) {
            bench.fake.put("d/", "data")
        } _: {
            let update = MetadataUpdate(metadata: Bench.metadata)
            return try await provider.setMetadata(update, at: path, base: base)
        }
        #expect(bench.fake.object("d/")?.bytes == Array("data".utf8))
        let error = #expect(throws: CloudFSError.self) { try outcome.get() }
        #expect(error?.code == .remoteChanged)
    }
}
