import CloudFS
import CloudFSTestSupport
import Foundation
import Testing

/// The server that other tests rely on: it must be right where it is right and wrong as told.
@Suite struct FakeS3ServerTests {
    private let server: FakeS3Server

    init() async throws {
        server = try await FakeS3Server.start()
    }

    private func send(
        _ method: String,
        _ target: String,
        headers: [String: String] = [:],
        body: String = ""
    ) async throws -> RawAnswer {
        try await RawHTTP.send(
            method,
            target,
            headers: headers,
            body: Array(body.utf8),
            to: server.port
        )
    }

    // MARK: - Right

    @Test func `what is put comes back with its metadata`() async throws {
        let headers = ["x-amz-meta-mode": "33188", "Content-Type": "text/plain"]
        let put = try await send("PUT", "/bucket/a%20%C3%BC/b", headers: headers, body: "hello")
        #expect(put.status == 200)
        #expect(put.headers["etag"] == "\"5d41402abc4b2a76b9719d911017c592\"")
        let got = try await send("GET", "/bucket/a%20%C3%BC/b")
        #expect(got.text == "hello")
        #expect(got.headers["x-amz-meta-mode"] == "33188")
        let object = try #require(server.object("a ü/b"))
        #expect(object.metadata == ["mode": "33188"])
        #expect(object.contentType == "text/plain")
        #expect(server.requests.map(\.kind) == [.put, .get])
        #expect(server.requests.map(\.status) == [200, 200])
        #expect(server.requests[0].bodyByteCount == 5)
    }

    @Test(arguments: [
        ("bytes=1-3", 206, "ell", "bytes 1-3/5"),
        ("bytes=3-99", 206, "lo", "bytes 3-4/5"),
        ("bytes=-2", 206, "lo", "bytes 3-4/5"),
        ("bytes=2-", 206, "llo", "bytes 2-4/5"),
        ("lines=2-", 200, "hello", nil),
    ])
    func `a range is answered exactly`(
        range: String,
        status: Int,
        text: String,
        contentRange: String?
    ) async throws {
        server.put("key", "hello")
        let answer = try await send("GET", "/bucket/key", headers: ["Range": range])
        #expect(answer.status == status)
        #expect(answer.text == text)
        #expect(answer.headers["content-range"] == contentRange)
    }

    @Test func `a range behind the end is refused`() async throws {
        server.put("key", "hello")
        let answer = try await send("GET", "/bucket/key", headers: ["Range": "bytes=5-"])
        #expect(answer.status == 416)
        #expect(answer.headers["content-range"] == "bytes */5")
    }

    @Test func `listings agree with a model, whatever the pages`() async throws {
        let seed = UInt64.random(in: 0...UInt64.max)
        var random = SeededRandom(seed: seed)
        let parts = ["a", "b", "a b", "ä", "%", "+", "&", "x-"]
        for _ in 0..<60 {
            let depth = Int.random(in: 1...4, using: &random)
            let names = (0..<depth).map { _ in parts[Int.random(in: 0..<8, using: &random)] }
            server.put(FakeS3Key(names.joined(separator: "/")), "x")
        }
        let keys = server.keys()
        for prefix in ["", "a", "a/", "a%20b/", "none"] {
            for delimiter in ["", "/"] {
                for limit in [1, 3, 1_000] {
                    let listed = try await list(prefix, delimiter, limit)
                    let plain = FakeS3Key(prefix.removingPercentEncoding ?? "")
                    let expected = Self.model(keys, prefix: plain, delimiter: delimiter)
                    let comment: Comment = "seed \(seed), \(prefix), \(delimiter), \(limit)"
                    #expect(listed == expected, comment)
                }
            }
        }
    }

    private func list(
        _ prefix: String,
        _ delimiter: String,
        _ limit: Int
    ) async throws -> Set<String> {
        let target =
            "/bucket?list-type=2&encoding-type=url&max-keys=\(limit)"
            + "&prefix=\(prefix)&delimiter=\(delimiter)"
        var found: Set<String> = []
        var token: String?
        repeat {
            let next = token.map { "&continuation-token=\($0)" } ?? ""
            let page = try await send("GET", target + next)
            let prefixes = page.elements("CommonPrefixes><Prefix")
            let names = (page.elements("Key") + prefixes).map { name in
                name.replacing("+", with: " ").removingPercentEncoding ?? ""
            }
            #expect(names.count <= limit)
            for name in names { #expect(found.insert(name).inserted, "\(name) came twice") }
            token = page.elements("NextContinuationToken").first
        } while token != nil
        return found
    }

    private static func model(
        _ keys: [FakeS3Key],
        prefix: FakeS3Key,
        delimiter: String
    ) -> Set<String> {
        Set(
            keys.filter { $0.hasPrefix(prefix) }.map { key in
                let rest = key.bytes.dropFirst(prefix.bytes.count)
                guard let end = rest.firstIndex(of: UInt8(ascii: "/")), !delimiter.isEmpty
                else { return key.text }
                return String(decoding: key.bytes[...end], as: UTF8.self)
            }
        )
    }

    @Test func `a million keys are listed without being stored`() async throws {
        let bucket = SyntheticBucket(prefix: "tree/", folderCount: 1_000, filesPerFolder: 1_000)
        server.makeBucket("big", synthetic: bucket)
        var token = ""
        var found: [String] = []
        for _ in 0..<20 {
            let page = try await send("GET", "/big?list-type=2" + token)
            found += page.elements("Key")
            token =
                "&continuation-token=" + (page.elements("NextContinuationToken").first ?? "none")
        }
        #expect(found == (0..<20_000).map { bucket.key(at: $0).text })
        let end = try await send(
            "GET",
            "/big?list-type=2&start-after=tree/folder-0000999/file-0000997.bin"
        )
        #expect(end.elements("Key").count == 2)
        #expect(end.elements("IsTruncated") == ["false"])
    }

    @Test func `a synthetic bucket takes changes`() async throws {
        let synthetic = SyntheticBucket(folderCount: 0, filesPerFolder: 3, byteCount: 100_000)
        server.makeBucket("big", synthetic: synthetic)
        server.remove("file-0000001.bin", in: "big")
        server.put("file-0000000.bin", "new", in: "big")
        server.put("file-0000000.bin.more", "new", in: "big")
        #expect(
            server.keys(in: "big") == [
                "file-0000000.bin", "file-0000000.bin.more", "file-0000002.bin",
            ]
        )
        #expect(server.object("file-0000000.bin", in: "big")?.bytes == Array("new".utf8))
        let range = ["Range": "bytes=65000-66000"]
        let got = try await send("GET", "/big/file-0000002.bin", headers: range)
        #expect(got.body == SyntheticContent.bytes(65_000..<66_001))
    }

