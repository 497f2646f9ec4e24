import CloudFSControlAPI
import CloudFSTestSupport
import Foundation
import Testing

@testable import CloudFS
@testable import CloudFSClient

/// What becomes of queries that are followed when their drive gets another daemon.
@Suite(.timeLimit(.minutes(10))) struct FollowedQueryTests {
    @Test func `a daemon is away from its loss on, until it tells something`() {
        let (clock, start) = (ManualClock(), ContinuousClock.now)
        var absence = DaemonAbsence(patience: .seconds(30)) { start + clock.now.offset }
        var answers: [Bool] = []
        // There all the while, and then away for as long as it may be.
        for pause in [3_600, 30] {
            clock.advance(by: .seconds(pause))
            answers.append(absence.isTooLong())
        }
        absence.end()
        for pause in [31, 30, 1] {
            clock.advance(by: .seconds(pause))
            answers.append(absence.isTooLong())
        }
        #expect(answers == [false, false, false, false, true])
    }

    @Test func `regression: a query that had nothing to tell goes on with another daemon`()
        async throws
    {
        let folder = try SocketFolder()
        let drive = FakeDrive()
        var limits = RequestLimits()
        limits.shutdown = .milliseconds(50)
        let (clock, start) = (ManualClock(), ContinuousClock.now)
        let absence = DaemonAbsence(patience: .seconds(30)) { start + clock.now.offset }
        let place = DriveLocator.Location(
            drive: DriveAddress(
                mountpoint: "/mnt/drive",
                socketPath: folder.directory.socketPath(mountpoint: "/mnt/drive")
            ),
            path: .root
        )
        let query = MetadataQuery(searchScope: URL(filePath: "/mnt/drive"))
        let (updates, inbox) = AsyncStream.makeStream(of: MetadataQuery.Update.self)
        let following = Task {
            defer { inbox.finish() }
            try await query.follow(place, absence) { inbox.yield($0) }
        }
        try await withServer(drive, limits: limits, in: folder) { _, _ in
            for await update in updates {
                #expect(update.isEmpty)
                break
            }
            clock.advance(by: .seconds(3_600))
        }
        let item = try ControlServerTests.item("late")
        drive.state.withLock { $0.items = [item] }
        try await withServer(drive, limits: limits, in: folder) { _, _ in
            var added: [String] = []
            for await update in updates {
                added = update.added.map(\.name)
                break
            }
            #expect(added == ["late"])
        }
        following.cancel()
        _ = await following.result
    }
}
