import CloudFSClient
import CloudFSControlAPI
import Glibc
import Synchronization
import Testing

@testable import CloudFS

/// What clients that are wrong, slow, many or gone do to the server: nothing.
@Suite(.timeLimit(.minutes(10))) struct ControlLimitsTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    private func answer(to request: String) async throws -> String {
        try await withServer(in: folder) { _, server in
            let connection = try RawConnection(server.socketPath)
            #expect(try await connection.send(request))
            return try await connection.receive(until: "}}")
        }
    }

    private static func post(_ route: String, _ body: String) -> String {
        "POST \(route) HTTP/1.1\r\nHost: drive\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)"
    }

    @Test(arguments: [
        ("POST", "/v1/items", "{", "400", "invalidArgument"),
        ("POST", "/v1/items", "", "400", "paths is missing"),
        ("POST", "/v1/items", #"{"paths":[]}"#, "400", "1 to 1000 paths"),
        ("POST", "/v1/items", #"{"paths":["../etc"]}"#, "400", "not a path"),
        ("POST", "/v1/items", #"{"paths":["a"],"limit":0}"#, "400", "limit"),
        ("POST", "/v1/items", #"{"paths":["a"],"limit":1001}"#, "400", "limit"),
        ("POST", "/v1/policy", #"{"paths":["a"],"policy":"sticky"}"#, "400", "policy"),
        ("POST", "/v1/drain", #"{"timeoutSeconds":-1}"#, "400", "timeoutSeconds"),
        ("POST", "/v1/nothing", "{}", "404", "notFound"),
        ("POST", "/v1/drive", "{}", "404", "notFound"),
    ])
    func `a wrong request is told what is wrong`(
        _ method: String,
        _ route: String,
        _ body: String,
        _ status: String,
        _ word: String
    ) async throws {
        let answer = try await answer(to: Self.post(route, body))
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
        #expect(answer.contains(word))
        #expect(answer.contains(#"{"error":{"code":""#))
    }

    @Test(arguments: ["-1", "x", "2147483648", "9223372036854775807", "9223372036854775808"])
    func `a page that cannot be is refused`(after: String) throws {
        #expect(throws: CloudFSError.self) { try DriveControl.offset(after) }
        #expect(try DriveControl.offset("2147483647") == 2_147_483_647)
    }

    @Test func `a page limit that is no number is refused`() async throws {
        let request = "GET /v1/outbox?limit=x HTTP/1.1\r\nHost: drive\r\n\r\n"
        #expect(try await answer(to: request).contains("limit must be a number"))
    }

    @Test func `an announced body that is too large is refused before it is sent`() async throws {
        let size = ControlAPI.maximumRequestByteCount + 1
        let request =
            "POST /v1/items HTTP/1.1\r\nHost: drive\r\nContent-Length: \(size)\r\n\r\n"
        let answer = try await answer(to: request)
        #expect(answer.hasPrefix("HTTP/1.1 413 "))
        #expect(answer.contains("tooLarge"))
    }

    @Test func `a body that grows too large is refused`() async throws {
        let size = ControlAPI.maximumRequestByteCount + 1
        let request =
            "POST /v1/items HTTP/1.1\r\nHost: drive\r\nTransfer-Encoding: chunked\r\n\r\n"
            + String(size, radix: 16) + "\r\n" + String(repeating: " ", count: size) + "\r\n"
        #expect(try await answer(to: request).hasPrefix("HTTP/1.1 413 "))
    }

    @Test func `a drive that does not answer costs a request its deadline only`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        var limits = RequestLimits()
        limits.answer = .milliseconds(50)
        try await withServer(drive, limits: limits, in: folder) { client, _ in
            let error = await #expect(throws: DriveClientError.self) { try await client.status() }
            guard case .failure(let failure) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(failure.code == "timedOut")
        }
    }

    @Test func `more requests than are worked on at once are turned away`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        var limits = RequestLimits()
        limits.concurrentRequests = 1
        try await withServer(drive, limits: limits, in: folder) { client, _ in
            async let first = client.status()
            while drive.calls.isEmpty { await Task.yield() }
            let error = await #expect(throws: DriveClientError.self) { try await client.status() }
            guard case .failure(let failure) = error else {
                Issue.record("\(String(describing: error))")
                return
            }
            #expect(failure.code == "tooManyOpen")
            drive.release()
            _ = try await first
            _ = try await client.status()
        }
    }

    @Test func `a client that sends its body in drops gets the deadline`() async throws {
        var limits = RequestLimits()
        limits.answer = .milliseconds(50)
        let answer = try await withServer(limits: limits, in: folder) { _, server in
            let connection = try RawConnection(server.socketPath)
            #expect(
                try await connection.send(
                    "POST /v1/items HTTP/1.1\r\nHost: d\r\nContent-Length: 100\r\n\r\n{"
                )
            )
            return try await connection.receive(until: "}}")
        }
        #expect(answer.hasPrefix("HTTP/1.1 504 "))
    }

    @Test func `a connection that says nothing is closed`() async throws {
        var limits = RequestLimits()
        limits.idle = .milliseconds(50)
        let rest = try await withServer(limits: limits, in: folder) { _, server in
            try await RawConnection(server.socketPath).receive()
        }
        #expect(rest.isEmpty)
    }

    @Test func `a client that does not read its answers is closed`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.mountpoint = String(repeating: "x", count: 1 << 22) }
        var limits = RequestLimits()
        limits.unread = .milliseconds(50)
        try await withServer(drive, limits: limits, in: folder) { _, server in
            let connection = try RawConnection(server.socketPath)
            #expect(try await connection.send("GET /v1/drive HTTP/1.1\r\nHost: d\r\n\r\n"))
            // The kernel takes a part of it; sending fails when the server has closed.
            while try await connection.send(" ") { await Task.yield() }
        }
    }

    @Test func `a client that vanishes is forgotten`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        try await withServer(drive, in: folder) { client, server in
            do {
                let connection = try RawConnection(server.socketPath)
                #expect(try await connection.send("GET /v1/drive HTTP/1.1\r\nHost: d\r\n\r\n"))
                while drive.calls.isEmpty { await Task.yield() }
            }
            drive.release()
            _ = try await client.status()
        }
        #expect(drive.calls == ["status", "status"])
    }

    @Test func `processes of other users are not served`() async throws {
        var limits = RequestLimits()
        limits.serves = { $0 != geteuid() }
        let answer = try await withServer(limits: limits, in: folder) { _, server in
            let connection = try RawConnection(server.socketPath)
            _ = try await connection.send("GET /v1/drive HTTP/1.1\r\nHost: d\r\n\r\n")
            return try await connection.receive()
        }
        #expect(answer.isEmpty)
    }

    @Test func `a stuck request does not keep the server from ending`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        var limits = RequestLimits()
        limits.shutdown = .milliseconds(50)
        let (clock, folder) = (ContinuousClock(), folder)
        let start = clock.now
        let stuck = try await withServer(drive, limits: limits, in: folder) { client, _ in
            let stuck = Task { try await client.status() }
            while drive.calls.isEmpty { await Task.yield() }
            // `withServer` would let it go at its end; a call after that is held again.
            drive.release()
            drive.state.withLock { $0.holds = true }
            return stuck
        }
        _ = await stuck.result
        #expect(clock.now - start < .seconds(20))
    }
}
