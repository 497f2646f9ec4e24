import Synchronization

/// One running piece of work for each key, however many wait for it.
///
/// Who comes while the work runs waits for its result; who comes after begins it anew. A waiter
/// that is cancelled leaves alone, and the last one to leave cancels the work.
final class SingleFlight<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Flight {
        var id: UInt64
        var waiters: [UInt64: CheckedContinuation<Value, any Error>] = [:]
        var task: Task<Void, Never>?
    }

    private struct State {
        var flights: [Key: Flight] = [:]
        var nextID: UInt64 = 1

        mutating func makeID() -> UInt64 {
            defer { nextID += 1 }
            return nextID
        }
    }

    private let state = Mutex(State())

    init() {}

    /// The keys whose work runs now.
    var runningKeys: Set<Key> { state.withLock { Set($0.flights.keys) } }

    /// How many wait for the work of `key`.
    func waiterCount(for key: Key) -> Int {
        state.withLock { $0.flights[key]?.waiters.count ?? 0 }
    }

    /// Waits for the running work of `key`, or runs `work`.
    ///
    /// - Throws: What the work throws; `CancellationError` when the waiting task is cancelled.
    func value(
        for key: Key,
        _ work: @escaping @Sendable () async throws -> Value
    ) async throws -> Value {
        let waiter = state.withLock { $0.makeID() }
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                join(key, waiter, continuation, work)
                // A task cancelled before it joined was not found by its handler.
                if Task.isCancelled { leave(key, waiter) }
            }
        } onCancel: {
            leave(key, waiter)
        }
    }

    private func join(
        _ key: Key,
        _ waiter: UInt64,
        _ continuation: CheckedContinuation<Value, any Error>,
        _ work: @escaping @Sendable () async throws -> Value
    ) {
        state.withLock { state in
            if state.flights[key] != nil {
                state.flights[key]?.waiters[waiter] = continuation
                return
            }
            var flight = Flight(id: state.makeID())
            let id = flight.id
            flight.waiters[waiter] = continuation
            flight.task = Task { [weak self] in
                let result: Result<Value, any Error>
                do {
                    result = .success(try await work())
                } catch {
                    result = .failure(error)
                }
                self?.finish(key, id, result)
            }
            state.flights[key] = flight
        }
    }

    private func finish(_ key: Key, _ id: UInt64, _ result: Result<Value, any Error>) {
        let waiters = state.withLock { state in
            guard state.flights[key]?.id == id else {
                return [UInt64: CheckedContinuation<Value, any Error>]()
            }
            return state.flights.removeValue(forKey: key)?.waiters ?? [:]
        }
        for waiter in waiters.values { waiter.resume(with: result) }
    }

    private func leave(_ key: Key, _ waiter: UInt64) {
        let (continuation, task) = state.withLock { state in
            guard let continuation = state.flights[key]?.waiters.removeValue(forKey: waiter) else {
                return (CheckedContinuation<Value, any Error>?.none, Task<Void, Never>?.none)
            }
            guard state.flights[key]?.waiters.isEmpty == true else { return (continuation, nil) }
            // Taken off at once: who comes next must not wait for work that was given up.
            return (continuation, state.flights.removeValue(forKey: key)?.task)
        }
        task?.cancel()
        continuation?.resume(throwing: CancellationError())
    }
}
