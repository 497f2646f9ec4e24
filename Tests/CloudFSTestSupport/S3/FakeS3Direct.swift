public import CloudFS
import NIOCore

/// The server without its connections: each request is one call, which happens whole.
public struct FakeS3Direct: Sendable {
    public struct Answer: Sendable {
        public let status: Int
        public let headers: [(name: String, value: String)]
        public let body: [UInt8]
    }

    private static let bucket = "bucket"
    private var store = FakeS3Store()
    private var count = 0

    /// With one empty bucket, named `bucket`.
    public init(settings: FakeS3Settings) {
        store.settings = settings
        store.buckets[Self.bucket] = FakeS3Bucket()
    }

    /// What the server's clock shows.
    public var now: Timestamp { store.now }

    /// - Parameter target: Path and query as they are sent.
    public mutating func perform(
        _ method: String,
        _ target: String,
        headers: [(name: String, value: String)],
        body: [UInt8]
    ) -> Answer {
        count += 1
        let parsed = FakeS3Request(
            method: method,
            target: target,
            headers: headers,
            virtualHostDomain: store.settings.virtualHostDomain
        )
        guard var request = parsed else {
            return Answer(status: 400, headers: [("Content-Length", "0")], body: [])
        }
        request.number = count
        do throws(FakeS3Failure) {
            return told(try store.perform(request, body: ByteBuffer(bytes: body)), request)
        } catch {
            return told(error.answer(to: request), request)
        }
    }

    private func told(_ answer: FakeS3Answer, _ request: FakeS3Request) -> Answer {
        let length = answer.bodyRange.count
        let isBodiless =
            request.method == "HEAD" || answer.status == 204 || answer.status == 304
        var headers = answer.headers + [("Date", FakeS3Time.http(store.now))]
        if answer.status != 204, answer.status != 304 {
            headers.append(("Content-Length", String(length)))
        }
        return Answer(
            status: answer.status,
            headers: headers,
            body: isBodiless
                ? [] : Array(answer.content.piece(answer.bodyRange).readableBytesView)
        )
    }

    public func keys(_ prefix: FakeS3Key = "") -> [FakeS3Key] {
        store.buckets[Self.bucket]?.keys(prefix) ?? []
    }

    public func object(_ key: FakeS3Key) -> FakeS3Object? {
        store.buckets[Self.bucket]?[key].map { FakeS3Object($0) }
    }
}