    @Test(arguments: [
        ("If-None-Match", "*", 412, 412),
        ("If-Match", "\"5d41402abc4b2a76b9719d911017c592\"", 200, 412),
        ("If-Match", "5d41402abc4b2a76b9719d911017c592", 200, 200),
        ("If-Match", "\"other\"", 412, 412),
    ])
    func `conditional writes have the forms that a server has`(
        name: String,
        value: String,
        ideal: Int,
        ceph: Int
    ) async throws {
        for (settings, status) in [
            (FakeS3Settings(), ideal), (.ceph, ceph), (.unconditional, 200),
        ] {
            server.settings = settings
            server.put("key", "hello")
            let put = try await send("PUT", "/bucket/key", headers: [name: value], body: "new")
            #expect(put.status == status)
            let kept = status == 200 ? "new" : "hello"
            #expect(server.object("key")?.bytes == Array(kept.utf8))
        }
    }

    @Test func `an upload in parts becomes one object`() async throws {
        server.change { $0.minimumPartByteCount = 3 }
        server.put("source", "0123456789")
        let created = try await send("POST", "/bucket/key?uploads")
        let id = try #require(created.elements("UploadId").first)
        let encoded = id.replacing("+", with: "%2B").replacing("/", with: "%2F")
            .replacing("=", with: "%3D")
        let first = try await send(
            "PUT",
            "/bucket/key?partNumber=1&uploadId=\(encoded)",
            body: "hello"
        )
        let second = try await send(
            "PUT",
            "/bucket/key?partNumber=2&uploadId=\(encoded)",
            headers: [
                "x-amz-copy-source": "/bucket/source", "x-amz-copy-source-range": "bytes=2-4",
            ]
        )
        #expect(server.uploads() == ["key"])
        let parts = try await send("GET", "/bucket/key?uploadId=\(encoded)")
        #expect(parts.elements("Size") == ["5", "3"])
        let tags = [first.headers["etag"] ?? "", second.elements("ETag").first ?? ""]
        let named = tags.enumerated().map {
            "<Part><PartNumber>\($0 + 1)</PartNumber><ETag>\($1)</ETag></Part>"
        }
        let body = "<CompleteMultipartUpload>\(named.joined())</CompleteMultipartUpload>"
        let done = try await send("POST", "/bucket/key?uploadId=\(encoded)", body: body)
        #expect(done.status == 200)
        #expect(server.object("key")?.bytes == Array("hello234".utf8))
        #expect(server.object("key")?.entityTag.hasSuffix("-2") == true)
        #expect(server.uploads().isEmpty)
    }

    @Test func `a server that is down refuses, and keeps its objects`() async throws {
        server.put("key", "hello")
        try await server.goDown()
        await #expect(throws: SystemError.self) { try await send("GET", "/bucket/key") }
        try await server.goUp()
        #expect(try await send("GET", "/bucket/key").text == "hello")
    }

    @Test func `only the given key and region are accepted`() async throws {
        server.change {
            $0.accessKeyID = "good"
            $0.region = "here"
        }
        func status(_ scope: String) async throws -> RawAnswer {
            let value = "AWS4-HMAC-SHA256 Credential=\(scope), SignedHeaders=host, Signature=0"
            return try await send("GET", "/bucket", headers: ["Authorization": value])
        }
        #expect(try await send("GET", "/bucket").elements("Code") == ["AccessDenied"])
        let wrongKey = try await status("bad/20200101/here/s3/aws4_request")
        #expect(wrongKey.elements("Code") == ["InvalidAccessKeyId"])
        let wrongRegion = try await status("good/20200101/there/s3/aws4_request")
        #expect(wrongRegion.elements("Region") == ["here"])
        #expect(try await status("good/20200101/here/s3/aws4_request").status == 200)
    }
}
