import Foundation
import Glibc
import Synchronization
import Testing

@testable import CloudFS

/// A time limit that tests reach only by failing.
private let generous = HTTPLimits(total: .seconds(60), firstByte: .seconds(60), idle: .seconds(60))

@Suite(.timeLimit(.minutes(10))) struct HTTPTransportTests {
    private let pool = BlockingPool(name: "http-test", width: 2)

    private func withServer<Value>(
        connections: Int = 4,
        _ script: @escaping @Sendable (ScriptedServer.Request) -> [ScriptedServer.Step],
        _ body: (HTTPTransport, ScriptedServer) async throws -> Value
    ) async throws -> Value {
        let server = try ScriptedServer(script)
        let transport = try HTTPTransport(maximumConnections: connections, pool: pool)
        do {
            let value = try await body(transport, server)
            await transport.shutdown()
            server.stop()
            return value
        } catch {
            await transport.shutdown()
            server.stop()
            throw error
        }
    }

    private func request(
        _ server: ScriptedServer,
        _ method: String = "GET",
        body: HTTPBody = .none
    ) -> HTTPTransport.Request {
        HTTPTransport.Request(
            method: method,
            url: "http://127.0.0.1:\(server.port)/path",
            headers: [],
            body: body
        )
    }

    private func fetch(
        _ transport: HTTPTransport,
        _ request: HTTPTransport.Request,
        _ limits: HTTPLimits = generous
    ) async throws(CloudFSError) -> [UInt8] {
        try await transport.send(request, meter: transport.meter(limits)) {
            answer throws(CloudFSError) in try await answer.wholeBody(atMost: 64 << 20)
        }
    }

    @Test func `a large answer arrives whole, in pieces of at most a mebibyte`() async throws {
        let content = (0..<5_000_000).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) }
        try await withServer { _ in
            .answer(200, [], content)
        } _: { transport, server in
            let received = try await transport.send(
                request(server),
                meter: transport.meter(generous)
            ) { answer throws(CloudFSError) in
                var received: [UInt8] = []
                while let piece = try await answer.next() {
                    #expect(piece.count <= 1 << 20)
                    received += piece.bytes
                }
                return received
            }
            #expect(received == content)
        }
    }

    @Test func `a file is sent with its length, piece by piece`() async throws {
        let content = (0..<1_500_000).map { UInt8(truncatingIfNeeded: $0 &* 7 >> 2) }
        let path = FileManager.default.temporaryDirectory.appending(path: UUID().uuidString)
        try Data(content).write(to: path)
        defer { try? FileManager.default.removeItem(at: path) }
        let descriptor = open(path.path, O_RDONLY)
        defer { close(descriptor) }
        let announced = Mutex(0)
        let sent = Mutex<Int64>(0)

        try await withServer { _ in
            .answer(200)
        } _: { transport, server in
            let body = HTTPBody.file(
                descriptor: descriptor,
                offset: 1_000,
                byteCount: 1_400_000,
                willSend: { count in announced.withLock { $0 += count } },
                didSend: { count in sent.withLock { $0 = count } }
            )
            _ = try await fetch(transport, request(server, "PUT", body: body))

            let request = try #require(server.requests.first)
            #expect(request.header("content-length") == "1400000")
            #expect(request.body == Array(content[1_000..<1_401_000]))
        }
        #expect(announced.withLock { $0 } == 1_400_000)
        #expect(sent.withLock { $0 } == 1_400_000)
    }

    @Test func `a refusal to send ends the request with its own error`() async throws {
        let descriptor = open("/dev/zero", O_RDONLY)
        defer { close(descriptor) }
        try await withServer { _ in
            .answer(200)
        } _: { transport, server in
            let body = HTTPBody.file(
                descriptor: descriptor,
                offset: 0,
                byteCount: 1_000_000,
                willSend: { _ throws(CloudFSError) in throw CloudFSError(.claimed, "not now") }
            )
            let error = await #expect(throws: CloudFSError.self) {
                try await fetch(transport, request(server, "PUT", body: body))
            }
            #expect(error?.code == .claimed)
        }
    }

    @Test func `a file that became shorter is not sent`() async throws {
        let descriptor = open("/dev/null", O_RDONLY)
        defer { close(descriptor) }
        try await withServer { _ in
            .answer(200)
        } _: { transport, server in
            let body = HTTPBody.file(descriptor: descriptor, offset: 0, byteCount: 10)
            let error = await #expect(throws: CloudFSError.self) {
                try await fetch(transport, request(server, "PUT", body: body))
            }
            #expect(error?.code == .cancelled)
        }
    }

    @Test(arguments: [
        ["HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this"],
        ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"],
        ["HTTP/1.1 200 OK\r\nConte"],
        [],
    ])
    func `a connection that breaks in an answer is an error`(parts: [String]) async throws {
        try await withServer { _ in
            parts.map { .text($0) } + [.close]
        } _: { transport, server in
            let error = await #expect(throws: CloudFSError.self) {
                try await fetch(transport, request(server))
            }
            #expect(error?.code == .offline)
            let failure = try #require(error?.cause as? HTTPFailure)
            #expect(failure.mayHaveArrived)
            #expect(error?.message.contains("127.0.0.1:\(server.port)") == true)
        }
    }

    @Test func `what is not HTTP is refused`() async throws {
        try await withServer { _ in
            [.text("SSH-2.0-OpenSSH\r\n\r\n"), .close]
        } _: {
            transport,
            server in
            let error = await #expect(throws: CloudFSError.self) {
                try await fetch(transport, request(server))
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `a server that is not there is not connected to`() async throws {
        let server = try ScriptedServer { _ in [] }
        server.stop()
        let transport = try HTTPTransport(pool: pool)
        let error = await #expect(throws: CloudFSError.self) {
            try await fetch(transport, request(server))
        }
        await transport.shutdown()
        #expect(error?.code == .offline)
        let failure = try #require(error?.cause as? HTTPFailure)
        #expect(!failure.mayHaveArrived)
    }

    @Test(arguments: [
        HTTPLimits(total: .seconds(60), firstByte: .milliseconds(200), idle: .seconds(60)),
        HTTPLimits(total: .milliseconds(200), firstByte: .seconds(60), idle: .seconds(60)),
    ])
    func `a server that does not answer is waited for as long as agreed`(
        limits: HTTPLimits
    ) async throws {
        try await withServer { _ in
            [.hang]
        } _: { transport, server in
            let error = await #expect(throws: CloudFSError.self) {
                try await fetch(transport, request(server), limits)
            }
            #expect(error?.code == .timedOut)
        }
    }

    @Test func `an answer that stops in the middle is waited for as long as agreed`() async throws {
        try await withServer { _ in
            [.text("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome"), .hang]
        } _: { transport, server in
            var limits = generous
            limits.idle = .milliseconds(200)
            let error = await #expect(throws: CloudFSError.self) {
                try await fetch(transport, request(server), limits)
            }
            #expect(error?.code == .timedOut)
        }
    }

    @Test func `a cancelled request ends at once and its slot is free again`() async throws {
        let isAsked = Signal()
        try await withServer(connections: 1) { request in
            isAsked.raise()
            return request.number == 1 ? [.hang] : .answer(200, [], "second")
        } _: { transport, server in
            let hanging = request(server)
            let task = Task { try await fetch(transport, hanging) }
            await isAsked.wait()
            task.cancel()
            let error = await #expect(throws: CloudFSError.self) { try await task.value }
            #expect(error?.code == .cancelled)
            let second = try await fetch(transport, request(server))
            #expect(second == Array("second".utf8))
        }
    }

    @Test func `more requests than connections wait for their turn`() async throws {
        try await withServer(connections: 2) { _ in
            .answer(200, [], "done")
        } _: {
            transport,
            server in
            let one = request(server)
            try await withThrowingTaskGroup(of: [UInt8].self) { group in
                for _ in 0..<40 { group.addTask { try await self.fetch(transport, one) } }
                for try await body in group { #expect(body == Array("done".utf8)) }
            }
            #expect(server.requests.count == 40)
        }
    }

    @Test func `an answer longer than allowed is refused`() async throws {
        try await withServer { _ in
            .answer(200, [], [UInt8](repeating: 1, count: 100_000))
        } _: {
            transport,
            server in
            let error = await #expect(throws: CloudFSError.self) {
                try await transport.send(request(server), meter: transport.meter(generous)) {
                    answer throws(CloudFSError) in try await answer.wholeBody(atMost: 1_000)
                }
            }
            #expect(error?.code == .corrupt)
        }
    }

    @Test func `a redirect is an answer like any other`() async throws {
        try await withServer { _ in
            .answer(302, ["Location: http://127.0.0.1:1/"])
        } _: {
            transport,
            server in
            let status = try await transport.send(request(server), meter: transport.meter(generous))
            {
                answer throws(CloudFSError) in answer.status
            }
            #expect(status == 302)
            #expect(server.requests.count == 1)
        }
    }
}

