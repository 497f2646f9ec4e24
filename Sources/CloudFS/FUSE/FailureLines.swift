import Synchronization

/// Which failed requests get a line in the log.
///
/// A program that does again and again what fails would fill the disk, on which the content lies
/// too: of what fails alike, one line a second is written, which says how many were left out.
final class FailureLines: Sendable {
    private struct Kind: Hashable {
        var operation: String
        var code: CloudFSError.Code
    }

    private struct Lines {
        var next: Duration
        var leftOut = 0
    }

    private let kinds = Mutex<[Kind: Lines]>([:])

    private static let pause = Duration.seconds(1)

    /// Notes a failure.
    ///
    /// - Parameter now: The time since any moment.
    /// - Returns: How many like it had no line before it; `nil` if it gets none either.
    func note(_ operation: String, _ code: CloudFSError.Code, at now: Duration) -> Int? {
        kinds.withLock { kinds in
            let kind = Kind(operation: operation, code: code)
            if let known = kinds[kind], now < known.next {
                kinds[kind]?.leftOut += 1
                return nil
            }
            let leftOut = kinds[kind]?.leftOut ?? 0
            kinds[kind] = Lines(next: now + Self.pause)
            return leftOut
        }
    }
}
