import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct RequestGateTests {
    @Test func `work that ends in time gives its value`() async throws {
        let gate = RequestGate(width: 1)
        for number in 0..<1_000 {
            let value = try await gate.run(within: .seconds(60)) { number }
            #expect(value == number)
            while gate.runningCount > 0 { await Task.yield() }
        }
    }

    @Test func `work that fails gives its error`() async throws {
        let gate = RequestGate(width: 1)
        let error = await #expect(throws: CloudFSError.self) {
            try await gate.run(within: .seconds(60)) { throw CloudFSError(.notFound, "no") }
        }
        #expect(error?.code == .notFound)
    }

    @Test func `work left behind stays counted until it ends`() async throws {
        let gate = RequestGate(width: 1)
        let (stream, end) = AsyncStream.makeStream(of: Void.self)
        let late = await #expect(throws: CloudFSError.self) {
            try await gate.run(within: .milliseconds(1)) {
                // A task of its own does not hear of the cancellation.
                await Task { for await _ in stream {} }.value
            }
        }
        #expect(late?.code == .timedOut)
        let turnedAway = await #expect(throws: CloudFSError.self) {
            try await gate.run(within: .seconds(60)) {}
        }
        #expect(turnedAway?.code == .tooManyOpen)
        end.finish()
        while gate.runningCount > 0 { await Task.yield() }
        try await gate.run(within: .seconds(60)) {}
    }

    @Test func `a cancelled request does not wait for its work`() async throws {
        let gate = RequestGate(width: 1)
        let (stream, end) = AsyncStream.makeStream(of: Void.self)
        let request = Task {
            try await gate.run(within: .seconds(60)) {
                await Task { for await _ in stream {} }.value
            }
        }
        while gate.runningCount == 0 { await Task.yield() }
        request.cancel()
        let error = await #expect(throws: CloudFSError.self) { try await request.value }
        #expect(error?.code == .cancelled)
        end.finish()
    }
}
