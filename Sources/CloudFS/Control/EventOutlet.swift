import CloudFSControlAPI
import Foundation
import Hummingbird
import NIOCore
import Synchronization

/// A stream of server-sent events on its way to one client.
///
/// A client that takes nothing while too many events come is let go: its connection ends.
final class EventOutlet: Sendable {
    private let stream: AsyncStream<ByteBuffer>
    private let continuation: AsyncStream<ByteBuffer>.Continuation
    /// Whether there is a stream at all: known with the first event, or the first failure.
    private let beginning = PendingResult<Void>()
    private let hasBegun = Atomic(false)

    /// How many events may wait for a slow client.
    private static let mostWaiting = 1_024
    /// How often something is sent, so that a client which is gone is noticed, and one that listens
    /// knows that it is heard.
    private let pingInterval: Duration

    init(pingInterval: Duration = .seconds(10)) {
        self.pingInterval = pingInterval
        (stream, continuation) = AsyncStream.makeStream(
            bufferingPolicy: .bufferingOldest(Self.mostWaiting)
        )
    }

    /// Puts an event into the stream.
    ///
    /// - Returns: `false` if nobody listens any more.
    func send(_ event: some Encodable) -> Bool {
        begin(.success(()))
        return put("data: ", event)
    }

    /// Ends the stream with the reason.
    func fail(_ error: CloudFSError) {
        if !begin(.failure(error)) { _ = put("event: error\ndata: ", ControlFailure(error)) }
        finish()
    }

    func finish() {
        begin(.success(()))
        continuation.finish()
    }

    /// Waits for the first event, but no longer than until something has to be sent; to be called
    /// once.
    ///
    /// - Throws: The failure that came before any event.
    func waitForBeginning() async throws(CloudFSError) {
        let alarm = Task {
            // Cancelled when there is one.
            guard (try? await Task.sleep(for: pingInterval)) != nil else { return }
            begin(.success(()))
        }
        defer { alarm.cancel() }
        try await beginning.value().get()
    }

    /// Runs `work` when the stream ends, whoever ends it.
    func whenFinished(_ work: @escaping @Sendable () -> Void) {
        continuation.onTermination = { _ in work() }
    }

    /// Writes all events until the stream ends.
    func write(to writer: inout any ResponseBodyWriter) async throws {
        let pings = Task { [continuation, pingInterval] in
            // Cancelled with the stream.
            while (try? await Task.sleep(for: pingInterval)) != nil {
                continuation.yield(ByteBuffer(string: ": ping\n\n"))
            }
        }
        defer {
            pings.cancel()
            finish()
        }
        for await bytes in stream { try await writer.write(bytes) }
    }

    /// - Returns: Whether it was the first.
    @discardableResult
    private func begin(_ result: PendingResult<Void>.Outcome) -> Bool {
        guard !hasBegun.exchange(true, ordering: .sequentiallyConsistent) else { return false }
        beginning.resolve(result)
        return true
    }

    private func put(_ head: String, _ event: some Encodable) -> Bool {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        guard let json = try? encoder.encode(event) else {
            preconditionFailure("an event that cannot be written as JSON")
        }
        // JSON has no line breaks of its own.
        let bytes = ByteBuffer(bytes: Array(head.utf8) + Array(json) + Array("\n\n".utf8))
        guard case .enqueued = continuation.yield(bytes) else {
            finish()
            return false
        }
        return true
    }
}

/// How many streams are open at once.
final class StreamPlaces: Sendable {
    private let most: Int
    private let taken = Mutex(0)

    init(most: Int) {
        self.most = most
    }

    /// - Throws: `tooManyOpen`.
    func enter() throws(CloudFSError) {
        let isFree = taken.withLock { taken in
            guard taken < most else { return false }
            taken += 1
            return true
        }
        guard isFree else {
            throw CloudFSError(.tooManyOpen, "\(most) streams are open; try again")
        }
    }

    func leave() {
        taken.withLock { $0 -= 1 }
    }
}
