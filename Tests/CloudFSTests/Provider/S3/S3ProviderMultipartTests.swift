import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS

@Suite struct S3ProviderMultipartTests {
    @Test func `what a server calls longer than any object is not copied`() async throws {
        let bench = try await S3ProviderBench.make()
        let provider = try await bench.provider()
        let source = S3Object(
            key: Array("a".utf8),
            size: .max,
            entityTag: "t",
            lastModified: CatalogFixture.now
        )
        let failure = await s3Failure {
            let head = S3ObjectHead(object: source, userMetadata: [:])
            _ = try await provider.copy(head, to: Array("b".utf8), over: nil)
        }
        #expect(failure == .tooLarge)
        #expect(bench.fake.keys("b").isEmpty)
    }

    private typealias Bench = S3ProviderBench

    private static func make() async throws -> Bench {
        var settings = FakeS3Settings()
        settings.minimumPartByteCount = 1
        return try await Bench.make(settings)
    }

    @Test(arguments: [0, 1, 5, 9])
    func `an upload goes on where it was interrupted`(sent: Int) async throws {
        let bench = try await Self.make()
        let directory = try TemporaryDirectory()
        let bytes = Bench.content(1)
        let id = DocumentID.random()
        bench.fake.add(FakeS3Fault(Bench.refusal, skipping: sent, count: nil, on: .uploadPart))
        let first = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        let code = await s3Failure {
            _ = try await Bench.upload(bytes, to: "a", of: first, documentID: id)
        }
        #expect(code != nil)
        #expect(bench.fake.object("a") == nil)
        bench.fake.removeFaults()
        let second = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        let item = try await Bench.upload(bytes, to: "a", of: second, documentID: id)
        #expect(item.size == Int64(bytes.count))
        #expect(bench.fake.object("a")?.bytes == bytes)
        let numbers = bench.fake.requests(.uploadPart).filter { $0.status == 200 }
            .compactMap { $0.parameter("partNumber") }
        #expect(numbers.count == 10)
        #expect(Set(numbers).count == 10)
        #expect(bench.fake.requestCount(.createUpload) == 1)
        #expect(bench.fake.uploads().isEmpty)
    }

