import CloudFSControlAPI
import Glibc
import Testing

@testable import CloudFS
@testable import CloudFSClient

/// Streams of a daemon that is there, and hangs.
@Suite(.timeLimit(.minutes(10))) struct SilentDaemonTests {
    private let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    /// How many events a stream has before it breaks, and why it does.
    private func outcome<Event: Decodable & Sendable>(
        of events: DriveEvents<Event>
    ) async -> (count: Int, error: DriveClientError?) {
        var count = 0
        do {
            for try await _ in events { count += 1 }
            return (count, nil)
        } catch {
            return (count, error as? DriveClientError)
        }
    }

    private var silence: DriveClientError {
        .notAnswering(mountpoint: "/mnt/drive", pid: getpid())
    }

    @Test func `regression: a claim that is not answered at all is not waited for for ever`()
        async throws
    {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        try await withServer(drive, in: folder) { client, _ in
            var hasty = client
            hasty.longestSilence = .milliseconds(60)
            let intent = ClaimIntent(path: try drivePath("a"), access: .read)
            let outcome = await outcome(of: hasty.claim(ClaimOrder(intents: [intent])))
            #expect(outcome.count == 0)
            #expect(outcome.error == silence)
        }
    }

    /// On a busy machine the first event can take as long as the silence that is waited for.
    @Test func `a stream that falls silent breaks`() async throws {
        let patiences = [1, 5, 25, 100]
        try await withServer(in: folder) { client, _ in
            for patience in patiences {
                var hasty = client
                hasty.longestSilence = .seconds(patience)
                let order = PresenterOrder(path: try drivePath("a"))
                let outcome = await outcome(of: hasty.present(order))
                #expect(outcome.error == silence)
                guard outcome.count == 0 else { return #expect(outcome.count == 1) }
            }
            Issue.record("no event came in \(patiences.reduce(0, +)) seconds")
        }
    }

    @Test func `of a daemon that hangs nobody waits for what takes long`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.holds = true }
        try await withServer(drive, in: folder) { client, _ in
            defer { drive.release() }
            let hasty = DriveClient(client.drive, patience: .milliseconds(500))
            let path = try drivePath("a")
            await #expect(throws: silence) { try await hasty.items(ItemQuery(paths: [path])) }
            #expect(drive.calls.contains { $0.hasPrefix("status") })
        }
    }
}
