import CloudFSClient
import CloudFSControlAPI
import Glibc
import HTTPTypes
import Logging
import Synchronization
import Testing

@testable import CloudFS

@Suite(.timeLimit(.minutes(10))) struct ControlServerTests {
    let folder: SocketFolder

    init() throws {
        folder = try SocketFolder()
    }

    @Test func `a status arrives as it was given`() async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.outbox.bytes = .max }
        let status = try await withServer(drive, in: folder) { client, _ in
            try await client.status()
        }
        #expect(try await drive.status() == status)
        #expect(status.since.description == "2026-11-20T14:30:05.123456789Z")
        #expect(status.outbox.bytes == .max)
    }

    @Test func `pause and resume answer with the state that follows`() async throws {
        let states = try await withServer(in: folder) { client, _ in
            let paused = try await client.pause().connection.state
            return (paused, try await client.resume().connection.state)
        }
        #expect(states == (.paused, .online))
    }

    @Test func `every route reaches its method with what was sent`() async throws {
        let drive = FakeDrive()
        let strange = try #require(DrivePath(names: [[0xff, 0x25, 0x0a], Array("ä".utf8)]))
        try await withServer(drive, in: folder) { client, _ in
            _ = try await client.items(ItemQuery(paths: [strange], depth: .all, limit: 5))
            let query = QueryRequest(
                query: "a b",
                scope: .data,
                below: strange,
                limit: 3,
                after: "x"
            )
            _ = try await client.query(query)
            _ = try await client.setPolicy(.onDemand, [drivePath("a/b"), .root])
            _ = try await client.evict([drivePath("a")], recursive: true)
            _ = try await client.download([drivePath("a"), drivePath("b")])
            _ = try await client.refresh([drivePath("a"), .root])
            let progress = try await client.downloadProgress([drivePath("a")])
            #expect(progress.map(\.isFinished) == [false])
            let outbox = try await client.outbox(PageRequest(limit: 7, after: "a&b=/ c"))
            #expect(outbox.entries.map(\.state) == [.retrying])
            let conflicts = try await client.conflicts()
            #expect(conflicts.conflicts.first?.versions.first?.size == 7)
            let outcome = try await client.resolve(
                drivePath("a"),
                keeping: .all,
                of: [drivePath("b")]
            )
            #expect(outcome.removed == [.root])
            #expect(try await client.conflictVersions(of: drivePath("a")).versions.isEmpty)
            #expect(try await client.bookmark(drivePath("a")).token == "t")
            #expect(try await client.resolveBookmark("x").foundBy == .path)
            #expect(try await client.activity().programs.map(\.refusedReads) == [3])
            _ = try await client.unmount(force: true, sending: .milliseconds(1500))
        }
        #expect(
            drive.calls == [
                "items %FF%25%0A/ä all 5 -", "query a b data %FF%25%0A/ä 3 x",
                "policy on-demand a/b", "policy on-demand ",
                "evict a true", "download a b", "refresh a ", "progress a",
                "outbox 7 a&b=/ c", "conflicts 1000 -", "resolve a all b true", "versions a",
                "bookmark a", "resolve-bookmark x", "activity", "unmount true 1.5 seconds",
            ]
        )
    }

    @Test func `one refused path does not hold up the others`() async throws {
        let drive = FakeDrive()
        let (good, bad) = (try drivePath("good"), try drivePath("bad"))
        drive.state.withLock { $0.refusals[bad] = CloudFSError(.notFound, "there is no bad") }
        let results = try await withServer(drive, in: folder) { client, _ in
            try await client.setPolicy(.pinned, [bad, good])
        }
        #expect(results.map(\.done) == [false, true])
        #expect(results.first?.code == "notFound")
        #expect(results.first?.reason == "there is no bad")
    }

    @Test(arguments: CloudFSError.Code.allCases)
    func `an error keeps its code and sentence`(_ code: CloudFSError.Code) async throws {
        let drive = FakeDrive()
        drive.state.withLock { $0.failure = CloudFSError(code, "so it is") }
        let expected = DriveClientError.failure(
            ControlFailure(code: code.rawValue, message: "so it is")
        )
        try await withServer(drive, in: folder) { client, _ in
            await #expect(throws: expected) { try await client.status() }
        }
        #expect((400..<600).contains(code.status.code))
    }

    @Test func `pages are followed to the end`() async throws {
        let drive = FakeDrive()
        let items = try (0..<2_500).map { try Self.item("item-\($0)") }
        drive.state.withLock { $0.items = items }
        var found: [ItemStatus] = []
        try await withServer(drive, in: folder) { client, _ in
            try await client.forEachItem([.root], depth: .all) { found += $0.items }
        }
        #expect(found == items)
        #expect(drive.calls.count == 3)
    }

    @Test func `a list of paths longer than a request is split`() async throws {
        let drive = FakeDrive()
        let paths = try (0..<2_500).map {
            try drivePath("\($0)-" + String(repeating: "x", count: 200))
        }
        let results = try await withServer(drive, in: folder) { client, _ in
            try await client.download(paths)
        }
        #expect(results.map(\.path) == paths)
        #expect(drive.calls.count >= 3)
    }

    @Test func `draining asks again until nothing waits`() async throws {
        let drive = FakeDrive()
        drive.state.withLock {
            $0.outbox = OutboxCounts(waiting: 3, uploading: 0, failed: 1, bytes: 9)
        }
        let remaining = try await withServer(drive, in: folder) { client, _ in
            try await client.drain(timeout: nil)
        }
        #expect(remaining.waiting == 0)
        #expect(remaining.failed == 1)
        #expect(drive.calls.count == 3)
    }

    @Test func `draining gives up when its time is over`() async throws {
        let drive = FakeDrive()
        drive.state.withLock {
            $0.outbox = OutboxCounts(waiting: 1 << 40, uploading: 0, failed: 0, bytes: 9)
        }
        let remaining = try await withServer(drive, in: folder) { client, _ in
            try await client.drain(timeout: .milliseconds(50))
        }
        #expect(remaining.waiting > 0)
    }

    @Test func `regression: clients that come while it ends do no harm`() async throws {
        // Threads of their own: they would keep the server from its own.
        let pool = BlockingPool(name: "clients", width: 4)
        for _ in 0..<25 {
            let (ready, isReady) = AsyncStream.makeStream(of: Void.self)
            var logger = Logger(label: "test")
            logger.logLevel = .critical
            let server = try ControlServer(
                drive: FakeDrive(),
                record: DriveRecord(
                    mountpoint: "/mnt/drive",
                    containerURL: "local:/srv/cloud",
                    stateDirectory: "/var/lib/drive",
                    pid: getpid()
                ),
                directory: folder.directory,
                logger: logger,
                whenReady: { isReady.finish() }
            )
            let running = Task { try await server.run() }
            for await _ in ready {}
            let path = server.socketPath
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<4 {
                    group.addTask {
                        try await pool.run {
                            // Until there is nobody to connect to. Who waits for an answer now
                            // and then bounds the queue, which the server works off at its end.
                            var count = 0
                            while SocketProbe.ask(path) == .listening {
                                count += 1
                                if count % 16 == 0 { SocketProbe.awaitAnswer(path, within: 10) }
                            }
                        }
                    }
                }
                group.addTask {
                    try? await Task.sleep(for: .milliseconds(2))
                    running.cancel()
                    _ = await running.result
                }
                try await group.waitForAll()
            }
        }
    }

    static func item(_ text: String) throws -> ItemStatus {
        ItemStatus(
            path: try drivePath(text),
            itemID: 1,
            documentID: "00",
            kind: .file,
            size: 10,
            localBytes: 5,
            modified: WireTime(nanoseconds: 0),
            status: .partial,
            percentDownloaded: 50,
            pin: PinState(own: .inherit, effective: .onDemand)
        )
    }
}
