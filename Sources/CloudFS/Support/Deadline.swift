/// Runs `work` and waits for it no longer than `limit`.
///
/// The work is not waited for once the time is over, or once the waiting task is cancelled: it is
/// cancelled, and ends in its own time.
///
/// - Throws: What `work` throws; `timeout` when the time is over; `CancellationError`.
func withDeadline<Value: Sendable>(
    _ limit: Duration,
    or timeout: any Error,
    _ work: @escaping @Sendable () async throws -> Value
) async throws -> Value {
    let pending = Pending<Value>()
    let task = Task {
        do {
            pending.finish(.success(try await work()))
        } catch {
            pending.finish(.failure(error))
        }
    }
    let timer = Task {
        try await Task.sleep(for: limit)
        pending.finish(.failure(timeout))
        task.cancel()
    }
    defer { timer.cancel() }
    return try await pending.value { task.cancel() }
}
