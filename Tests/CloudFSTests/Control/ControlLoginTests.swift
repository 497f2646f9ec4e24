import CloudFSClient
import CloudFSControlAPI
import Glibc
import Synchronization
import Testing

@testable import CloudFS
@testable import cloudfs

/// Keys on their way from a terminal to the drive's cloud.
@Suite(.timeLimit(.minutes(10))) struct ControlLoginTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    @Test func `keys reach the drive, which answers with its state`() async throws {
        let drive = FakeDrive()
        let status = try await withServer(drive, in: folder) { client, _ in
            try await client.login(LoginRequest(name: "AKIA ä", secret: "s/+\"\\="))
        }
        #expect(
            drive.state.withLock { $0.login } == ProviderLogin(name: "AKIA ä", secret: "s/+\"\\=")
        )
        #expect(status.connection == .online)
    }

    @Test func `a drive without keys says so`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.failure = CloudFSError(.unsupported, "it needs no login") }
        let expected = DriveClientError.failure(
            ControlFailure(code: "unsupported", message: "it needs no login")
        )
        try await withServer(drive, in: folder) { client, _ in
            await #expect(throws: expected) {
                try await client.login(LoginRequest(name: "a", secret: "b"))
            }
        }
    }

    @Test(arguments: [
        (#"{"name":"a"}"#, "400", "secret is missing"), ("", "400", "name is missing"),
        (#"{"name":"a","secret":7}"#, "400", "secret: "),
    ])
    func `half a login is refused`(_ body: String, _ status: String, _ word: String) async throws {
        let drive = FakeDrive()
        let answer = try await withServer(drive, in: folder) { _, server in
            let connection = try RawConnection(server.socketPath)
            let head = "POST /v1/login HTTP/1.1\r\nHost: drive\r\n"
            let size = body.utf8.count
            #expect(try await connection.send("\(head)Content-Length: \(size)\r\n\r\n\(body)"))
            return try await connection.receive(until: "}}")
        }
        #expect(answer.hasPrefix("HTTP/1.1 \(status) "))
        #expect(answer.contains(word))
        #expect(drive.calls == [])
    }

    @Test func `a login that is longer than any key is refused`() async throws {
        let drive = FakeDrive()
        let long = LoginRequest(name: String(repeating: "x", count: 10_000), secret: "hush")
        try await withServer(drive, in: folder) { client, _ in
            do {
                _ = try await client.login(long)
                Issue.record("it was taken")
            } catch DriveClientError.failure(let failure) {
                #expect(failure.code == "tooLarge")
                #expect(!failure.message.contains("xxx"))
            }
        }
        #expect(drive.calls == [])
    }

    @Test func `nothing that is printed shows a secret`() {
        let request = LoginRequest(name: "the-name", secret: "the-secret")
        let login = ProviderLogin(name: "the-name", secret: "the-secret")
        var dumped = ""
        dump(request, to: &dumped)
        dump(login, to: &dumped)
        for text in ["\(request)", "\(login)", String(reflecting: request), dumped] {
            #expect(!text.contains("the-"))
        }
    }

    // MARK: - The command

    /// Lends a pipe that holds `bytes`, and nothing after them.
    private func withInput(_ bytes: [UInt8], _ body: (Prompt) throws -> Void) throws {
        var ends: [Int32] = [-1, -1]
        try #require(pipe(&ends) == 0)
        defer { close(ends[0]) }
        #expect(write(ends[1], bytes, bytes.count) == bytes.count)
        close(ends[1])
        try body(Prompt(descriptor: ends[0]))
    }

    @Test func `without a terminal two lines are read, and no more`() throws {
        try withInput(Array("  key \r\nse cret\nrest\n".utf8)) { prompt in
            #expect(!prompt.isWatched)
            let name = try prompt.line("Access key: ")
            let secret = try prompt.line("Secret key: ", isSecret: true)
            let rest = try prompt.line("More: ")
            #expect([name, secret, rest] == ["key", "se cret", "rest"])
        }
    }

    @Test(
        arguments: [
            ([], "the access key is empty"), ([0x20, 0x0a], "the access key is empty"),
            ([0xff, 0x0a], "the access key is no text"),
            ([UInt8](repeating: 0x41, count: 5_000), "the access key is too long"),
        ] as [([UInt8], String)]
    )
    func `what is no key is refused before anybody hears of it`(
        _ bytes: [UInt8],
        _ sentence: String
    ) throws {
        try withInput(bytes) { prompt in
            let error = #expect(throws: Prompt.Unanswered.self) { try prompt.line("Access key: ") }
            #expect(error?.description == sentence)
        }
    }

    @Test func `the drive's table tells what is known of its server`() async throws {
        var status = try await FakeDrive().status()
        #expect(
            !DriveDescription(status).lines(hasColour: false).contains { $0.contains("writes") }
        )
        status.server = ["writes": "conditional: If-None-Match, If-Match"]
        let lines = DriveDescription(status).lines(hasColour: false)
        #expect(lines.contains("  writes      conditional: If-None-Match, If-Match"))
    }
}
