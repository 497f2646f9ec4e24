import CloudFSTestSupport
import Foundation
import Glibc
import Logging
import Synchronization
import Testing

@testable import CloudFS

/// A bucket in memory, and providers on it that fail quickly.
struct S3ProviderBench {
    let fake: FakeS3Server
    private let transport: HTTPTransport
    private let pool: BlockingPool

    static let modified = Timestamp(seconds: 1_234_567_890, nanoseconds: 123_456_789)
    static let metadata = ItemMetadata(
        permissions: 0o640,
        userID: 1_000,
        groupID: 1_001,
        modified: modified
    )

    static func make(_ settings: FakeS3Settings = FakeS3Settings()) async throws -> Self {
        let pool = BlockingPool(name: "s3-tests", width: 4)
        return S3ProviderBench(
            fake: try await FakeS3Server.start(settings: settings),
            transport: try HTTPTransport(pool: pool),
            pool: pool
        )
    }

    func client(
        clocks: Clocks = .system,
        limits: S3Limits = S3Limits()
    ) throws -> S3Client {
        var limits = limits
        limits.attempts = 3
        limits.backoff = Backoff(
            first: .milliseconds(1),
            longest: .milliseconds(2),
            certainPart: 0.5
        )
        return S3Client(
            endpoint: try S3Endpoint.parse(
                url: fake.endpoint,
                bucket: "bucket",
                region: "us-east-1"
            ),
            credentials: S3FixedCredentials(
                S3Credentials(accessKeyID: "key", secretAccessKey: "secret")
            ),
            transport: transport,
            clocks: clocks,
            limits: limits
        )
    }

    static var settings: S3ProviderSettings {
        var settings = S3ProviderSettings()
        settings.partByteCount = 5 << 20
        settings.pollInterval = .milliseconds(20)
        return settings
    }

    /// Of a server that has no conditions of deletions, of which many are then one request.
    static var batches: FakeS3Settings {
        var settings = FakeS3Settings()
        settings.conditionsOnDelete = .ignored
        return settings
    }

    // MARK: - Uploads in parts

    static let part = 1 << 20

    /// With parts of 1 MiB.
    static var smallParts: S3ProviderSettings {
        var settings = settings
        settings.partByteCount = Int64(part)
        return settings
    }

    /// Bytes for so many of these parts.
    static func content(_ seed: UInt64, parts: Int = 10) -> [UInt8] {
        var random = SeededRandom(seed: seed)
        return random.bytes(parts * part - 100)
    }

    // MARK: - Faults

    /// What is not tried again.
    static let refusal = FakeS3Fault.Action.fail(status: 403, code: "AccessDenied")
    /// The same of a deletion of many, after which they are not tried one by one.
    static let refusalOfBatch = FakeS3Fault.Action.fail(status: 400, code: "MalformedXML")
    /// It is done, and nobody hears of it.
    static let lost = FakeS3Fault.Action.cutAnswer(afterBytes: nil)

