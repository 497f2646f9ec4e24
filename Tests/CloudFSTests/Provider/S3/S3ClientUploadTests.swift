import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct S3ClientUploadTests {
    private let key = Array("folder/key".utf8)

    @Test func `an upload carries its metadata, type and condition`() async throws {
        try await withS3Client { _ in
            .answer(200, ["ETag: \"new\""])
        } _: { fixture in
            let written = try await fixture.client.put(
                key,
                body: .bytes(Array("content".utf8)),
                metadata: ["mtime": "1.5", "mode": "33188"],
                contentType: "text/plain",
                condition: .ifMatch("old", quoted: true),
                headers: [(name: "x-amz-storage-class", value: "STANDARD_IA")]
            )
            #expect(written.entityTag == "new")
            let request = try #require(fixture.server.requests.first)
            #expect(request.method == "PUT")
            #expect(request.target == "/bucket/folder/key")
            #expect(request.body == Array("content".utf8))
            #expect(request.header("x-amz-meta-mtime") == "1.5")
            #expect(request.header("x-amz-meta-mode") == "33188")
            #expect(request.header("content-type") == "text/plain")
            #expect(request.header("if-match") == "\"old\"")
            #expect(request.header("x-amz-storage-class") == "STANDARD_IA")
            #expect(request.header("authorization")?.contains("x-amz-meta-mtime") == true)
        }
    }

    @Test(arguments: ["a\r\nx: y", "a\nb", "a\u{0}", "a\u{7f}"])
    func `metadata that would become a header of its own is refused`(value: String) async throws {
        try await withS3Client { _ in
            .answer(200)
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.put(key, body: .none, metadata: ["name": value])
            }
            #expect(error?.code == .invalidArgument)
            #expect(fixture.server.requests.isEmpty)
        }
    }

    @Test func `keys that no bucket can hold are refused`() async throws {
        try await withS3Client { _ in
            .answer(200)
        } _: { fixture in
            let long = await #expect(throws: CloudFSError.self) {
                try await fixture.client.head([UInt8](repeating: 0x61, count: 1_025))
            }
            #expect(long?.code == .nameTooLong)
            await #expect(throws: CloudFSError.self) { try await fixture.client.head([]) }
            #expect(fixture.server.requests.isEmpty)
        }
    }

    @Test func `a copy names its source and replaces metadata`() async throws {
        try await withS3Client { _ in
            .document(
                "<CopyObjectResult><ETag>\"copied\"</ETag>"
                    + "<LastModified>2015-10-21T07:28:00.000Z</LastModified></CopyObjectResult>"
            )
        } _: { fixture in
            let copied = try await fixture.client.copy(
                from: Array("a b/é".utf8),
                sourceIfMatch: "old",
                to: key,
                metadata: ["mode": "1"]
            )
            #expect(copied.entityTag == "copied")
            #expect(copied.lastModified?.seconds == 1_445_412_480)
            let request = try #require(fixture.server.requests.first)
            #expect(request.header("x-amz-copy-source") == "/bucket/a%20b/%C3%A9")
            #expect(request.header("x-amz-copy-source-if-match") == "\"old\"")
            #expect(request.header("x-amz-metadata-directive") == "REPLACE")
        }
    }

    @Test func `a success that ends as a passing error is repeated`() async throws {
        try await withS3Client { request in
            request.number == 1
                ? .document("   <Error><Code>InternalError</Code></Error>")
                : .document("<CopyObjectResult><ETag>x</ETag></CopyObjectResult>")
        } _: { fixture in
            let copied = try await fixture.client.copy(
                from: key,
                sourceIfMatch: nil,
                to: key,
                condition: .ifNoneMatchAny
            )
            #expect(copied.entityTag == "x")
            #expect(fixture.server.requests.count == 2)
        }
    }

    @Test(arguments: [0, 500, 502, 504])
    func `what may be done already is not repeated where that may do harm`(
        status: Int
    ) async throws {
        try await withS3Client { request in
            status == 0 ? [.close] : .refusal(status, "")
        } _: { fixture in
            let (client, key) = (fixture.client, key)
            for ask: @Sendable () async throws -> Void in [
                { _ = try await client.copy(from: key, sourceIfMatch: nil, to: key) },
                { try await client.delete(key) },
                { _ = try await client.deleteBatch([key]) },
            ] {
                let count = fixture.server.requests.count
                let error = await #expect(throws: CloudFSError.self) { try await ask() }
                #expect(error?.code == .offline)
                #expect(fixture.server.requests.count == count + 1)
            }
        }
    }

    @Test func `what was refused for now is repeated, whatever it does`() async throws {
        try await withS3Client { request in
            request.number < 3 ? .refusal(503, "SlowDown") : .answer(204)
        } _: { fixture in
            try await fixture.client.delete(key)
            #expect(fixture.server.requests.count == 3)
        }
    }

    @Test func `a success that is an error is none`() async throws {
        try await withS3Client { _ in
            .document("<Error><Code>NoSuchKey</Code></Error>")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.copy(from: key, sourceIfMatch: nil, to: key)
            }
            #expect(error?.code == .notFound)
        }
    }

    @Test func `an upload in parts`() async throws {
        try await withS3Client { request in
            switch (request.method, request.target) {
            case ("POST", "/bucket/folder/key?uploads"):
                .document(
                    "<InitiateMultipartUploadResult><UploadId>u/1</UploadId>"
                        + "</InitiateMultipartUploadResult>"
                )
            case ("PUT", _): .answer(200, ["ETag: \"part\""])
            case ("GET", _):
                .document(
                    "<ListPartsResult><Part><PartNumber>1</PartNumber><Size>3</Size>"
                        + "<ETag>\"part\"</ETag></Part><IsTruncated>false</IsTruncated>"
                        + "</ListPartsResult>"
                )
            case ("POST", _):
                .document(
                    "<CompleteMultipartUploadResult><ETag>\"whole-1\"</ETag>"
                        + "</CompleteMultipartUploadResult>"
                )
            default: .answer(404, ["x-amz-request-id: 1"])
            }
        } _: { fixture in
            let client = fixture.client
            let upload = try await client.createUpload(key)
            #expect(upload == "u/1")
            let part = try await client.uploadPart(
                key,
                upload: upload,
                number: 1,
                body: .bytes([1, 2, 3])
            )
            let parts = try await client.listParts(key, upload: upload)
            #expect(parts == [part])
            let written = try await client.completeUpload(key, upload: upload, parts: parts)
            #expect(written.entityTag == "whole-1")
            try await client.abortUpload(key, upload: upload)

            let requests = fixture.server.requests
            #expect(requests[1].target.contains("partNumber=1&uploadId=u%2F1"))
            let document = String(decoding: requests[3].body, as: UTF8.self)
            #expect(document.contains("<PartNumber>1</PartNumber><ETag>&quot;part&quot;</ETag>"))
        }
    }

    @Test func `a completion whose answer is lost is not repeated`() async throws {
        try await withS3Client { _ in
            [.close]
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.completeUpload(key, upload: "u", parts: [])
            }
            #expect(error?.cause is HTTPFailure)
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `a listing of parts that goes in a circle is refused`() async throws {
        try await withS3Client { _ in
            .document(
                "<ListPartsResult><Part><PartNumber>1</PartNumber><Size>3</Size></Part>"
                    + "<IsTruncated>true</IsTruncated>"
                    + "<NextPartNumberMarker>1</NextPartNumberMarker>"
                    + "</ListPartsResult>"
            )
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.listParts(key, upload: "u")
            }
            #expect(error?.code == .corrupt)
            #expect(fixture.server.requests.count == 2)
        }
    }

    @Test func `uploads that were begun are listed in pages`() async throws {
        try await withS3Client { request in
            let number = request.number
            return .document(
                "<ListMultipartUploadsResult><EncodingType>url</EncodingType><Upload>"
                    + "<Key>p/%C3%A9\(number)</Key><UploadId>u\(number)</UploadId>"
                    + "<Initiated>2015-10-21T07:28:00.000Z</Initiated></Upload>"
                    + "<NextKeyMarker>p/%C3%A9\(number)</NextKeyMarker>"
                    + "<NextUploadIdMarker>u\(number)</NextUploadIdMarker>"
                    + "<IsTruncated>\(number < 3)</IsTruncated></ListMultipartUploadsResult>"
            )
        } _: { fixture in
            let uploads = try await fixture.client.listUploads(prefix: Array("p/".utf8))
            #expect(uploads.map(\.id) == ["u1", "u2", "u3"])
            #expect(uploads.first?.key == Array("p/é1".utf8))
            #expect(
                fixture.server.requests[1].target.contains(
                    "key-marker=p%2F%C3%A91&upload-id-marker=u1"
                )
            )
        }
    }
}

