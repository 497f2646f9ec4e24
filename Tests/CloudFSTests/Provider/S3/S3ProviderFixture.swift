import CloudFSTestSupport
import Foundation
import Logging
import Synchronization
import Testing

@testable import CloudFS

/// Containers in buckets, each with two devices and a foreign program.
enum S3ProviderFixture {
    enum Server: Sendable {
        case inMemory(FakeS3Settings)
        case real(S3TestServer)
    }

    static func make(on server: Server) async throws -> ProviderFixture {
        let bucket = try await S3Bucket.make(on: server)
        let provider = try bucket.provider(device: "one")
        let other = try bucket.provider(device: "two")
        let none = ContainerExpectation(identity: nil, hasItems: false)
        _ = try await provider.connect(expecting: none)
        _ = try await other.connect(expecting: none)
        return ProviderFixture(provider: provider, foreign: bucket, other: other)
    }
}

/// A place in a bucket that nobody else uses.
struct S3Bucket: ForeignWriter {
    /// Kept alive as long as it is used.
    let fake: FakeS3Server?
    let endpoint: S3Endpoint
    let credentials: S3Credentials
    let prefix: String
    private let transport: HTTPTransport
    private let pool: BlockingPool

    /// One bucket on each real server, in which every test has a prefix of its own.
    private static let buckets = Mutex<[S3TestServer: Task<String, any Error>]>([:])

    static func make(on server: S3ProviderFixture.Server) async throws -> S3Bucket {
        let pool = BlockingPool(name: "s3-tests", width: 4)
        let transport = try HTTPTransport(pool: pool)
        switch server {
        case .inMemory(let settings):
            let fake = try await FakeS3Server.start(settings: settings)
            return S3Bucket(
                fake: fake,
                endpoint: try S3Endpoint.parse(
                    url: fake.endpoint,
                    bucket: "bucket",
                    region: "us-east-1"
                ),
                credentials: S3Credentials(accessKeyID: "key", secretAccessKey: "secret"),
                prefix: "",
                transport: transport,
                pool: pool
            )
        case .real(let server):
            let name = try await bucket(on: server)
            return S3Bucket(
                fake: nil,
                endpoint: try S3Endpoint.parse(
                    url: server.endpoint,
                    bucket: name,
                    region: server.region
                ),
                credentials: S3Credentials(
                    accessKeyID: server.accessKeyID,
                    secretAccessKey: server.secretAccessKey
                ),
                prefix: "tests/\(UUID().uuidString)",
                transport: transport,
                pool: pool
            )
        }
    }

    private static func bucket(on server: S3TestServer) async throws -> String {
        let task = buckets.withLock { buckets in
            if let task = buckets[server] { return task }
            let task = Task { try await S3TestServers.makeBucket(on: server) }
            buckets[server] = task
            return task
        }
        return try await task.value
    }

    var client: S3Client {
        S3Client(
            endpoint: endpoint,
            credentials: S3FixedCredentials(credentials),
            transport: transport
        )
    }

    func provider(
        device: String,
        settings: S3ProviderSettings = .forTests,
        stateDirectory: String? = nil
    ) throws -> S3Provider {
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

    private func key(_ path: String) -> [UInt8] {
        Array((prefix.isEmpty ? path : "\(prefix)/\(path)").utf8)
    }

    // MARK: - ForeignWriter

    func write(_ bytes: [UInt8], to path: String) async throws {
        _ = try await client.put(key(path), body: .bytes(bytes))
    }

    func makeFiles(_ count: Int, in folder: String) async throws {
        let client = client
        let base = key(folder)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<count {
                if number >= 16 { try await group.next() }
                group.addTask {
                    let key = base + Array("/\(number)".utf8)
                    _ = try await client.put(key, body: .bytes([]))
                }
            }
            try await group.waitForAll()
        }
    }
}

extension S3ProviderSettings {
    /// Small parts, and quick looks.
    static var forTests: S3ProviderSettings {
        var settings = S3ProviderSettings()
        settings.partByteCount = 5 << 20
        settings.pollInterval = .milliseconds(50)
        return settings
    }
}