    @Test func `parts of another content are sent again`() async throws {
        let bench = try await Self.make()
        let directory = try TemporaryDirectory()
        let id = DocumentID.random()
        let (old, new) = (Bench.content(1), Bench.content(2))
        let provider = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        bench.fake.add(FakeS3Fault(Bench.refusal, on: .completeUpload))
        #expect(
            await s3Failure {
                _ = try await Bench.upload(old, to: "a", of: provider, documentID: id)
            } != nil
        )
        _ = try await Bench.upload(new, to: "a", of: provider, documentID: id)
        #expect(bench.fake.object("a")?.bytes == new)
    }

    @Test func `an upload that somebody gave up begins again`() async throws {
        let bench = try await Self.make()
        let directory = try TemporaryDirectory()
        let id = DocumentID.random()
        let bytes = Bench.content(1)
        let provider = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        bench.fake.add(FakeS3Fault(Bench.refusal, on: .completeUpload))
        #expect(
            await s3Failure {
                _ = try await Bench.upload(bytes, to: "a", of: provider, documentID: id)
            } != nil
        )
        let client = try bench.client()
        for upload in try await client.listUploads(prefix: []) {
            try await client.abortUpload(upload.key, upload: upload.id)
        }
        _ = try await Bench.upload(bytes, to: "a", of: provider, documentID: id)
        #expect(bench.fake.object("a")?.bytes == bytes)
        #expect(bench.fake.requestCount(.createUpload) == 2)
    }

    @Test(arguments: [false, true])
    func `a completion whose answer is lost is found to be done`(isCeph: Bool) async throws {
        var settings = isCeph ? FakeS3Settings.ceph : FakeS3Settings()
        settings.minimumPartByteCount = 1
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider(settings: Bench.smallParts)
        bench.fake.add(FakeS3Fault(.cutAnswer(afterBytes: nil), on: .completeUpload))
        let bytes = Bench.content(1)
        let item = try await Bench.upload(bytes, to: "a", of: provider)
        #expect(item.size == Int64(bytes.count))
        #expect(bench.fake.object("a")?.bytes == bytes)
    }

    @Test func `a failed completion is not taken for done because all but bytes agree`()
        async throws
    {
        let bench = try await Self.make()
        let provider = try await bench.provider(settings: Bench.smallParts)
        let id = DocumentID.random()
        let (old, new) = (Bench.content(1), Bench.content(2))
        let item = try await Bench.upload(old, to: "a", of: provider, documentID: id)
        bench.fake.add(FakeS3Fault(Bench.refusal, on: .completeUpload))
        let code = await s3Failure {
            _ = try await Bench.upload(
                new,
                to: "a",
                of: provider,
                replacing: item.version,
                documentID: id
            )
        }
        #expect(code == .denied)
        #expect(bench.fake.object("a")?.bytes == old)
    }

    @Test func `a source that changes meanwhile is not completed`() async throws {
        let bench = try await Self.make()
        let provider = try await bench.provider(settings: Bench.smallParts)
        let code = await s3Failure {
            _ = try await Bench.upload(
                Bench.content(1),
                to: "a",
                of: provider,
                isUnchanged: { false }
            )
        }
        #expect(code == .cancelled)
        #expect(bench.fake.object("a") == nil)
        #expect(bench.fake.requestCount(.completeUpload) == 0)
    }

    @Test(arguments: [false, true], [false, true])
    func `what was written meanwhile stays`(isNew: Bool, isUnconditional: Bool) async throws {
        var settings = isUnconditional ? FakeS3Settings.unconditional : FakeS3Settings()
        settings.minimumPartByteCount = 1
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider(settings: Bench.smallParts)
        var base: ItemVersion?
        if !isNew { base = try await Bench.upload([1], to: "a", of: provider).version }
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: 9, on: .uploadPart))
        async let code = s3Failure { [base] in
            _ = try await Bench.upload(Bench.content(1), to: "a", of: provider, replacing: base)
        }
        try await eventually("the last part is sent", within: .seconds(60)) {
            gate.waitingCount == 1
        }
        bench.fake.put("a", "foreign")
        gate.open()
        #expect(await code == (isNew ? .exists : .remoteChanged))
        #expect(bench.fake.object("a")?.bytes == Array("foreign".utf8))
        #expect(bench.fake.uploads().isEmpty)
    }

    /// On a full disk sending is what makes room.
    @Test func `a file is sent also where the list of uploads cannot be written`() async throws {
        let bench = try await Self.make()
        let directory = try TemporaryDirectory()
        let provider = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path("none")
        )
        let bytes = Bench.content(1, parts: 2)
        _ = try await Bench.upload(bytes, to: "a", of: provider)
        #expect(bench.fake.object("a")?.bytes == bytes)
        #expect(bench.fake.uploads().isEmpty)
    }

    @Test func `where the list of uploads cannot be read, none is begun that it lacks`()
        async throws
    {
        let bench = try await Self.make()
        let directory = try TemporaryDirectory()
        try directory.makeFolder("s3-uploads.json")
        let provider = try await bench.provider(
            settings: Bench.smallParts,
            stateDirectory: directory.path
        )
        let code = await s3Failure {
            _ = try await Bench.upload(Bench.content(1, parts: 2), to: "a", of: provider)
        }
        #expect(code == .internalFailure)
        #expect(bench.fake.uploads().isEmpty)
    }

    @Test func `a copy begins when the interrupted one was given up, and not before`()
        async throws
    {
        let bench = try await Self.make()
        let directory = try TemporaryDirectory()
        let provider = try await bench.provider(
            settings: Bench.settings(copyingInParts: true),
            stateDirectory: directory.path
        )
        let base = try await Bench.upload([1], to: "a", of: provider).version
        bench.fake.add(FakeS3Fault(Bench.refusal, on: .copyPart))
        bench.fake.add(FakeS3Fault(Bench.refusal, count: 2, on: .abortUpload))
        // First the copy fails and what there is of it stays, then it cannot be given up.
        for _ in 0..<2 {
            let code = await s3Failure {
                _ = try await provider.move(
                    from: Bench.path("a"),
                    to: Bench.path("b"),
                    base: base
                )
            }
            #expect(code == .denied)
            #expect(bench.fake.uploads() == ["b"])
            #expect(try await provider.uploads.keys() == [Array("b".utf8)])
        }
        #expect(bench.fake.requestCount(.createUpload) == 1)
        _ = try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        #expect(bench.fake.object("b")?.bytes == [1])
        #expect(bench.fake.uploads().isEmpty)
        #expect(try await provider.uploads.keys().isEmpty)
    }

    @Test func `an upload that is gone while parts are sent is begun again`() async throws {
        let bench = try await Self.make()
        let provider = try await bench.provider(settings: Bench.smallParts)
        bench.fake.add(
            FakeS3Fault(
                .fail(status: 404, code: "NoSuchUpload"),
                skipping: 3,
                on: .uploadPart
            )
        )
        let code = await s3Failure {
            _ = try await Bench.upload(Bench.content(1), to: "a", of: provider)
        }
        #expect(code != nil)
        _ = try await Bench.upload(Bench.content(1), to: "a", of: provider)
        #expect(bench.fake.object("a")?.bytes == Bench.content(1))
    }
}