    /// Does something while a request waits at a gate, if one ever does.
    static func during<Value: Sendable>(
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

    /// Answers nothing about an object any more, from a request of this kind on.
    func goSilent(from kind: FakeS3RequestKind, of key: FakeS3Key) {
        let isSilent = Mutex(false)
        fake.add(
            FakeS3Fault(Self.lost, count: nil) { request in
                guard request.key == key else { return false }
                return isSilent.withLock { isSilent in
                    isSilent = isSilent || request.kind == kind
                    return isSilent
                }
            }
        )
    }

    /// Loses the answer to one request about an object, and does something before the next.
    ///
    /// - Parameter isNext: Which request may be the next one.
    func losing(
        _ kind: FakeS3RequestKind,
        of key: FakeS3Key,
        isNext: @escaping @Sendable (FakeS3Request) -> Bool,
        _ change: () -> Void,
        _ work: @escaping @Sendable () async throws -> Void
    ) async throws -> Result<Void, any Error> {
        let isLost = Mutex(false)
        let gate = FakeS3Gate()
        fake.add(
            FakeS3Fault(.wait(gate)) { request in
                guard isLost.withLock({ $0 }) else { return false }
                return isNext(request)
            }
        )
        fake.add(
            FakeS3Fault(Self.lost) { request in
                guard request.kind == kind, request.key == key else { return false }
                isLost.withLock { $0 = true }
                return true
            }
        )
        return try await Self.during(gate, change, work)
    }

    // MARK: - Providers

    /// Those of every provider here.
    ///
    /// - Parameter isInParts: Whether every copy is made in parts, as those of 5 GiB are.
    static func settings(copyingInParts isInParts: Bool) -> S3ProviderSettings {
        var settings = Self.settings
        if isInParts { settings.longestCopy = 0 }
        return settings
    }

    /// A provider that is connected.
    func provider(
        device: String = "one",
        prefix: String = "",
        settings: S3ProviderSettings = Self.settings,
        stateDirectory: String? = nil,
        clocks: Clocks = .system
    ) async throws -> S3Provider {
        let provider = unconnected(
            try client(clocks: clocks),
            device: device,
            prefix: prefix,
            settings: settings,
            stateDirectory: stateDirectory
        )
        try await Self.connect(provider)
        return provider
    }

    static func connect(_ provider: S3Provider) async throws {
        _ = try await provider.connect(
            expecting: ContainerExpectation(identity: nil, hasItems: false)
        )
    }

    func unconnected(
        _ client: S3Client,
        device: String = "one",
        prefix: String = "",
        settings: S3ProviderSettings = Self.settings,
        stateDirectory: String? = nil
    ) -> S3Provider {
        S3Provider(
            client: client,
            prefix: Array(prefix.utf8),
            deviceID: device,
            stateDirectory: stateDirectory,
            pool: pool,
            settings: settings,
            logger: Logger(label: "s3-tests")
        )
    }

    static func path(_ text: String) throws -> RemotePath {
        RemotePath(try text.split(separator: "/").map { try ItemName(String($0)) })
    }

    /// Everything in a folder, page by page.
    static func list(
        _ folder: RemotePath,
        of provider: S3Provider
    ) async throws -> [RemoteItem] {
        var items: [RemoteItem] = []
        var token: PageToken?
        repeat {
            let page = try await provider.children(of: folder, after: token)
            items += page.items
            token = page.next
        } while token != nil
        return items
    }

    static func read(
        _ path: RemotePath,
        _ version: ItemVersion,
        size: Int64,
        of provider: S3Provider
    ) async throws -> [UInt8] {
        let collected = S3Bytes()
        try await provider.fetch(path, range: 0..<size, version: version) {
            _,
            bytes async throws(CloudFSError) in
            collected.append(bytes)
        }
        return collected.all
    }

    static func upload(
        _ bytes: [UInt8],
        to path: String,
        of provider: S3Provider,
        replacing base: ItemVersion? = nil,
        documentID: DocumentID = .random(),
        metadata: ItemMetadata = Self.metadata,
        isUnchanged: @escaping @Sendable () -> Bool = { true }
    ) async throws -> RemoteItem {
        let directory = try TemporaryDirectory()
        try directory.write(bytes, to: "source")
        let descriptor = open(directory.path("source"), O_RDONLY | O_CLOEXEC)
        defer { close(descriptor) }
        let source = UploadSource(
            descriptor: descriptor,
            byteCount: Int64(bytes.count),
            documentID: documentID,
            metadata: metadata,
            attributes: [:],
            isUnchanged: isUnchanged,
            didSend: { _ in }
        )
        return try await provider.upload(source, to: try Self.path(path), replacing: base)
    }
}

/// What an operation failed with; `nil` if it did not.
func s3Failure(
    _ work: () async throws -> Void
) async -> CloudFSError.Code? {
    do {
        try await work()
        return nil
    } catch let error as CloudFSError {
        return error.code
    } catch {
        return .internalFailure
    }
}
