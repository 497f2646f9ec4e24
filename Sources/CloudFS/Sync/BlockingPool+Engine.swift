extension BlockingPool {
    /// Runs work of the engine; whatever it throws arrives as the one error.
    func engine<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws(CloudFSError) -> Value {
        do {
            return try await run(work)
        } catch let error as CloudFSError {
            throw error
        } catch {
            throw CloudFSError(.internalFailure, "unexpected: \(error)", cause: error)
        }
    }
}
