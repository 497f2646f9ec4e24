import Synchronization

@testable import CloudFS

/// A client of a server that a test scripts.
final class S3ClientFixture: Sendable {
    let server: ScriptedServer
    let client: S3Client
    private let transport: HTTPTransport
    private let log = Log()

    init(
        credentials: any S3CredentialSource = S3FixedCredentials(S3ClientFixture.credentials),
        limits: S3Limits = .quick,
        _ script: @escaping @Sendable (ScriptedServer.Request) -> [ScriptedServer.Step]
    ) throws {
        server = try ScriptedServer(script)
        transport = try HTTPTransport(pool: BlockingPool(name: "s3-test", width: 2))
        client = S3Client(
            endpoint: S3Endpoint(
                scheme: .http,
                host: "127.0.0.1",
                port: server.port,
                bucket: "bucket",
                region: "us-east-1",
                style: .path
            ),
            credentials: credentials,
            transport: transport,
            limits: limits,
            note: { [log] in log.add($0) }
        )
    }

    var notes: [S3Note] { log.notes }

    static let credentials = S3Credentials(accessKeyID: "AKIDEXAMPLE", secretAccessKey: "secret")

    func stop() async {
        await transport.shutdown()
        server.stop()
    }

    private final class Log: Sendable {
        private let state = Mutex<[S3Note]>([])

        var notes: [S3Note] { state.withLock { $0 } }

        func add(_ note: S3Note) { state.withLock { $0.append(note) } }
    }
}

/// Runs a test against a scripted server, which ends with it.
func withS3Client<Value>(
    credentials: any S3CredentialSource = S3FixedCredentials(S3ClientFixture.credentials),
    limits: S3Limits = .quick,
    _ script: @escaping @Sendable (ScriptedServer.Request) -> [ScriptedServer.Step],
    _ body: (S3ClientFixture) async throws -> Value
) async throws -> Value {
    let fixture = try S3ClientFixture(credentials: credentials, limits: limits, script)
    do {
        let value = try await body(fixture)
        await fixture.stop()
        return value
    } catch {
        await fixture.stop()
        throw error
    }
}

/// What a download delivered.
final class S3Delivered: Sendable {
    private let state = Mutex((bytes: [UInt8](), offset: Int64?.none))

    /// The bytes in order; a gap or a repetition shows as a wrong offset.
    var bytes: [UInt8] { state.withLock { $0.bytes } }
    var firstOffset: Int64? { state.withLock { $0.offset } }

    func take(_ offset: Int64, _ bytes: [UInt8]) throws(CloudFSError) {
        let fits = state.withLock { state in
            let first = state.offset ?? offset
            state.offset = first
            guard offset == first + Int64(state.bytes.count) else { return false }
            state.bytes += bytes
            return true
        }
        guard fits else { throw CloudFSError(.internalFailure, "delivered out of order") }
    }
}

extension S3Client {
    func get(
        _ key: String,
        range: Range<Int64>? = nil,
        ifMatch: String? = nil,
        into delivered: S3Delivered = S3Delivered()
    ) async throws(CloudFSError) -> S3ObjectHead {
        try await get(Array(key.utf8), range: range, ifMatch: ifMatch) {
            offset,
            piece throws(CloudFSError) in
            try delivered.take(offset, piece.bytes)
        }
    }
}

extension [ScriptedServer.Step] {
    static let modified = "Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT"

    /// An object or, with `range`, a part of it.
    static func object(
        _ content: String,
        tag: String = "tag",
        range: String? = nil
    ) -> [ScriptedServer.Step] {
        let headers =
            ["ETag: \"\(tag)\"", modified] + (range.map { ["Content-Range: \($0)"] } ?? [])
        return answer(range == nil ? 200 : 206, headers, content)
    }

    static func document(_ text: String) -> [ScriptedServer.Step] {
        answer(200, ["Content-Type: application/xml"], text)
    }

    /// A listing of these keys.
    static func listing(_ keys: [String], next: String? = nil) -> [ScriptedServer.Step] {
        let entries = keys.map { key in
            "<Contents><Key>\(key)</Key><LastModified>2015-10-21T07:28:00.000Z</LastModified>"
                + "<ETag>&quot;tag&quot;</ETag><Size>1</Size></Contents>"
        }
        let end =
            next.map {
                "<IsTruncated>true</IsTruncated><NextContinuationToken>\($0)"
                    + "</NextContinuationToken>"
            } ?? "<IsTruncated>false</IsTruncated>"
        return document(
            "<ListBucketResult><EncodingType>url</EncodingType>\(entries.joined())\(end)"
                + "</ListBucketResult>"
        )
    }
}

extension S3Limits {
    /// With waits too short to notice.
    static let quick: S3Limits = {
        var limits = S3Limits()
        limits.backoff = Backoff(first: .milliseconds(1), longest: .milliseconds(5))
        // Tests are about counts; a busy machine must not end them by time.
        limits.metadata = .seconds(600)
        return limits
    }()
}
