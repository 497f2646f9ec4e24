import AsyncHTTPClient

/// What carries requests to their servers, and the answers back.
protocol HTTPWire: Sendable {
    /// Sends a request once; ends with an answer's head, an error, or when its task is cancelled.
    func send(_ request: HTTPClientRequest) async throws -> HTTPClientResponse

    /// Ends every connection; requests still running fail.
    func shutdown() async
}
