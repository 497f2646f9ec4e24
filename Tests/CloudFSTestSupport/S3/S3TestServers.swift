import Crypto
import Foundation

/// A real S3 server that runs while the tests do.
public struct S3TestServer: Sendable, Hashable, CustomStringConvertible {
    /// `moto` or `ceph`.
    public let name: String
    /// Without a slash at the end.
    public let endpoint: String
    public let region: String
    public let accessKeyID: String
    public let secretAccessKey: String

    public var description: String { "\(name) at \(endpoint)" }

    /// Whether conditions hold when many ask at once.
    public var isAtomic: Bool { name == "ceph" }

    /// For programs that know the AWS variables.
    public var environment: [String: String] {
        [
            "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": region,
            "AWS_ACCESS_KEY_ID": accessKeyID, "AWS_SECRET_ACCESS_KEY": secretAccessKey,
        ]
    }
}

/// The real S3 servers that `scripts/test` started, and buckets on them.
public enum S3TestServers {
    /// A server did not do what the tests need before they can begin.
    public struct Failure: Error, CustomStringConvertible {
        public let description: String
    }

    /// Those whose endpoints are in `CLOUDFS_TEST_S3_MOTO` and `CLOUDFS_TEST_S3_CEPH`.
    public static let all: [S3TestServer] = [moto, ceph].compactMap(\.self)

    public static let moto = server("moto", variable: "CLOUDFS_TEST_S3_MOTO", region: "us-east-1")
    public static let ceph = server("ceph", variable: "CLOUDFS_TEST_S3_CEPH", region: "default")

    /// Why tests that need a real server are skipped.
    public static let reason = "needs a real S3 server, as scripts/test starts it"

    private static func server(
        _ name: String,
        variable: String,
        region: String
    ) -> S3TestServer? {
        guard let endpoint = ProcessInfo.processInfo.environment[variable], !endpoint.isEmpty
        else { return nil }
        // The key and the secret that the scripts give to their servers.
        return S3TestServer(
            name: name,
            endpoint: endpoint,
            region: region,
            accessKeyID: "cloudfs",
            secretAccessKey: "cloudfs-secret-key"
        )
    }

    /// Lends `body` a new bucket, which is removed afterwards with all that is in it.
    public static func withBucket<Value>(
        on server: S3TestServer,
        _ body: (String) async throws -> Value
    ) async throws -> Value {
        let bucket = try await makeBucket(on: server)
        let result: Result<Value, any Error>
        do {
            result = .success(try await body(bucket))
        } catch {
            result = .failure(error)
        }
        do {
            try await remove(bucket, on: server)
        } catch {
            // Says nothing about what was tested; the servers forget it when they are stopped.
            print("\(bucket) was left behind on \(server): \(error)")
        }
        return try result.get()
    }

    /// Makes a bucket that lasts as long as its server.
    public static func makeBucket(on server: S3TestServer) async throws -> String {
        let bucket = "test-\(UUID().uuidString.lowercased())"
        try await request(server, "PUT", "/\(bucket)")
        return bucket
    }

    private static func remove(_ bucket: String, on server: S3TestServer) async throws {
        if server.name == "ceph" {
            let query = "bucket=\(bucket)&purge-objects=true"
            try await request(server, "DELETE", "/admin/bucket?\(query)")
            return
        }
        while true {
            let query = "encoding-type=url&list-type=2"
            let page = try await request(server, "GET", "/\(bucket)?\(query)")
            let keys = FakeS3XML.elements("Key", in: page[...])
            if keys.isEmpty { break }
            try await removeObjects(keys, of: bucket, on: server)
        }
        try await request(server, "DELETE", "/\(bucket)")
    }

    /// With one run of curl, which keeps its connection.
    private static func removeObjects(
        _ keys: [Substring],
        of bucket: String,
        on server: S3TestServer
    ) async throws {
        let folder = try TemporaryDirectory()
        let lines = keys.map { "url = \"\(server.endpoint)/\(bucket)/\($0)\"" }
        try folder.write(lines.joined(separator: "\n").utf8, to: "keys")
        // Moto wants a signature, but does not look whether it is this request's.
        let headers = S3TestSignature.arguments(server, "DELETE", "/")
        try await curl(server, headers + ["-X", "DELETE", "-K", folder.path("keys")])
    }

    /// Says in JSON who may do what in a bucket, beside its owner.
    public static func setPolicy(
        _ policy: String,
        of bucket: String,
        on server: S3TestServer
    ) async throws {
        try await request(server, "PUT", "/\(bucket)?policy=", body: policy)
    }

    @discardableResult
    private static func request(
        _ server: S3TestServer,
        _ method: String,
        _ target: String,
        body: String? = nil
    ) async throws -> String {
        let headers = S3TestSignature.arguments(server, method, target)
        let data = body.map { ["--data-binary", $0] } ?? []
        return try await curl(server, headers + data + ["-X", method, server.endpoint + target])
    }

    @discardableResult
    private static func curl(
        _ server: S3TestServer,
        _ arguments: [String]
    ) async throws -> String {
        let common = [
            "curl", "--silent", "--show-error", "--fail-with-body", "--path-as-is", "--globoff",
            "--noproxy", "*", "--max-time", "60",
        ]
        let result = try await Shell.run(common + arguments, within: .seconds(90))
        guard result.status == 0 else { throw Failure(description: "\(server): \(result)") }
        return result.output
    }
}

/// Signs the few plain requests that make and remove buckets.
///
/// Not with the engine's own code, which is what the tests are about; and not with curl, whose
/// signatures Ceph refuses.
private enum S3TestSignature {
    /// Arguments of curl, for a request without a body; its parameters have to be sorted.
    static func arguments(
        _ server: S3TestServer,
        _ method: String,
        _ target: String
    ) -> [String] {
        let parts = target.split(separator: "?", maxSplits: 1)
        let date = FakeS3Time.basic(FakeS3Time.now())
        let host = server.endpoint.split(separator: "/").last.map(String.init) ?? ""
        let payload = "UNSIGNED-PAYLOAD"
        let scope = "\(date.prefix(8))/\(server.region)/s3/aws4_request"
        let names = "host;x-amz-content-sha256;x-amz-date"
        let request = [
            method, String(parts[0]), parts.count > 1 ? String(parts[1]) : "",
            "host:\(host)", "x-amz-content-sha256:\(payload)", "x-amz-date:\(date)", "", names,
            payload,
        ].joined(separator: "\n")
        let digest = FakeS3Encoding.hex(SHA256.hash(data: Array(request.utf8)))
        let text = ["AWS4-HMAC-SHA256", date, scope, digest].joined(separator: "\n")
        var key = Array("AWS4\(server.secretAccessKey)".utf8)
        for part in scope.split(separator: "/").map(String.init) + [text] {
            key = Array(
                HMAC<SHA256>.authenticationCode(
                    for: Array(part.utf8),
                    using: SymmetricKey(data: key)
                )
            )
        }
        let authorization =
            "AWS4-HMAC-SHA256 Credential=\(server.accessKeyID)/\(scope), "
            + "SignedHeaders=\(names), Signature=\(FakeS3Encoding.hex(key))"
        return [
            "-H", "x-amz-content-sha256: \(payload)", "-H", "x-amz-date: \(date)",
            "-H", "Authorization: \(authorization)",
        ]
    }
}
