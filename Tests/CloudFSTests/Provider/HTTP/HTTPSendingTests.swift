import CloudFSTestSupport
import Glibc
import Testing

@testable import CloudFS

/// What is sent, and what waits for it.
@Suite(.timeLimit(.minutes(10))) struct HTTPSendingTests {
    private let pool = BlockingPool(name: "http-test", width: 2)

    private static let generous = HTTPLimits(
        total: .seconds(60),
        firstByte: .seconds(60),
        idle: .seconds(60)
    )
    private static let content = (0..<700_000).map { UInt8(truncatingIfNeeded: $0 &* 7 >> 2) }

    private func withServer(
        _ script: @escaping @Sendable (ScriptedServer.Request) -> [ScriptedServer.Step],
        _ body: (HTTPTransport, ScriptedServer) async throws -> Void
    ) async throws {
        let server = try ScriptedServer(script)
        defer { server.stop() }
        let transport = try HTTPTransport(maximumConnections: 4, pool: pool)
        do {
            try await body(transport, server)
        } catch {
            await transport.shutdown()
            throw error
        }
        await transport.shutdown()
    }

    private func send(
        _ method: String,
        _ body: HTTPBody = .none,
        over transport: HTTPTransport,
        to server: ScriptedServer
    ) async throws(CloudFSError) -> [UInt8] {
        let request = HTTPTransport.Request(
            method: method,
            url: "http://127.0.0.1:\(server.port)/path",
            headers: [],
            body: body
        )
        return try await transport.send(request, meter: transport.meter(Self.generous)) {
            answer throws(CloudFSError) in try await answer.wholeBody(atMost: 1 << 20)
        }
    }

    @Test(arguments: ["PUT", "POST", "DELETE"])
    func `changes without a body leave room for what reads`(method: String) async throws {
        try await withServer { request in
            request.method == "GET" ? .answer(200, [], "read") : [.hang]
        } _: { transport, server in
            let tasks = (0..<8).map { _ in
                Task { try await send(method, over: transport, to: server) }
            }
            try await eventually("two are sent") { server.requests.count == 2 }
            let read = try await send("GET", over: transport, to: server)
            #expect(read == Array("read".utf8))
            #expect(server.requests.map(\.method) == [method, method, "GET"])
            for task in tasks { task.cancel() }
            for task in tasks { _ = await task.result }
        }
    }

    /// The HTTP client keeps a body for ever whose answer came before it was sent.
    @Test func `a body whose answer has come keeps nothing of its file`() async throws {
        let transport = try HTTPTransport(maximumConnections: 1, pool: pool)
        let meter = transport.meter(Self.generous)
        weak var released: HTTPWitness?
        let outgoing: HTTPOutgoing
        do {
            let witness = HTTPWitness(byteCount: 1 << 20) {}
            released = witness
            let body = HTTPBody.file(
                descriptor: -1,
                offset: 0,
                byteCount: 1 << 20,
                witness: witness
            )
            outgoing = HTTPOutgoing(body, meter: meter, pool: pool)
        }
        let wireBody = try await outgoing.wireBody()
        #expect(wireBody != nil && released != nil)
        outgoing.end()
        #expect(released == nil)
        await transport.shutdown()
    }

    @Test func `bytes are sent as they are, also in many pieces`() async throws {
        try await withServer { _ in
            .answer(200)
        } _: { transport, server in
            for count in [0, 1, 32 << 10, (32 << 10) + 1, 700_000] {
                let bytes = Array(Self.content.prefix(count))
                _ = try await send("PUT", .bytes(bytes), over: transport, to: server)
                let request = try #require(server.requests.last)
                #expect(request.header("content-length") == String(count))
                #expect(request.body == bytes)
            }
        }
    }

    /// A body that is read from a file, and the file.
    private func fileBody(
        approving approve: @escaping @Sendable () throws(CloudFSError) -> Void
    ) throws -> (body: HTTPBody, witness: HTTPWitness, file: ScratchFile) {
        let file = try ScratchFile(Self.content)
        let count = Int64(Self.content.count)
        let witness = HTTPWitness(byteCount: count, approve: approve)
        let body = HTTPBody.file(
            descriptor: file.descriptor,
            offset: 0,
            byteCount: count,
            witness: witness
        )
        return (body, witness, file)
    }

    @Test func `what was sent of a file is known when the file is another`() async throws {
        let (body, witness, file) = try fileBody { () throws(CloudFSError) in }
        try await withServer { _ in
            .answer(200)
        } _: { transport, server in
            #expect(witness.md5 == nil)
            let before = try await transport.md5(of: body)
            for _ in 0..<2 {
                _ = try await send("PUT", body, over: transport, to: server)
                #expect(server.requests.last?.body == Self.content)
                #expect(witness.md5 == before)
            }
            var other: UInt8 = 255
            let written = pwrite(file.descriptor, &other, 1, 0)
            #expect(written == 1)
            #expect(try await transport.md5(of: body) == before)
        }
    }

    @Test func `a file that changes while it is sent never arrives whole`() async throws {
        let (body, witness, file) = try fileBody { () throws(CloudFSError) in
            throw CloudFSError(.cancelled, "it changed")
        }
        try await withServer { _ in
            .answer(200)
        } _: { transport, server in
            let error = await #expect(throws: CloudFSError.self) {
                try await send("PUT", body, over: transport, to: server)
            }
            #expect(error?.message == "it changed")
            #expect(witness.md5 == nil)
            #expect(server.requests.isEmpty)
        }
        withExtendedLifetime(file) {}
    }
}
