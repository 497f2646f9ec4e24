import CloudFSTestSupport
import Glibc
import Synchronization
import Testing

@testable import CloudFS

/// Files on their way to a bucket.
@Suite(.timeLimit(.minutes(10))) struct S3SendingTests {
    private typealias Bench = S3ProviderBench

    @Test func `an upload on a slow link takes as long as it moves`() async throws {
        var settings = FakeS3Settings()
        settings.bandwidth = 300_000
        let bench = try await Bench.make(settings)
        var limits = S3Limits()
        // Far less than the bytes take.
        limits.data = .seconds(1)
        limits.slowestRate = 1_000_000_000
        let client = try bench.client(limits: limits)
        let bytes = Array(Bench.content(1, parts: 1).prefix(800_000))
        _ = try await client.put(Array("a".utf8), body: .bytes(bytes))
        #expect(bench.fake.object("a")?.bytes == bytes)
        #expect(bench.fake.requestCount(.put) == 1)
    }

    @Test func `files that wait for their turn are not read`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let size = 10_000
        let file = try ScratchFile([UInt8](repeating: 7, count: size))
        let announced = Mutex(0)
        let gate = FakeS3Gate()
        bench.fake.add(
            FakeS3Fault(.wait(gate), count: nil) { request in
                request.kind == .put && request.key.text.hasPrefix("file")
            }
        )
        var source = UploadSource(
            descriptor: file.descriptor,
            byteCount: Int64(size),
            documentID: .random(),
            metadata: Bench.metadata,
            attributes: [:],
            isUnchanged: { true },
            didSend: { _ in }
        )
        source.willSend = { count async throws(CloudFSError) in announced.withLock { $0 += count } }
        let paths = try (0..<20).map { try Bench.path("file\($0)") }
        try await withThrowingTaskGroup(of: Void.self) { group in
            for path in paths {
                group.addTask { [source] in
                    _ = try await provider.upload(source, to: path, replacing: nil)
                }
            }
            // Half of the sixteen connections are there to send.
            try await eventually("as many are sent as may", within: .seconds(60)) {
                gate.waitingCount == 8
            }
            #expect(announced.withLock { $0 } == 8 * size)
            gate.open()
            try await group.waitForAll()
        }
        #expect(announced.withLock { $0 } == 20 * size)
        #expect(bench.fake.keys("file").count == 20)
        withExtendedLifetime(file) {}
    }

    @Test func `an upload nobody heard of is found although the file is another`() async throws {
        let bench = try await Bench.make()
        let provider = try await bench.provider()
        let directory = try TemporaryDirectory()
        try directory.write([1, 2, 3], to: "source")
        let descriptor = open(directory.path("source"), O_RDWR | O_CLOEXEC)
        defer { close(descriptor) }
        let hasChanged = Mutex(false)
        // It is changed once the drive looks what became of it.
        bench.fake.add(
            FakeS3Fault(.delay(.zero), count: nil) { request in
                guard request.kind == .head, request.key == "a" else { return false }
                var other: UInt8 = 9
                _ = pwrite(descriptor, &other, 1, 0)
                hasChanged.withLock { $0 = true }
                return false
            }
        )
        bench.fake.add(FakeS3Fault(Bench.lost, on: .put, key: "a"))
        let source = UploadSource(
            descriptor: descriptor,
            byteCount: 3,
            documentID: .random(),
            metadata: Bench.metadata,
            attributes: [:],
            isUnchanged: { !hasChanged.withLock { $0 } },
            didSend: { _ in }
        )
        let path = try Bench.path("a")
        let item = try await provider.upload(source, to: path, replacing: nil)
        #expect(hasChanged.withLock { $0 })
        #expect(item.size == 3)
        #expect(bench.fake.object("a")?.bytes == [1, 2, 3])
    }
}
