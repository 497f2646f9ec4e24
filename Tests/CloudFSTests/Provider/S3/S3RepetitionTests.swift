import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What is sent again because its answer was lost meets what somebody else has written since.
@Suite(.timeLimit(.minutes(10))) struct S3RepetitionTests {
    private typealias Bench = S3ProviderBench

    private static let new = Array("new".utf8)

    private static func code(_ outcome: Result<Void, any Error>) -> CloudFSError.Code? {
        if case .failure(let error as CloudFSError) = outcome { error.code } else { nil }
    }

    /// Loses the answer to the deletion of `a`, and writes another file there before anything else
    /// is asked about it.
    private static func losingDeletion(
        on server: S3LostAnswerTests.Server,
        of work: @escaping @Sendable (S3Provider, ItemVersion) async throws -> Void
    ) async throws -> (Bench, Result<Void, any Error>) {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let outcome = try await bench.losing(.delete, of: "a") {
            $0.key == "a"
        } _: {
            bench.fake.put("a", "new")
        } _: {
            try await work(provider, base)
        }
        return (bench, outcome)
    }

    // MARK: - What another device wrote

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `a file that is written after its deletion was lost is not deleted`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let (bench, outcome) = try await Self.losingDeletion(on: server) { provider, base in
            try await provider.delete(Bench.path("a"), base: base)
        }
        #expect(bench.fake.object("a")?.bytes == Self.new)
        #expect(Self.code(outcome) == .remoteChanged)
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `a folder that is made after its deletion was lost is not deleted`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        bench.fake.put("d/", "")
        let path = try Bench.path("d")
        let base = try await provider.item(at: path).version
        _ = try await bench.losing(.delete, of: "d/") {
            $0.key == "d/"
        } _: {
            bench.fake.put("d/", "new")
        } _: {
            try await provider.delete(path, base: base)
        }
        #expect(bench.fake.object("d/")?.bytes == Self.new)
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases, [false, true])
    func `a file that is written after a move's copy was lost is not overwritten`(
        server: S3LostAnswerTests.Server,
        isInParts: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider(
            settings: Bench.settings(copyingInParts: isInParts)
        )
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let kind: FakeS3RequestKind = isInParts ? .completeUpload : .copy
        let outcome = try await bench.losing(kind, of: "b") {
            $0.key == "b"
        } _: {
            bench.fake.put("b", "new")
        } _: {
            _ = try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        }
        #expect(bench.fake.object("b")?.bytes == Self.new)
        #expect(bench.fake.object("a")?.bytes == [1])
        #expect(Self.code(outcome) == .exists)
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `a file that is written in the old place after a move's deletion was lost costs nothing`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let (bench, outcome) = try await Self.losingDeletion(on: server) { provider, base in
            _ = try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        }
        #expect(bench.fake.object("a")?.bytes == Self.new)
        #expect(bench.fake.object("b")?.bytes == [1])
        try outcome.get()
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `a version that is written after a change of metadata was lost keeps its own`(
        server: S3LostAnswerTests.Server
    ) async throws {
        var settings = server.settings
        settings.conditionsOnCopySource = .ignored
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let outcome = try await bench.losing(.copy, of: "a") {
            $0.key == "a"
        } _: {
            bench.fake.put("a", "new", metadata: ["mode": "33188"])
        } _: {
            let update = MetadataUpdate(metadata: Bench.metadata)
            _ = try await provider.setMetadata(update, at: Bench.path("a"), base: base)
        }
        #expect(bench.fake.object("a")?.metadata == ["mode": "33188"])
        #expect(Self.code(outcome) == .remoteChanged)
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `metadata that are written after a change of metadata was lost stay`(
        server: S3LostAnswerTests.Server
    ) async throws {
        var settings = server.settings
        // Neither tag nor time tells one change from the other.
        let now = Clocks.system.now()
        settings.now = { now }
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let outcome = try await bench.losing(.copy, of: "a") {
            $0.key == "a"
        } _: {
            bench.fake.put("a", [1], metadata: ["mode": "33188"])
        } _: {
            let update = MetadataUpdate(attributes: ["user.a": [1]])
            _ = try await provider.setMetadata(update, at: Bench.path("a"), base: base)
        }
        #expect(bench.fake.object("a")?.metadata == ["mode": "33188"])
        #expect(Self.code(outcome) == .remoteChanged)
    }

    /// The tag is that of the bytes, of which nobody knows how often they were there.
    @Test(arguments: S3LostAnswerTests.Server.allCases, [[1], [2]])
    func `metadata that are written after an upload was lost stay`(
        server: S3LostAnswerTests.Server,
        bytes: [UInt8]
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let outcome = try await bench.losing(.put, of: "a") {
            $0.key == "a"
        } _: {
            bench.fake.put("a", [1], metadata: ["mode": "33188"])
        } _: {
            _ = try await Bench.upload(bytes, to: "a", of: provider, replacing: base)
        }
        #expect(bench.fake.object("a")?.metadata == ["mode": "33188"])
        #expect(Self.code(outcome) != nil)
    }

    /// Taken for what was sent, its version would be known, and nobody would ask what else it has.
    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `a new file whose upload was lost and that was written on since is not what was sent`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        let written = try S3Metadata.headers(
            Bench.metadata,
            kind: .file,
            documentID: DocumentID(high: 1, low: 2),
            attributes: ["user.a": [1]]
        )
        let mark = try #require(written["xattr"])
        let outcome = try await bench.losing(.put, of: "a") {
            $0.key == "a"
        } _: {
            let sent = bench.fake.object("a")?.metadata ?? [:]
            bench.fake.put("a", [1], metadata: sent.merging(["xattr": mark]) { $1 })
        } _: {
            _ = try await Bench.upload([1], to: "a", of: provider)
        }
        #expect(Self.code(outcome) != nil)
        #expect(try await provider.item(at: Bench.path("a")).attributes == ["user.a": [1]])
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `what is written on a folder after a change of it was lost stays`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        bench.fake.put("d/", "", metadata: ["mode": "16877"])
        let path = try Bench.path("d")
        let base = try await provider.item(at: path).version
        _ = try await bench.losing(.put, of: "d/") {
            $0.key == "d/"
        } _: {
            bench.fake.put("d/", "", metadata: ["mode": "16832"])
        } _: {
            let update = MetadataUpdate(attributes: ["user.a": [1]])
            _ = try await provider.setMetadata(update, at: path, base: base)
        }
        #expect(bench.fake.object("d/")?.metadata == ["mode": "16832"])
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases, [false, true])
    func `what is to be written on a folder is written though the first try was lost`(
        server: S3LostAnswerTests.Server,
        isDone: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        bench.fake.put("d/", "", metadata: ["mode": "16832"])
        let path = try Bench.path("d")
        let base = try await provider.item(at: path).version
        let action = isDone ? Bench.lost : .fail(status: 500, code: "InternalError")
        bench.fake.add(FakeS3Fault(action, on: .put, key: "d/"))
        let update = MetadataUpdate(attributes: ["user.a": [1]])
        let item = try await provider.setMetadata(update, at: path, base: base)
        #expect(item.attributes == ["user.a": [1]] && item.metadata.permissions == 0o700)
    }

    @Test func `a deletion that failed is not done because the bucket is gone`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.fail(status: 500, code: "InternalError"), on: .delete))
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: 1, on: .head, key: "a"))
        let outcome = try await Bench.during(gate) {
            bench.fake.removeBucket("bucket")
        } _: {
            try await provider.delete(Bench.path("a"), base: base)
        }
        #expect(Self.code(outcome) == .offline)
    }

    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `what is written into a moved folder after its emptying was lost is not deleted`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        bench.fake.put("d/a", "old")
        bench.fake.put("d/b", "b")
        let base = try await provider.item(at: Bench.path("d")).version
        let isBatch = server != .ideal
        let kind: FakeS3RequestKind = isBatch ? .deleteBatch : .delete
        let outcome = try await bench.losing(kind, of: isBatch ? "" : "d/a") { request in
            request.kind == kind || request.parameter("prefix") == "d/" || request.key == "d/a"
        } _: {
            bench.fake.put("d/a", "new")
        } _: {
            _ = try await provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
        }
        try outcome.get()
        let all = (bench.fake.keys("e/") + bench.fake.keys("d/"))
            .compactMap { bench.fake.object($0)?.bytes }
        #expect(all.contains(Self.new))
        #expect(bench.fake.keys("d/").isEmpty)
    }

    /// What was written late is copied before its page of the old folder is deleted; that takes its
    /// time.
    @Test(arguments: S3LostAnswerTests.Server.allCases)
    func `what is written in the old folder while another late file is copied is not deleted`(
        server: S3LostAnswerTests.Server
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider()
        for name in ["a", "b"] { bench.fake.put(FakeS3Key("d/\(name)"), "old") }
        let base = try await provider.item(at: Bench.path("d")).version
        let (copying, late) = (FakeS3Gate(), FakeS3Gate())
        bench.fake.add(FakeS3Fault(.wait(copying), on: .copy, key: "e/b"))
        bench.fake.add(FakeS3Fault(.wait(late), on: .copy, key: "e/z"))
        let outcome = try await Bench.during(copying) {
            bench.fake.put("d/z", "late")
        } _: {
            try await Bench.during(late) {
                bench.fake.put("d/a", "new")
            } _: {
                _ = try await provider.move(from: Bench.path("d"), to: Bench.path("e"), base: base)
            }.get()
        }
        try outcome.get()
        let all = (bench.fake.keys("e/") + bench.fake.keys("d/"))
            .compactMap { bench.fake.object($0)?.bytes }
        #expect(all.contains(Self.new) && all.contains(Array("late".utf8)))
        #expect(bench.fake.keys("d/").isEmpty)
    }

    @Test(arguments: [false, true])
    func `a file that is written after an upload without conditions was lost stays`(
        isNew: Bool
    ) async throws {
        let bench = try await Bench.make(.unconditional)
        let provider = try await bench.provider()
        let base = isNew ? nil : try await Bench.upload([1], to: "a", of: provider).version
        let outcome = try await bench.losing(.put, of: "a") {
            $0.key == "a"
        } _: {
            bench.fake.put("a", "new")
        } _: {
            _ = try await Bench.upload([2], to: "a", of: provider, replacing: base)
        }
        #expect(bench.fake.object("a")?.bytes == Self.new)
        #expect(Self.code(outcome) == (isNew ? .offline : .remoteChanged))
    }

    // MARK: - What nobody wrote

    @Test(arguments: S3LostAnswerTests.Server.allCases, [false, true])
    func `what nobody else has changed is done at once, whatever became of the first try`(
        server: S3LostAnswerTests.Server,
        isDone: Bool
    ) async throws {
        let bench = try await Bench.make(server.settings)
        let provider = try await bench.provider(settings: Bench.smallParts)
        let action = isDone ? Bench.lost : .fail(status: 500, code: "InternalError")
        let kinds: [FakeS3RequestKind] = [.copy, .delete, .deleteBatch]
        for kind in kinds { bench.fake.add(FakeS3Fault(action, on: kind)) }
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let update = MetadataUpdate(metadata: Bench.metadata)
        let (path, target) = (try Bench.path("a"), try Bench.path("d/b"))
        var item = try await provider.setMetadata(update, at: path, base: base)
        bench.fake.put("d/", "")
        for kind in kinds { bench.fake.add(FakeS3Fault(action, on: kind)) }
        item = try await provider.move(from: path, to: target, base: item.version)
        for kind in kinds { bench.fake.add(FakeS3Fault(action, on: kind)) }
        let folder = try await provider.item(at: target.parent).version
        _ = try await provider.move(from: target.parent, to: Bench.path("e"), base: folder)
        #expect(bench.fake.object("e/b")?.bytes == [1])
        for kind in kinds { bench.fake.add(FakeS3Fault(action, on: kind)) }
        try await provider.delete(Bench.path("e/b"), base: item.version)
        #expect(bench.fake.keys("").filter { !$0.hasPrefix(".cloudfs/") } == ["e/"])
    }

    @Test func `a server that implements no conditions is asked without`() async throws {
        var settings = FakeS3Settings()
        settings.minimumPartByteCount = 1
        settings.conditionsOnDelete = .refused
        settings.conditionsOnCopy = .refused
        settings.conditionsOnCompletion = .refused
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider(settings: Bench.smallParts)
        let bytes = Bench.content(1, parts: 2)
        let base = try await Bench.upload(bytes, to: "a", of: provider).version
        let target = try Bench.path("b")
        let item = try await provider.move(from: Bench.path("a"), to: target, base: base)
        #expect(bench.fake.object("b")?.bytes == bytes)
        try await provider.delete(target, base: item.version)
        #expect(bench.fake.keys("").allSatisfy { $0.hasPrefix(".cloudfs/") })
    }
}
