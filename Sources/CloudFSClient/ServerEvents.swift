import CloudFSControlAPI
import Foundation
import NIOCore
import Synchronization

/// Cuts a stream of server-sent events into events.
///
/// Source: the WHATWG's HTML standard, "Server-sent events"; of its fields, `event` and `data`.
struct ServerEvents: Sendable {
    struct Event: Sendable, Hashable {
        /// What `event:` says; empty for the usual kind.
        var name = ""
        var data: [UInt8] = []
    }

    private var line: [UInt8] = []
    private var event = Event()
    private var hasData = false

    /// The longest event, in bytes.
    static let longestEvent = 1 << 20

    /// Takes bytes of the stream.
    ///
    /// - Returns: The events that are complete with them.
    /// - Throws: `badAnswer` for an event that is too long.
    mutating func take(_ bytes: some Sequence<UInt8>) throws(DriveClientError) -> [Event] {
        var events: [Event] = []
        for byte in bytes {
            guard byte != UInt8(ascii: "\n") else {
                if let event = endLine() { events.append(event) }
                continue
            }
            line.append(byte)
            guard line.count + event.data.count <= Self.longestEvent else {
                throw .badAnswer("an event of more than \(Self.longestEvent) bytes")
            }
        }
        return events
    }

    private mutating func endLine() -> Event? {
        defer { line = [] }
        if line.last == UInt8(ascii: "\r") { line.removeLast() }
        guard !line.isEmpty else {
            defer { (event, hasData) = (Event(), false) }
            return hasData ? event : nil
        }
        let parts = line.split(separator: UInt8(ascii: ":"), maxSplits: 1)
        // A line that begins with a colon is a comment.
        guard line.first != UInt8(ascii: ":"), let field = parts.first else { return nil }
        var value = parts.count > 1 ? parts[1] : []
        if value.first == UInt8(ascii: " ") { value.removeFirst() }
        switch String(decoding: field, as: UTF8.self) {
        case "event": event.name = String(decoding: value, as: UTF8.self)
        case "data":
            if hasData { event.data.append(UInt8(ascii: "\n")) }
            event.data += value
            hasData = true
        default: break
        }
        return nil
    }
}

/// Whether anything came of a stream lately, be it a comment.
private final class Hearing: Sendable {
    private let hasHeard = Atomic(false)

    func note() { hasHeard.store(true, ordering: .relaxed) }

    /// Waits until nothing was heard for `longest`, or a third more.
    ///
    /// It takes three looks in a row: who was stopped, or had no thread, has heard nothing either.
    func waitForSilence(of longest: Duration) async throws {
        var looks = 0
        while looks < 3 {
            try await Task.sleep(for: longest / 3)
            looks = hasHeard.exchange(false, ordering: .relaxed) ? 0 : looks + 1
        }
    }
}

/// What the daemon tells for as long as somebody listens; letting go of it ends it there, too.
public struct DriveEvents<Event: Decodable & Sendable>: AsyncSequence, Sendable {
    let stream: AsyncThrowingStream<Event, any Error>

    public func makeAsyncIterator() -> AsyncThrowingStream<Event, any Error>.AsyncIterator {
        stream.makeAsyncIterator()
    }

    /// - Parameters:
    ///   - broken: What it means that the connection breaks, or is not made.
    ///   - longest: How long nothing may come of it, not even a comment, until it is broken.
    ///   - open: Connects, and returns the bytes of the answer.
    init<Bytes: AsyncSequence & Sendable>(
        or broken: @escaping @Sendable () -> DriveClientError,
        silentAtMost longest: Duration,
        opening open: @escaping @Sendable () async throws -> Bytes
    ) where Bytes.Element == ByteBuffer {
        stream = AsyncThrowingStream { continuation in
            let hearing = Hearing()
            let watch = Task {
                // Cancelled when the stream ends before.
                guard (try? await hearing.waitForSilence(of: longest)) != nil else { return }
                continuation.finish(throwing: broken())
            }
            let task = Task {
                defer { watch.cancel() }
                do {
                    var parser = ServerEvents()
                    for try await buffer in try await open() {
                        hearing.note()
                        for event in try parser.take(buffer.readableBytesView) {
                            continuation.yield(try Self.decode(event))
                        }
                    }
                    continuation.finish()
                } catch {
                    let isTold = error is DriveClientError || error is CancellationError
                    continuation.finish(throwing: isTold ? error : broken())
                }
            }
            continuation.onTermination = { _ in task.cancel() }
        }
    }

    private static func decode(_ event: ServerEvents.Event) throws -> Event {
        do {
            guard event.name != "error" else {
                throw DriveClientError.failure(
                    try JSONDecoder().decode(ControlFailure.self, from: Data(event.data))
                )
            }
            return try JSONDecoder().decode(Event.self, from: Data(event.data))
        } catch let error as DecodingError {
            throw DriveClientError.badAnswer("an event that is not understood: \(error)")
        }
    }
}
