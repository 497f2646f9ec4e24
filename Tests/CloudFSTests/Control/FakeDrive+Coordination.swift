import CloudFSControlAPI
import Synchronization

@testable import CloudFS

/// Streams that go on until the test, or the client, ends them.
extension FakeDrive {
    /// Sends `event` again and again: an endless stream to a client that may be slow.
    private func flood(_ tell: () -> Bool) async {
        while !Task.isCancelled, tell() { await Task.yield() }
    }

    func hold(
        _ order: ClaimOrder,
        for peer: ControlPeer,
        tell: @escaping @Sendable (ClaimEvent) -> Bool
    ) async throws(CloudFSError) {
        try await note("hold \(order.intents.map(\.path.text)) by \(peer.process)")
        _ = tell(ClaimEvent(.waiting))
        _ = tell(ClaimEvent(.granted, paths: order.intents.map(\.path)))
        await waitUntilCancelled()
        try await note("let go")
    }

    func claims() async throws(CloudFSError) -> ClaimList {
        try await note("claims")
        return ClaimList(claims: [], presenters: [])
    }

    func endClaim(_ id: UInt64) async throws(CloudFSError) {
        try await note("end claim \(id)")
    }

    func present(
        _ order: PresenterOrder,
        for peer: ControlPeer,
        tell: @escaping @Sendable (PresenterEvent) -> Bool
    ) async throws(CloudFSError) {
        try await note("present \(order.path.text)")
        _ = tell(
            PresenterEvent(id: 1, kind: .presenting, path: order.path, wantsAnswer: false)
        )
        let told: [PresenterEvent.Kind]? = state.withLock { state in
            state.presentations.isEmpty ? nil : state.presentations.removeFirst()
        }
        guard let told else { return await waitUntilCancelled() }
        for kind in told {
            _ = tell(PresenterEvent(id: 2, kind: kind, path: order.path, wantsAnswer: false))
        }
    }

    func answer(_ answer: PresenterAnswer) async throws(CloudFSError) {
        try await note("answer \(answer.message)")
    }

    func watch(tell: @escaping @Sendable (DriveEvent) -> Bool) async throws(CloudFSError) {
        try await note("watch")
        let path = DrivePath(text: String(repeating: "x", count: 200)) ?? .root
        await flood { tell(DriveEvent(.changed, path: path)) }
        try await note("watched")
    }

    func follow(
        _ request: QueryRequest,
        tell: @escaping @Sendable (QueryEvent) -> Bool
    ) async throws(CloudFSError) {
        try await note("follow \(request.query)")
        let items = state.withLock { $0.items }
        _ = tell(QueryEvent(.found, added: items))
        _ = tell(QueryEvent(.gathered))
        await waitUntilCancelled()
        try await note("followed")
    }

    private func waitUntilCancelled() async {
        let end = PendingResult<Void>()
        await withTaskCancellationHandler {
            _ = await end.value()
        } onCancel: {
            end.resolve(.success(()))
        }
    }
}
