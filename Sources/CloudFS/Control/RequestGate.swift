import Synchronization

/// Runs the work of requests: not too many at once, none longer than its deadline.
///
/// Work that does not end when it is cancelled, because it sits in a system call, must not keep
/// its client waiting; so it runs in a task of its own and is left behind. It stays counted until
/// it ends, and with that the number of such tasks is bounded.
final class RequestGate: Sendable {
    private let width: Int
    private let running = Mutex(0)

    init(width: Int) {
        precondition(width > 0, "a gate that lets nobody in")
        self.width = width
    }

    /// How many pieces of work have begun and not ended.
    var runningCount: Int { running.withLock { $0 } }

    /// Runs `work` and returns what it returns.
    ///
    /// - Throws: What `work` throws; `timedOut`; `cancelled`; `tooManyOpen`.
    func run<Value: Sendable>(
        within limit: Duration,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        try enter()
        let race = Race<Value>()
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let worker = Task {
                    defer { self.leave() }
                    do {
                        race.finish(.success(try await work()))
                    } catch {
                        race.finish(.failure(error))
                    }
                }
                let timer = Task {
                    do {
                        try await Task.sleep(for: limit)
                    } catch {
                        return  // The work was faster.
                    }
                    race.finish(
                        .failure(CloudFSError(.timedOut, "not done within \(limit)"))
                    )
                }
                race.begin(continuation, tasks: [worker, timer])
            }
        } onCancel: {
            race.finish(.failure(CloudFSError(.cancelled, "the drive is being unmounted")))
        }
    }

    private func enter() throws {
        let isFree = running.withLock { running in
            guard running < width else { return false }
            running += 1
            return true
        }
        guard isFree else {
            throw CloudFSError(.tooManyOpen, "\(width) requests are being worked on; try again")
        }
    }

    private func leave() {
        running.withLock { $0 -= 1 }
    }
}

/// One continuation and those who want to resume it; the first one does.
private final class Race<Value: Sendable>: Sendable {
    private enum State {
        case idle
        case running(CheckedContinuation<Value, any Error>, [Task<Void, Never>])
        /// Finished before `begin` knew the continuation.
        case early(Result<Value, any Error>)
        case finished
    }

    private let state = Mutex(State.idle)

    func begin(_ continuation: CheckedContinuation<Value, any Error>, tasks: [Task<Void, Never>]) {
        let early = state.withLock { state -> Result<Value, any Error>? in
            guard case .early(let result) = state else {
                state = .running(continuation, tasks)
                return nil
            }
            state = .finished
            return result
        }
        guard let early else { return }
        for task in tasks { task.cancel() }
        continuation.resume(with: early)
    }

    func finish(_ result: Result<Value, any Error>) {
        typealias Winner = (CheckedContinuation<Value, any Error>, [Task<Void, Never>])
        let winner = state.withLock { state -> Winner? in
            switch state {
            case .idle:
                state = .early(result)
                return nil
            case .running(let continuation, let tasks):
                state = .finished
                return (continuation, tasks)
            case .early, .finished:
                return nil
            }
        }
        guard let (continuation, tasks) = winner else { return }
        for task in tasks { task.cancel() }
        continuation.resume(with: result)
    }
}