@Suite struct S3ClientEndpointTests {
    private func parse(_ url: String?, bucket: String = "photos") throws -> S3Endpoint {
        try S3Endpoint.parse(url: url, bucket: bucket, region: "eu-west-1")
    }

    @Test func `endpoints are read`() throws {
        let aws = try parse(nil)
        #expect(aws.hostHeader == "photos.s3.eu-west-1.amazonaws.com")
        #expect(aws.encodedPath(of: Array("a b".utf8)) == "/a%20b")
        let dotted = try parse(nil, bucket: "my.photos")
        #expect(dotted.style == .path)
        let own = try parse("http://LOCALHOST:9000/")
        #expect(own.hostHeader == "localhost:9000")
        #expect(own.encodedPath(of: nil) == "/photos")
        #expect(own.encodedPath(of: Array("/a".utf8)) == "/photos//a")
        #expect(try parse("https://host:443").hostHeader == "host")
        #expect(try parse("http://[::1]:80").hostHeader == "[::1]")
    }

    @Test func `regions in China have a domain of their own`() throws {
        let china = try S3Endpoint.parse(url: nil, bucket: "photos", region: "cn-north-1")
        #expect(china.hostHeader == "photos.s3.cn-north-1.amazonaws.com.cn")
        #expect(try parse("https://s3.cn-north-1.amazonaws.com.cn").style == .virtualHost)
        #expect(try parse("https://amazonaws.com.cn.example.org").style == .path)
    }

    @Test(arguments: [
        "", "host", "ftp://host", "http://", "http://host/path", "http://user@host",
        "http://host:0", "http://host:99999", "http://host:x", "http://::1", "http://a b",
        "http://[::1]x", "http://host?x",
    ])
    func `what is no endpoint is refused`(url: String) {
        let error = #expect(throws: CloudFSError.self) { try parse(url) }
        #expect(error?.code == .invalidArgument)
    }

    @Test(arguments: ["", "ab", "a/b", "..", "...", "a b", "-ab", "é€x"])
    func `what is no bucket is refused`(bucket: String) {
        let error = #expect(throws: CloudFSError.self) { try parse(nil, bucket: bucket) }
        #expect(error?.code == .invalidArgument)
    }
}
