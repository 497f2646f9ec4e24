import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What finding out about conditions does where it fails, and what it leaves.
@Suite(.timeLimit(.minutes(10))) struct S3ProbingTests {
    private typealias Bench = S3ProviderBench

    private static func probes(_ bench: Bench) -> [FakeS3Key] {
        bench.fake.keys(".cloudfs/probe-")
    }

    // MARK: - Copies

    @Test func `a server that honours conditions on copies is found to`() async throws {
        let bench = try await Bench.make()
        #expect(try await bench.provider().rules.copy)
        #expect(Self.probes(bench).isEmpty)
    }

    @Test(arguments: [
        (400, "InvalidRequest"), (403, "AccessDenied"), (404, "NoSuchKey"), (500, "InternalError"),
        (501, "NotImplemented"), (418, "Unheard"),
    ])
    func `a server that refuses copies with conditions moves files without`(
        status: Int,
        code: String
    ) async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: status, code: code), count: nil) { request in
                request.kind == .copy && request.header("if-none-match") != nil
            }
        )
        let provider = try await bench.provider()
        #expect(!provider.rules.copy && provider.rules.create)
        #expect(Self.probes(bench).isEmpty)
        let base = try await Bench.upload([1], to: "a", of: provider).version
        _ = try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        #expect(bench.fake.object("b")?.bytes == [1])
    }

    @Test func `a server that hangs in copies is reached soon`() async throws {
        let bench = try await Bench.make()
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), count: nil, on: .copy))
        var limits = S3Limits()
        // Generous, as this machine may be busy: whatever else is asked has to be answered in it.
        limits.metadata = .seconds(6)
        let provider = bench.unconnected(try bench.client(limits: limits))
        try await Bench.connect(provider)
        gate.open()
        #expect(!provider.rules.copy)
        #expect(bench.fake.requestCount(.copy) > 0)
    }

    @Test func `a server that goes away while it copies is out of reach`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(FakeS3Fault(Bench.lost, on: .copy))
        bench.fake.add(FakeS3Fault(Bench.lost, skipping: 1, count: nil, on: .delete))
        #expect(await s3Failure { _ = try await bench.provider() } == .offline)
        bench.fake.removeFaults()
        #expect(try await bench.provider().rules.copy)
    }

    @Test(arguments: [1, 2])
    func `a copy that is not permitted does not honour its condition`(number: Int) async throws {
        let bench = try await Bench.make()
        bench.fake.add(FakeS3Fault(Bench.refusal, skipping: number, count: nil, on: .copy))
        #expect(try await !bench.provider().rules.copy)
    }

    // MARK: - Deletions

    /// Conditions in a form that a server does not understand hold for nothing, and refuse all.
    @Test(arguments: [FakeS3Settings.EntityTagForms.all, .quoted, .unquoted])
    func `a server that honours conditions on deletions gets them as it understands them`(
        forms: FakeS3Settings.EntityTagForms
    ) async throws {
        var settings = FakeS3Settings()
        settings.ifMatchForms = forms
        let bench = try await Bench.make(settings)
        let provider = try await bench.provider()
        #expect(provider.rules.delete == (forms == .unquoted ? .unquoted : .quoted))
        #expect(Self.probes(bench).isEmpty)
        bench.fake.put("d/a", "text")
        let folder = try await provider.item(at: Bench.path("d")).version
        _ = try await provider.move(from: Bench.path("d"), to: Bench.path("e"), base: folder)
        #expect(bench.fake.keys("d/").isEmpty && bench.fake.requestCount(.deleteBatch) == 0)
        let file = try await provider.item(at: Bench.path("e/a")).version
        try await provider.delete(Bench.path("e/a"), base: file)
        #expect(bench.fake.keys("e/") == ["e/"])
    }

    @Test(arguments: [(400, "InvalidRequest"), (403, "AccessDenied"), (501, "NotImplemented")])
    func `a server that refuses deletions with conditions deletes without`(
        status: Int,
        code: String
    ) async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: status, code: code), count: nil) { request in
                request.kind == .delete && request.header("if-match") != nil
            }
        )
        let provider = try await bench.provider()
        #expect(provider.rules.delete == .refused && !provider.rules.isReadOnly)
        #expect(Self.probes(bench).isEmpty)
        try await deleteAndMove(provider, bench)
    }

    /// As a proxy does that changes tags on the way.
    @Test func `a server on which no condition of a deletion holds gets none`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: 412, code: "PreconditionFailed"), count: nil) { request in
                request.kind == .delete && request.header("if-match") != nil
            }
        )
        let provider = try await bench.provider()
        #expect(provider.rules.delete == .refused)
        try await deleteAndMove(provider, bench)
    }

    private func deleteAndMove(_ provider: S3Provider, _ bench: Bench) async throws {
        bench.fake.put("a", "text")
        bench.fake.put("b", "other text")
        let first = try await provider.item(at: Bench.path("a")).version
        try await provider.delete(Bench.path("a"), base: first)
        let second = try await provider.item(at: Bench.path("b")).version
        _ = try await provider.move(from: Bench.path("b"), to: Bench.path("c"), base: second)
        #expect(bench.fake.keys("a").isEmpty && bench.fake.keys("b").isEmpty)
        #expect(bench.fake.keys("c") == ["c"])
    }

    /// Deleted by the try whose answer was lost, the probe is gone for the next one.
    @Test func `a lost answer to a deletion says nothing of conditions`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(Bench.lost, skipping: 1, count: 1) { request in
                request.kind == .delete && request.header("if-match") != nil
            }
        )
        let provider = try await bench.provider()
        #expect(bench.fake.faultsLeft == 0)
        #expect(provider.rules.delete != .refused)
        try await deleteAndMove(provider, bench)
    }

    /// What a probe of deletions leaves nothing of is deleted all the same.
    @Test func `a server that says of what is gone that it was not found is one`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: 404, code: "NoSuchKey"), count: nil) { request in
                request.kind == .delete && request.header("if-match") == nil
            }
        )
        #expect(try await bench.provider().rules.delete == .quoted)
    }

    @Test func `a server that ignores conditions on deletions is found to`() async throws {
        #expect(try await Bench.make(Bench.batches).provider().rules.delete == .none)
    }

    // MARK: - What stays

    /// Without the condition, what another device writes while a file moves there is overwritten.
    @Test func `a copy whose answer was lost tells nothing of conditions`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(FakeS3Fault(Bench.lost, on: .copy))
        #expect(try await bench.provider().rules.copy)
        #expect(bench.fake.faultsLeft == 0)
        #expect(Self.probes(bench).isEmpty)
    }

    @Test func `a probe that fails halfway is deleted`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: 507, code: "QuotaExceeded")) {
                $0.header("if-match") != nil
            }
        )
        #expect(await s3Failure { _ = try await bench.provider() } == .quotaExceeded)
        #expect(Self.probes(bench).isEmpty)
    }

    @Test(arguments: [(501, "NotImplemented"), (400, "InvalidArgument")])
    func `a server that refuses conditions has none, and is a drive all the same`(
        status: Int,
        code: String
    ) async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: status, code: code), count: nil) { request in
                request.header("if-none-match") != nil || request.header("if-match") != nil
            }
        )
        let provider = try await bench.provider()
        #expect(!provider.rules.create && provider.rules.replace == .none)
        #expect(!provider.rules.isReadOnly)
        #expect(bench.fake.object(".cloudfs/container") != nil)
        _ = try await Bench.upload([1], to: "a", of: provider)
        #expect(bench.fake.object("a")?.bytes == [1])
    }

    @Test func `a server that wants tags in quotes gets them so`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(
            FakeS3Fault(.fail(status: 400, code: "InvalidArgument"), count: nil) { request in
                request.header("if-match").map { !$0.hasPrefix("\"") } ?? false
            }
        )
        #expect(try await bench.provider().rules.replace == .quoted)
    }

    @Test func `who may not delete leaves one probe, however often they connect`() async throws {
        let bench = try await Bench.make()
        bench.fake.add(FakeS3Fault(Bench.refusal, count: nil, on: .delete))
        let provider = try await bench.provider()
        for _ in 1...3 { try await Bench.connect(provider) }
        #expect(provider.rules.isReadOnly)
        #expect(Self.probes(bench).count == 1)
        #expect(bench.fake.requestCount(.copy) == 0)
        bench.fake.removeFaults()
        try await Bench.connect(provider)
        #expect(provider.rules.copy && !provider.rules.isReadOnly)
        #expect(Self.probes(bench).isEmpty)
    }
}
