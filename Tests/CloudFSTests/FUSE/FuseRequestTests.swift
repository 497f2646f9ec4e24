import Dispatch
import Glibc
import Logging
import Synchronization
import Testing

@testable import CloudFS

@Suite struct FuseRequestTests {
    private let ledger = RequestLedger(logger: Logger(label: "tests"))

    @Test func `an answer that is ready is sent once and not watched`() {
        let port = RecordingPort()
        request(port).answer { .count(7) }
        #expect(port.events == ["count 7"])
    }

    @Test func `an error is sent as its errno`() {
        let port = RecordingPort()
        request(port).answer { () throws(CloudFSError) in
            throw CloudFSError(.offline, "no network")
        }
        #expect(port.events == ["failure \(ENETUNREACH)"])
    }

    @Test func `a request that is dropped is answered with EIO`() {
        let port = RecordingPort()
        _ = request(port)
        #expect(port.events == ["failure \(EIO)"])
        #expect(ledger.finishRequests(within: .seconds(0)))
    }

    @Test func `answering twice is a programmer's error`() async {
        await #expect(processExitsWith: .failure) {
            let ledger = RequestLedger(logger: Logger(label: "tests"))
            let request = FuseRequest(RecordingPort(), ledger, "test", item: .root)
            request.finish(.done)
            request.finish(.done)
        }
    }

    @Test func `an answer that waits is sent from its task, after the watch has ended`() async {
        let port = RecordingPort()
        let gate = AsyncStream<Void>.makeStream()
        request(port).answerLater {
            .pending { () async throws(CloudFSError) in
                for await _ in gate.stream { break }
                return .count(3)
            }
        }
        #expect(port.events == ["watch"])
        gate.continuation.yield()
        await port.sent()
        #expect(port.events == ["watch", "unwatch", "count 3"])
    }

    @Test func `an interrupt cancels the wait and answers EINTR`() async {
        let port = RecordingPort()
        request(port).answerLater { Self.endless }
        port.interrupt()
        await port.sent()
        #expect(port.events == ["watch", "unwatch", "failure \(EINTR)"])
    }

    @Test func `an interrupt that came before the watch cancels too`() async {
        let port = RecordingPort(isInterrupted: true)
        request(port).answerLater { Self.endless }
        await port.sent()
        #expect(port.events == ["watch", "unwatch", "failure \(EINTR)"])
    }

    @Test func `interrupts that race with answers lead to one reply each`() async throws {
        for round in 0..<500 {
            let port = RecordingPort()
            request(port).answerLater {
                .pending { () async throws(CloudFSError) in
                    for _ in 0..<(round % 7) { await Task.yield() }
                    if Task.isCancelled { throw CloudFSError(.cancelled, "interrupted") }
                    return .done
                }
            }
            await withTaskGroup { group in
                group.addTask { port.interrupt() }
                group.addTask { port.interrupt() }
            }
            await port.sent()
            #expect(port.events.count == 3)
        }
        #expect(try await finishes())
    }

    @Test func `the end of the session interrupts what waits and what begins to wait`() async throws
    {
        let port = RecordingPort()
        request(port).answerLater { Self.endless }
        #expect(try await finishes())
        #expect(port.events.last == "failure \(EINTR)")
        let late = RecordingPort()
        request(late).answerLater { Self.endless }
        await late.sent()
        #expect(late.events.last == "failure \(EINTR)")
    }

    @Test func `a session with an unanswered request does not end`() {
        let request = request(RecordingPort())
        #expect(!ledger.finishRequests(within: .milliseconds(1)))
        request.finish(.done)
        #expect(ledger.finishRequests(within: .seconds(0)))
    }

    @Test func `routine failures are not worth a line`() {
        #expect(FailureLevel.level(of: .notFound, in: "lookup") == .trace)
        #expect(FailureLevel.level(of: .noAttribute, in: "getxattr") == .trace)
        #expect(FailureLevel.level(of: .cancelled, in: "read") == .trace)
        #expect(FailureLevel.level(of: .offline, in: "read") == .info)
        #expect(FailureLevel.level(of: .internalFailure, in: "read") == .warning)
    }

    /// Waits on a thread that no task needs.
    private func finishes() async throws -> Bool {
        try await ledger.replies.run { [ledger] in ledger.finishRequests(within: .seconds(60)) }
    }

    private func request(_ port: RecordingPort) -> FuseRequest<RecordingPort> {
        FuseRequest(port, ledger, "test", item: ItemID(5))
    }

    private static var endless: Answer<FuseReply> {
        .pending { () async throws(CloudFSError) in
            // Ends only when the task is cancelled: nothing is ever yielded.
            for await _ in AsyncStream<Void>(unfolding: { await Forever.wait() }) {}
            throw CloudFSError(.cancelled, "interrupted")
        }
    }
}

/// A wait that only cancellation ends.
private enum Forever {
    static func wait() async -> Void? {
        let stream = AsyncStream<Void>.makeStream()
        await withTaskCancellationHandler {
            for await _ in stream.stream {}
        } onCancel: {
            stream.continuation.finish()
        }
        return nil
    }
}

/// Writes down what a request does with its way back.
private final class RecordingPort: RequestPort {
    private struct State {
        var events: [String] = []
        var watching: Interruption?
        var isInterrupted: Bool
    }

    private let state: Mutex<State>
    private let replies = AsyncStream<Void>.makeStream()

    init(isInterrupted: Bool = false) {
        state = Mutex(State(isInterrupted: isInterrupted))
    }

    var events: [String] { state.withLock { $0.events } }

    /// Returns when a reply has been sent.
    func sent() async {
        for await _ in replies.stream { return }
    }

    func interrupt() {
        state.withLock { state in
            state.isInterrupted = true
            return state.watching
        }?.interrupt()
    }

    func watch(_ interruption: Interruption) {
        let isInterrupted = state.withLock { state in
            state.events.append("watch")
            state.watching = interruption
            return state.isInterrupted
        }
        if isInterrupted { interruption.interrupt() }
    }

    func unwatch(_ interruption: Interruption) {
        state.withLock { state in
            #expect(state.watching === interruption)
            state.events.append("unwatch")
            state.watching = nil
        }
    }

    func send(_ reply: FuseReply) {
        let text =
            switch reply {
            case .failure(let number): "failure \(number)"
            case .count(let count): "count \(count)"
            default: "other"
            }
        state.withLock { $0.events.append(text) }
        replies.continuation.yield()
    }
}
