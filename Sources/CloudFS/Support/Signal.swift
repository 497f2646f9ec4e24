import Synchronization

/// Wakes one waiting task; a signal raised while nobody waits is kept for the next wait.
final class Signal: Sendable {
    private struct State {
        var isRaised = false
        var next: UInt64 = 0
        var waiting: (id: UInt64, continuation: CheckedContinuation<Void, Never>)?
    }

    private let state = Mutex(State())

    func raise() {
        state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard let waiting = state.waiting else {
                state.isRaised = true
                return nil
            }
            state.waiting = nil
            return waiting.continuation
        }?.resume()
    }

    /// Waits until the signal was raised, the time is over, or the task is cancelled.
    func wait(atMost limit: Duration? = nil) async {
        guard let limit else { return await wait() }
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.wait() }
            group.addTask {
                do { try await Task.sleep(for: limit) } catch { return }
            }
            await group.next()
            group.cancelAll()
        }
    }

    private func wait() async {
        let id = state.withLock { state in
            state.next += 1
            return state.next
        }
        await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.isRaised || Task.isCancelled {
                        state.isRaised = false
                        return true
                    }
                    precondition(state.waiting == nil, "a signal wakes one task")
                    state.waiting = (id, continuation)
                    return false
                }
                if isOver { continuation.resume() }
            }
        } onCancel: {
            state.withLock { state -> CheckedContinuation<Void, Never>? in
                guard let waiting = state.waiting, waiting.id == id else { return nil }
                state.waiting = nil
                return waiting.continuation
            }?.resume()
        }
    }
}

/// A result that one or more tasks wait for, and that arrives once.
final class Pending<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, CancellationOrFailure>?
        var waiting: CheckedContinuation<Result<Value, CancellationOrFailure>, Never>?
    }

    /// Why there is no value.
    enum CancellationOrFailure: Error {
        case failed(any Error)
        case cancelled
    }

    private let state = Mutex(State())

    /// Delivers the result; only the first one counts.
    func finish(_ result: Result<Value, any Error>) {
        deliver(result.mapError { .failed($0) })
    }

    /// Waits for the result; one task at a time.
    ///
    /// - Parameter onCancel: Called when the waiting task is cancelled first.
    func value(onCancel: @escaping @Sendable () -> Void) async throws -> Value {
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                let known = state.withLock { state in
                    if state.result == nil { state.waiting = continuation }
                    return state.result
                }
                if let known { continuation.resume(returning: known) }
            }
        } onCancel: {
            deliver(.failure(.cancelled))
            onCancel()
        }
        switch result {
        case .success(let value): return value
        case .failure(.failed(let error)): throw error
        case .failure(.cancelled): throw CancellationError()
        }
    }

    private func deliver(_ result: Result<Value, CancellationOrFailure>) {
        state.withLock {
            state -> CheckedContinuation<Result<Value, CancellationOrFailure>, Never>? in
            guard state.result == nil else { return nil }
            state.result = result
            defer { state.waiting = nil }
            return state.waiting
        }?.resume(returning: result)
    }
}