@Suite struct HTTPMeterTests {
    @Test func `only the time on the network counts`() {
        let clock = ManualElapsed()
        let limits = HTTPLimits(total: .seconds(10), firstByte: .seconds(8), idle: .seconds(2))
        let meter = HTTPMeter(limits: limits, elapsed: { clock.now })
        clock.advance(by: .seconds(100))
        #expect(meter.networkTime == .zero)
        meter.resume()
        clock.advance(by: .seconds(7))
        #expect(meter.remaining() == .seconds(1))
        meter.move()
        #expect(meter.remaining() == .seconds(2))
        meter.pause()
        clock.advance(by: .seconds(100))
        #expect(meter.remaining() == .seconds(2))
        meter.resume()
        clock.advance(by: .seconds(1.5))
        #expect(meter.remaining() == .seconds(0.5))
        #expect(!meter.hasExpired)
        meter.move()
        clock.advance(by: .seconds(1.5))
        #expect(meter.remaining() == nil)
        #expect(meter.hasExpired)
    }

    @Test func `a body that moves is bounded by its standing still, its answer as a whole`() {
        let clock = ManualElapsed()
        let limits = HTTPLimits(total: .seconds(10), firstByte: .seconds(8), idle: .seconds(2))
        let meter = HTTPMeter(limits: limits, elapsed: { clock.now })
        meter.resume()
        for _ in 0..<20 {
            meter.send(allowing: .seconds(3))
            clock.advance(by: .seconds(2.5))
            #expect(meter.remaining() == .seconds(0.5))
        }
        meter.send(allowing: .seconds(8))
        clock.advance(by: .seconds(7))
        #expect(meter.remaining() == .seconds(1))
        for _ in 0..<6 {
            meter.move()
            #expect(meter.remaining() == .seconds(2))
            clock.advance(by: .seconds(1.5))
        }
        // What is still sent of a body that was answered puts off nothing.
        meter.send(allowing: .seconds(3))
        meter.move()
        #expect(meter.remaining() == .seconds(1))
        clock.advance(by: .seconds(1))
        #expect(meter.remaining() == nil)
    }

    @Test func `a body that stands still is given up`() {
        let clock = ManualElapsed()
        let limits = HTTPLimits(total: .seconds(90), firstByte: .seconds(8), idle: .seconds(2))
        let meter = HTTPMeter(limits: limits, elapsed: { clock.now })
        meter.resume()
        meter.send(allowing: .seconds(3))
        clock.advance(by: .seconds(3))
        #expect(meter.remaining() == nil)
        #expect(meter.hasExpired)
    }
}

private final class ManualElapsed: Sendable {
    private let time = Mutex(Duration.zero)

    var now: Duration { time.withLock { $0 } }

    func advance(by duration: Duration) { time.withLock { $0 += duration } }
}
