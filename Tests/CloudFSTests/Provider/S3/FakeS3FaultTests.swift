import CloudFS
import CloudFSTestSupport
import Testing

/// Every fault of `FakeS3Server` happens, and only where it is to.
@Suite struct FakeS3FaultTests {
    private let server: FakeS3Server

    init() async throws {
        server = try await FakeS3Server.start()
        server.put("key", "hello, world")
    }

    private func get(_ headers: [String: String] = [:]) async throws -> RawAnswer {
        try await RawHTTP.send("GET", "/bucket/key", headers: headers, to: server.port)
    }

    private func put(_ text: String, _ headers: [String: String] = [:]) async throws -> RawAnswer {
        try await RawHTTP.send(
            "PUT",
            "/bucket/key",
            headers: headers,
            body: Array(text.utf8),
            to: server.port
        )
    }

    private func list(_ query: String = "") async throws -> RawAnswer {
        try await RawHTTP.send("GET", "/bucket?list-type=2" + query, to: server.port)
    }

    @Test func `a fault hits the requests it is for, as often as it is to`() async throws {
        server.add(FakeS3Fault(.slowDown(retryAfter: 7), skipping: 1, count: 2, on: .get))
        #expect(try await list().status == 200)
        #expect(try await get().status == 200)
        let hit = try await get()
        #expect(hit.status == 503)
        #expect(hit.headers["retry-after"] == "7")
        #expect(hit.elements("Code") == ["SlowDown"])
        #expect(server.faultsLeft == 1)
        #expect(try await get().status == 503)
        #expect(server.faultsLeft == 0)
        #expect(try await get().status == 200)
    }

    @Test func `a request fails before or after its effect`() async throws {
        server.add(FakeS3Fault(.fail(status: 500, code: "InternalError")))
        #expect(try await put("one").status == 500)
        #expect(server.object("key")?.bytes == Array("hello, world".utf8))
        server.add(FakeS3Fault(.failAfterEffect(status: 500, code: "InternalError")))
        #expect(try await put("two").status == 500)
        #expect(server.object("key")?.bytes == Array("two".utf8))
        server.add(FakeS3Fault(.cutAnswer(afterBytes: nil)))
        #expect(try await put("three").status == nil)
        #expect(server.object("key")?.bytes == Array("three".utf8))
    }

    @Test func `an upload is cut in the middle`() async throws {
        server.add(FakeS3Fault(.cutRequest(afterBytes: 3), on: .put))
        #expect(try await put("other").status == nil)
        #expect(server.object("key")?.bytes == Array("hello, world".utf8))
        #expect(try #require(server.requests.first).bodyByteCount >= 3)
    }

    @Test func `a download is cut, too long, too short, or wrong`() async throws {
        server.add(FakeS3Fault(.cutAnswer(afterBytes: 5)))
        let cut = try await get()
        #expect(cut.text == "hello")
        #expect(cut.announcedByteCount == 12)
        for difference in [Int64(4), -4] {
            server.add(FakeS3Fault(.wrongLength(by: difference)))
            let wrong = try await get()
            #expect(wrong.announcedByteCount == 12 + Int(difference))
            #expect(wrong.body.count == 12)
        }
        server.add(FakeS3Fault(.corruptBody))
        let corrupt = try await get()
        #expect(corrupt.body.count == 12)
        #expect(corrupt.text != "hello, world")
    }

    @Test func `ranges and conditions are disregarded`() async throws {
        server.add(FakeS3Fault(.disregard(.range)))
        let whole = try await get(["Range": "bytes=1-2"])
        #expect(whole.status == 200)
        #expect(whole.text == "hello, world")
        #expect(try await get(["Range": "bytes=1-2"]).text == "el")
        #expect(try await get(["If-Match": "\"other\""]).status == 412)
        server.add(FakeS3Fault(.disregard(.conditions), count: 2))
        #expect(try await get(["If-Match": "\"other\""]).status == 200)
        #expect(try await put("new", ["If-None-Match": "*"]).status == 200)
    }

