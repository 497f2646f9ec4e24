/// Why there was no answer; the `cause` of the transport's errors.
enum HTTPFailure: Error, Sendable, Equatable {
    /// No connection was made: the server saw nothing of the request.
    case notConnected(String)
    /// The connection broke; the server may have done what was asked.
    case broken(String)
    /// Too slow, or silent for too long; the server may have done what was asked.
    case tooSlow
    /// What came is not HTTP.
    case notHTTP(String)

    /// Whether the server may have acted on the request.
    var mayHaveArrived: Bool {
        if case .notConnected = self { return false }
        return true
    }
}
