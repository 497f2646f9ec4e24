import Synchronization

/// An answer that one task waits for, and that is given once, before or after it begins to wait.
final class PendingResult<Value: Sendable>: Sendable {
    typealias Outcome = Result<Value, CloudFSError>

    private enum State {
        case open
        case awaited(CheckedContinuation<Outcome, Never>)
        case known(Outcome)
    }

    private let state = Mutex(State.open)

    /// Gives the answer; a second one is ignored, as the first may already be on its way.
    func resolve(_ answer: Outcome) {
        let continuation = state.withLock { state -> CheckedContinuation<Outcome, Never>? in
            switch state {
            case .open:
                state = .known(answer)
                return nil
            case .awaited(let continuation):
                state = .known(answer)
                return continuation
            case .known:
                return nil
            }
        }
        continuation?.resume(returning: answer)
    }

    /// Waits for the answer; to be called once.
    func value() async -> Outcome {
        await withCheckedContinuation { continuation in
            let known = state.withLock { state -> Outcome? in
                switch state {
                case .open:
                    state = .awaited(continuation)
                    return nil
                case .awaited:
                    preconditionFailure("an answer is awaited once")
                case .known(let answer):
                    return answer
                }
            }
            if let known { continuation.resume(returning: known) }
        }
    }
}