    @Test func `a listing never comes forward or never ends`() async throws {
        server.put("key2", "x")
        server.add(FakeS3Fault(.disregard(.progress), count: 2))
        let first = try await list("&max-keys=1")
        let token = try #require(first.elements("NextContinuationToken").first)
        let second = try await list("&max-keys=1&continuation-token=\(token)")
        #expect(second.elements("NextContinuationToken") == [token])
        #expect(second.elements("Key") == first.elements("Key"))
        server.add(FakeS3Fault(.disregard(.end), count: 3))
        var tokens: Set<String> = []
        for _ in 0..<3 {
            let page = try await list()
            #expect(page.elements("Key").isEmpty)
            #expect(page.elements("IsTruncated") == ["true"])
            tokens.formUnion(page.elements("NextContinuationToken"))
        }
        #expect(tokens.count == 3)
    }

    @Test func `documents are bombs, truncated, or of somebody else's making`() async throws {
        server.add(FakeS3Fault(.xmlBomb, on: .list))
        #expect(try await list().text.contains("<!ENTITY a9"))
        server.add(FakeS3Fault(.truncatedBody(byteCount: 100), on: .list))
        let truncated = try await list()
        #expect(truncated.body.count == 100)
        #expect(truncated.announcedByteCount == 100)
        server.add(FakeS3Fault(.nestedXML(depth: 50), on: .list))
        #expect(try await list().text.hasSuffix("</a></a>"))
        server.add(FakeS3Fault(.raw(Array("HTP/9 what\r\n\r\n".utf8))))
        #expect(try await list().status == nil)
    }

    @Test func `a redirect leads to another host`() async throws {
        server.add(FakeS3Fault(.redirect(to: "http://127.0.0.1:1")))
        let answer = try await get()
        #expect(answer.status == 307)
        #expect(answer.headers["location"] == "http://127.0.0.1:1/bucket/key")
    }

    @Test func `a request is held back until the gate opens`() async throws {
        let gate = FakeS3Gate()
        server.add(FakeS3Fault(.wait(gate), on: .put))
        async let held = put("late")
        try await eventually("the request waits") { gate.waitingCount == 1 }
        #expect(server.object("key")?.bytes == Array("hello, world".utf8))
        #expect(server.activeRequestCount == 1)
        gate.open()
        #expect(try await held.status == 200)
        #expect(server.object("key")?.bytes == Array("late".utf8))
        #expect(server.activeRequestCount == 0)
    }

    @Test func `an answer that stalls ends when the connection breaks`() async throws {
        server.add(FakeS3Fault(.stallAnswer(afterBytes: 5)))
        async let stalled = get()
        try await eventually("five bytes are sent") { server.sentByteCount == 5 }
        server.breakConnections()
        #expect(try await stalled.text == "hello")
    }

    @Test func `latency and bandwidth slow both directions`() async throws {
        let bytes = [UInt8](repeating: 1, count: 200_000)
        server.put("key", bytes)
        server.change {
            $0.bandwidth = 1_000_000
            $0.latency = .milliseconds(50)
        }
        let clock = ContinuousClock()
        // Only lower bounds: a busy machine may take any time.
        let reading = try await clock.measure {
            let answer = try await get()
            #expect(answer.body == bytes)
        }
        #expect(reading > .milliseconds(220))
        let writing = try await clock.measure {
            _ = try await RawHTTP.send("PUT", "/bucket/new", body: bytes, to: server.port)
        }
        #expect(writing > .milliseconds(220))
        #expect(server.object("new")?.bytes == bytes)
        server.change { $0.bandwidth = nil }
        server.add(FakeS3Fault(.trickle(bytesPerSecond: 100), on: .get, key: "small"))
        server.put("small", "0123456789")
        let trickling = try await clock.measure {
            _ = try await RawHTTP.send("GET", "/bucket/small", to: server.port)
        }
        #expect(trickling > .milliseconds(70))
    }

    @Test func `a clock that is wrong is seen in the date`() async throws {
        server.change {
            $0.clockOffset = .seconds(-3_600)
            $0.now = { .init(seconds: 784_111_777, nanoseconds: 0) }
        }
        let answer = try await put("x")
        #expect(answer.headers["date"] == "Sun, 06 Nov 1994 07:49:37 GMT")
        #expect(try await get().headers["last-modified"] == "Sun, 06 Nov 1994 07:49:37 GMT")
        server.change { $0.checksRequestTime = true }
        let late = try await get(["x-amz-date": "19941106T080437Z"])
        #expect(late.elements("Code") == ["RequestTimeTooSkewed"])
        #expect(try await get(["x-amz-date": "19941106T080436Z"]).status == 200)
    }
}
