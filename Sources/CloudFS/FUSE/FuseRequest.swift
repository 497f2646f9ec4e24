import CFuse
import Logging
import Synchronization

/// What a request needs from whoever delivered it: libfuse, or a test.
protocol RequestPort: Sendable {
    /// Calls `interruption.interrupt()` when the kernel gives up on the request, or at once if it
    /// already has.
    func watch(_ interruption: Interruption)

    /// Ends `watch`; when this returns, no call is under way and none will come.
    func unwatch(_ interruption: Interruption)

    /// Sends the reply; the port must not be used after that.
    func send(_ reply: FuseReply)
}

/// One request of the kernel, answered exactly once: on the thread that brought it, or later.
///
/// Copyable on purpose: a noncopyable value cannot be consumed inside a task's closure.
///
/// - Invariant: the port is given up once; a second answer traps, and a request that is dropped
///   without one is answered with EIO, because the caller in the kernel would wait for ever.
final class FuseRequest<Port: RequestPort>: Sendable {
    private let port: Mutex<Port?>
    private let ledger: RequestLedger
    private let operation: String
    private let item: ItemID

    /// - Parameters:
    ///   - port: How to reply; nobody else may use it from now on.
    ///   - ledger: Where requests are counted while they live.
    ///   - operation: The kernel's name for it, for the log.
    ///   - item: What the request is about.
    init(_ port: Port, _ ledger: RequestLedger, _ operation: String, item: ItemID) {
        self.port = Mutex(port)
        self.ledger = ledger
        self.operation = operation
        self.item = item
        ledger.requestBegan()
    }

    deinit {
        guard let port = port.withLock({ $0.take() }) else { return }
        ledger.logger.warning("A request was dropped without an answer.", metadata: metadata)
        port.send(.failure(ErrnoMapping.errno(for: .internalFailure)))
        ledger.requestEnded()
    }

    /// Answers with what `work` returns or throws, on this thread.
    func answer(_ work: () throws(CloudFSError) -> FuseReply) {
        do throws(CloudFSError) {
            finish(try work())
        } catch {
            fail(error)
        }
    }

    /// Answers at once if `work` can, else from a task that the kernel's interrupt cancels.
    func answerLater(_ work: () throws(CloudFSError) -> Answer<FuseReply>) {
        do throws(CloudFSError) {
            switch try work() {
            case .ready(let reply): finish(reply)
            case .pending(let work): handOver(work)
            }
        } catch {
            fail(error)
        }
    }

    func finish(_ reply: FuseReply) {
        let port = port.withLock { $0.take() }
        guard let port else { preconditionFailure("\(operation) was answered twice") }
        FaultPoint.answering(operation)
        port.send(reply)
        ledger.requestEnded()
    }

    func fail(_ error: CloudFSError) {
        let number = ErrnoMapping.errno(for: error, of: item, in: operation)
        log(error)
        finish(.failure(number))
    }

    private func log(_ error: CloudFSError) {
        let level = FailureLevel.level(of: error.code, in: operation)
        guard level >= ledger.logger.logLevel, let leftOut = countLeftOut(error) else { return }
        var facts = metadata
        facts["error.code"] = "\(error.code.rawValue)"
        if leftOut > 0 { facts["left.out"] = "\(leftOut)" }
        ledger.logger.log(level: level, "\(error)", metadata: facts)
    }

    /// Who looks for a fault wants to see them all.
    private func countLeftOut(_ error: CloudFSError) -> Int? {
        guard ledger.logger.logLevel > .debug else { return 0 }
        return ledger.failures.note(operation, error.code, at: Clocks.system.elapsed())
    }

    // MARK: - Answers that wait

    private func handOver(_ work: @escaping @Sendable () async throws(CloudFSError) -> FuseReply) {
        let interruption = Interruption()
        ledger.waits.insert(interruption)
        // Watched before the task exists: the task may answer at any moment from its start, and
        // the port must not be touched after that.
        port.withLock { $0 }?.watch(interruption)
        let task = Task { [self] in
            let outcome = await Self.outcome(of: work)
            // Not under the mutex: `unwatch` waits for an interrupt that is just being delivered.
            port.withLock { $0 }?.unwatch(interruption)
            ledger.waits.remove(interruption)
            switch outcome {
            case .success(let reply): await finishLater(reply)
            case .failure(let error): fail(error)
            }
        }
        interruption.attach(task)
    }

    private static func outcome(
        of work: () async throws(CloudFSError) -> FuseReply
    ) async -> Result<FuseReply, CloudFSError> {
        do throws(CloudFSError) {
            return .success(try await work())
        } catch {
            return .failure(error)
        }
    }

    /// Replies that read a content file may block on the disk, which a task must not.
    private func finishLater(_ reply: FuseReply) async {
        guard case .content(.file) = reply else { return finish(reply) }
        do {
            try await ledger.replies.run { [self] in finish(reply) }
        } catch {
            preconditionFailure("sending a reply throws nothing: \(error)")
        }
    }

    private var metadata: Logger.Metadata {
        ["fuse.op": "\(operation)", "item.id": "\(item)"]
    }
}

/// The link from the kernel's interrupt to the task that is waiting.
///
/// The interrupt may come before the task exists; then the task is cancelled when it does.
final class Interruption: Sendable {
    private struct State {
        var isInterrupted = false
        var task: Task<Void, Never>?
    }

    private let state = Mutex(State())

    /// Cancels the task.
    ///
    /// Called by libfuse with a lock of the request held, so it never replies itself.
    func interrupt() {
        let task = state.withLock { state in
            state.isInterrupted = true
            return state.task
        }
        task?.cancel()
    }

    func attach(_ task: Task<Void, Never>) {
        let isInterrupted = state.withLock { state in
            state.task = task
            return state.isInterrupted
        }
        if isInterrupted { task.cancel() }
    }
}

/// How loud the one log line of a failed request is.
enum FailureLevel {
    static func level(of code: CloudFSError.Code, in operation: String) -> Logger.Level {
        switch (code, operation) {
        case (.notFound, "lookup"), (.noAttribute, "getxattr"), (.cancelled, _),
            (.lockHeld, _), (.absent, _), (.noData, "lseek"), (.unsupported, "copy_file_range"):
            .trace
        case (.internalFailure, _), (.corrupt, _):
            .warning
        case (.offline, _), (.timedOut, _), (.unauthenticated, _), (.diskFull, _),
            (.quotaExceeded, _), (.diskQuotaExceeded, _), (.remoteChanged, _), (.tooManyOpen, _),
            (.claimed, _):
            .info
        default:
            .debug
        }
    }
}
