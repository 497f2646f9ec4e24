import Dispatch
import Foundation
import Synchronization

/// Something did not happen in the time it was given.
public struct DeadlineError: Error, CustomStringConvertible {
    public let what: String
    public let limit: Duration

    public init(_ what: String, _ limit: Duration) {
        self.what = what
        self.limit = limit
    }

    public var description: String { "not within \(limit): \(what)" }
}

extension Duration {
    /// A limit that is there to end what hangs, not to be met: on machines that others use at the
    /// same time, as those of CI, it is three times as long.
    public var patient: Duration { self >= .seconds(10) ? self * Self.patience : self }

    private static let patience =
        ProcessInfo.processInfo.environment["CI"] == "true" ? 3 : 1
}

/// Waits until `condition` is true, and fails when it is not in time.
///
/// The one way of waiting in tests: never for a time, always for a condition.
public func eventually(
    _ what: String,
    within limit: Duration = .seconds(15),
    _ condition: () async throws -> Bool
) async throws {
    let clock = ContinuousClock()
    let limit = limit.patient
    let end = clock.now + limit
    while true {
        if try await condition() { return }
        guard clock.now < end else { throw DeadlineError(what, limit) }
        try await Task.sleep(for: .milliseconds(20))
    }
}

/// Runs `work` on a thread of its own and gives up waiting for it after `limit`.
///
/// A system call on a hung mount may never return. Then its thread is left behind, the caller
/// gets a `DeadlineError`, and the test run goes on.
public func onThread<Value: Sendable>(
    _ what: String,
    within limit: Duration = .seconds(15),
    _ work: @escaping @Sendable () throws -> Value
) async throws -> Value {
    let promise = Promise<Value>()
    Thread.detachNewThread {
        promise.fulfil(Result(catching: work))
    }
    return try await promise.value(what, within: limit)
}

/// A value that arrives once, and is waited for with a deadline.
final class Promise<Value: Sendable>: Sendable {
    private struct State {
        var result: Result<Value, any Error>?
        var nextWaiter = 0
        var waiters: [Int: CheckedContinuation<Value, any Error>] = [:]
    }

    private let state = Mutex(State())

    var result: Result<Value, any Error>? { state.withLock { $0.result } }

    func fulfil(_ result: Result<Value, any Error>) {
        let waiters = state.withLock { state in
            guard state.result == nil else { return [CheckedContinuation<Value, any Error>]() }
            state.result = result
            defer { state.waiters = [:] }
            return Array(state.waiters.values)
        }
        for waiter in waiters { waiter.resume(with: result) }
    }

    func value(_ what: String, within limit: Duration) async throws -> Value {
        let limit = limit.patient
        return try await withCheckedThrowingContinuation { continuation in
            let (result, waiter) = state.withLock { state in
                if let result = state.result { return (Optional(result), 0) }
                state.nextWaiter += 1
                state.waiters[state.nextWaiter] = continuation
                return (nil, state.nextWaiter)
            }
            if let result {
                continuation.resume(with: result)
                return
            }
            let seconds =
                Double(limit.components.seconds)
                + Double(limit.components.attoseconds) / 1e18
            DispatchQueue.global().asyncAfter(deadline: .now() + seconds) {
                self.state.withLock { $0.waiters.removeValue(forKey: waiter) }?
                    .resume(throwing: DeadlineError(what, limit))
            }
        }
    }
}
