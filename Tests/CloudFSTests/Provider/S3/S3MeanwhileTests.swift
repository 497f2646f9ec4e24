import CloudFSTestSupport
import Synchronization
import Testing

@testable import CloudFS

/// What others write between the requests of one change.
@Suite struct S3MeanwhileTests {
    private typealias Bench = S3ProviderBench

    /// Does something while a request waits at a gate, if one ever does.
    private static func during<Value: Sendable>(
        _ gate: FakeS3Gate,
        _ change: () -> Void,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Result<Value, any Error> {
        let outcome = Mutex<Result<Value, any Error>?>(nil)
        async let done: Void = {
            let result: Result<Value, any Error>
            do { result = .success(try await work()) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
        }()
        try await eventually("a request waits, or all is done", within: .seconds(60)) {
            gate.waitingCount == 1 || outcome.withLock { $0 != nil }
        }
        if gate.waitingCount == 1 { change() }
        gate.open()
        await done
        return try #require(outcome.withLock { $0 })
    }

    /// Whether a change was refused, or tells another version than that of somebody else.
    private static func isKnown(
        _ outcome: Result<RemoteItem, any Error>,
        from tag: String
    ) -> Bool {
        switch outcome {
        case .success(let item): S3Provider.entityTag(item.version) != tag
        case .failure(let error as CloudFSError):
            [.remoteChanged, .exists, .notFound].contains(error.code)
        case .failure: false
        }
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
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: spared) { $0.key == "x" })
        var tag = ""
        let outcome = try await Self.during(gate) {
            tag = bench.fake.put("x", "other")
        } _: {
            let update = MetadataUpdate(metadata: Bench.metadata)
            return try await provider.setMetadata(update, at: Bench.path("x"), base: base)
        }
        #expect(Self.isKnown(outcome, from: tag), "\(outcome)")
    }

    @Test(arguments: 0..<5)
    func `a version written after a move is not taken for the moved one`(spared: Int) async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let base = try await Bench.upload([1], to: "a", of: provider).version
        let gate = FakeS3Gate()
        bench.fake.add(FakeS3Fault(.wait(gate), skipping: spared) { $0.key == "b" })
        var tag = ""
        let outcome = try await Self.during(gate) {
            tag = bench.fake.put("b", "other")
        } _: {
            try await provider.move(from: Bench.path("a"), to: Bench.path("b"), base: base)
        }
        #expect(Self.isKnown(outcome, from: tag), "\(outcome)")
    }
}
