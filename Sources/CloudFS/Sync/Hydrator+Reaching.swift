import Synchronization

/// Up to where the attempts of one fetch have delivered.
final class ReachedOffset: Sendable {
    let offset: Mutex<Int64>

    init(_ offset: Int64) {
        self.offset = Mutex(offset)
    }
}

extension Hydrator {
    /// Gives up an attempt of which nothing comes within a few seconds, while the cloud is known to
    /// be out of reach: a silent server would keep whoever reads as long as a slow one.
    func whileReachable(
        _ reached: ReachedOffset,
        _ attempt: @escaping @Sendable () async throws(CloudFSError) -> Void
    ) async throws(CloudFSError) {
        guard !connection.isOnline else { return try await attempt() }
        let start = reached.offset.withLock { $0 }
        let work = Task { () async -> CloudFSError? in
            do throws(CloudFSError) {
                try await attempt()
                return nil
            } catch {
                return error
            }
        }
        let watch = Task { [connection] () async -> Bool in
            // Ended early, there is nothing to give up.
            try? await Task.sleep(for: Self.patience)
            let isSilent = reached.offset.withLock { $0 } == start
            guard !Task.isCancelled, !connection.isOnline, isSilent else { return false }
            work.cancel()
            return true
        }
        let failure = await withTaskCancellationHandler {
            await work.value
        } onCancel: {
            work.cancel()
        }
        watch.cancel()
        let isGivenUp = await watch.value
        guard let failure else { return }
        guard isGivenUp, failure.code == .cancelled else { throw failure }
        throw CloudFSError(.offline, "the cloud does not answer")
    }
}
