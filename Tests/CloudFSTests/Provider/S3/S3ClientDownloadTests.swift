import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct S3ClientDownloadTests {
    @Test func `a part is asked for and delivered`() async throws {
        try await withS3Client { _ in
            .object("cde", range: "bytes 2-4/10")
        } _: { fixture in
            let delivered = S3Delivered()
            let head = try await fixture.client.get("key", range: 2..<5, into: delivered)

            #expect(delivered.bytes == Array("cde".utf8))
            #expect(delivered.firstOffset == 2)
            #expect(head.object.size == 10)
            #expect(head.object.entityTag == "tag")
            #expect(fixture.server.requests.first?.header("range") == "bytes=2-4")
        }
    }

    @Test func `a part beyond the end is cut there`() async throws {
        try await withS3Client { _ in
            .object("ij", range: "bytes 8-9/10")
        } _: { fixture in
            let delivered = S3Delivered()
            _ = try await fixture.client.get("key", range: 8..<20, into: delivered)
            #expect(delivered.bytes == Array("ij".utf8))
        }
    }

    @Test(arguments: [
        "bytes 0-2/10", "bytes 2-5/10", "bytes 2-3/10", "bytes 2-4/4", "bytes 2-4/*", "2-4/10",
        "bytes 4-2/10", "bytes */10", "bytes 2-99999999999999999999/10", "",
    ])
    func `a part other than the one asked for is refused`(range: String) async throws {
        try await withS3Client { _ in
            .object("cde", range: range)
        } _: { fixture in
            let delivered = S3Delivered()
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", range: 2..<5, into: delivered)
            }
            #expect(error?.code == .corrupt)
            #expect(delivered.bytes.isEmpty)
        }
    }

    @Test func `the whole object instead of a part is refused`() async throws {
        try await withS3Client { _ in
            .object("abcdefghij")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", range: 2..<5)
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `a part instead of the whole object is refused`() async throws {
        try await withS3Client { _ in
            .object("cde", range: "bytes 0-2/10")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key")
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `another version is refused though the server ignores the condition`() async throws {
        try await withS3Client { _ in
            .object("abc", tag: "new")
        } _: { fixture in
            let delivered = S3Delivered()
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", ifMatch: "old", into: delivered)
            }
            #expect(error?.code == .remoteChanged)
            #expect(delivered.bytes.isEmpty)
            #expect(fixture.server.requests.first?.header("if-match") == "\"old\"")
        }
    }

    @Test(arguments: [412, 416])
    func `a version that is gone is a change`(status: Int) async throws {
        try await withS3Client { _ in
            .answer(status)
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", range: 5..<9, ifMatch: "old")
            }
            #expect(error?.code == .remoteChanged)
        }
    }

    @Test func `a broken download goes on where it was, of the same version`() async throws {
        try await withS3Client { request in
            switch request.number {
            case 1:
                [
                    .text("HTTP/1.1 200 OK\r\nContent-Length: 10\r\nETag: \"tag\"\r\n"),
                    .text("Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\nabcd"), .close,
                ]
            case 2:
                .refusal(503, "SlowDown")
            default:
                .object("efghij", range: "bytes 4-9/10")
            }
        } _: { fixture in
            let delivered = S3Delivered()
            let head = try await fixture.client.get("key", into: delivered)

            #expect(delivered.bytes == Array("abcdefghij".utf8))
            #expect(head.object.size == 10)
            let requests = fixture.server.requests
            #expect(requests.map { $0.header("range") } == [nil, "bytes=4-", "bytes=4-"])
            #expect(requests.map { $0.header("if-match") } == [nil, "\"tag\"", "\"tag\""])
        }
    }

    @Test func `a broken download does not go on with another version`() async throws {
        try await withS3Client { request in
            request.number == 1
                ? [
                    .text("HTTP/1.1 206 Part\r\nContent-Length: 4\r\nETag: \"tag\"\r\n"),
                    .text("Content-Range: bytes 2-5/10\r\n"),
                    .text("Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\ncd"), .close,
                ] : .object("EF", tag: "other", range: "bytes 4-5/10")
        } _: { fixture in
            let delivered = S3Delivered()
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", range: 2..<6, into: delivered)
            }
            #expect(error?.code == .remoteChanged)
            #expect(delivered.bytes == Array("cd".utf8))
            #expect(fixture.server.requests.last?.header("range") == "bytes=4-5")
        }
    }

    /// What would be asked for next is not there, and would look like another version.
    @Test func `a download that breaks after its last byte is done`() async throws {
        try await withS3Client { request in
            request.number == 1
                ? [
                    .text("HTTP/1.1 206 Part\r\nTransfer-Encoding: chunked\r\nETag: \"tag\"\r\n"),
                    .text("Content-Range: bytes 0-2/3\r\n"),
                    .text("Last-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n3\r\nabc\r\n"),
                    .close,
                ] : .refusal(416, "InvalidRange")
        } _: { fixture in
            let delivered = S3Delivered()
            let head = try await fixture.client.get("key", range: 0..<256, into: delivered)
            #expect(delivered.bytes == Array("abc".utf8))
            #expect(head.object.size == 3)
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `an error of the receiver ends the download`() async throws {
        try await withS3Client { _ in
            .object("abc")
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get(Array("key".utf8), range: nil, ifMatch: nil) {
                    _,
                    _ throws(CloudFSError) in
                    throw CloudFSError(.diskFull, "no room")
                }
            }
            #expect(error?.code == .diskFull)
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `a slow receiver is not blamed on the server`() async throws {
        var limits = S3Limits.quick
        // Generous, as this machine may be busy; what is received slowly takes longer than both.
        limits.idle = .seconds(3)
        limits.data = .seconds(4)
        limits.firstByte = .seconds(3)
        try await withS3Client(limits: limits) { _ in
            .object("abc", range: "bytes 0-2/3")
        } _: { fixture in
            let gate = Signal()
            _ = try await fixture.client.get(Array("key".utf8), range: 0..<3, ifMatch: nil) {
                _,
                _ throws(CloudFSError) in
                await gate.wait(atMost: .seconds(6))
            }
            #expect(fixture.server.requests.count == 1)
        }
    }

    @Test func `a silent server is asked again, and not for ever`() async throws {
        var limits = S3Limits.quick
        // On a busy machine the server needs some time to hear of a request.
        limits.firstByte = .milliseconds(500)
        limits.attempts = 3
        try await withS3Client(limits: limits) { _ in
            [.hang]
        } _: { fixture in
            let error = await #expect(throws: CloudFSError.self) {
                try await fixture.client.get("key", range: 0..<3)
            }
            #expect(error?.code == .timedOut)
            #expect(fixture.server.requests.count == 3)
        }
    }

    @Test func `a head tells metadata and type`() async throws {
        try await withS3Client { _ in
            [
                .text("HTTP/1.1 200 OK\r\nContent-Length: 42\r\nETag: W/\"tag-2\"\r\n"),
                .text("X-Amz-Meta-MTime: 12.5\r\nContent-Type: text/plain\r\n"),
                .text(
                    "x-amz-version-id: v1\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n\r\n"
                ),
            ]
        } _: { fixture in
            let head = try await fixture.client.head(Array("key".utf8))
            #expect(head.object.size == 42)
            #expect(head.object.entityTag == "tag-2")
            #expect(head.object.lastModified.seconds == 1_445_412_480)
            #expect(head.userMetadata == ["mtime": "12.5"])
            #expect(head.contentType == "text/plain")
            #expect(head.versionID == "v1")
        }
    }
}
