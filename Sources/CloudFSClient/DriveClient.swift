import AsyncHTTPClient
public import CloudFSControlAPI
import Foundation
import NIOCore
import NIOFoundationCompat
import NIOHTTP1

/// Asks the daemon of one drive: the control API as Swift methods.
///
/// A value that costs nothing to make; all clients of a process share one pool of connections.
public struct DriveClient: Sendable {
    public let drive: DriveAddress
    /// How long an answer may take; requests over whole folders may take twenty times as long, if
    /// the daemon answers others meanwhile.
    public let patience: Duration
    /// How long a stream of events may be silent; the daemon sends something every 10 s.
    var longestSilence = Duration.seconds(35)

    public init(_ drive: DriveAddress, patience: Duration = .seconds(35)) {
        self.drive = drive
        self.patience = patience
    }

    /// Lives as long as the process, because a client that is released must be shut down first.
    private static let http: HTTPClient = {
        var configuration = HTTPClient.Configuration()
        configuration.redirectConfiguration = .disallow
        configuration.timeout.connect = .seconds(5)
        // A socket nobody listens on does not get better by trying again.
        configuration.connectionPool.retryConnectionEstablishment = false
        // Each stream of events has a connection of its own for as long as it lasts.
        configuration.connectionPool.concurrentHTTP1ConnectionsPerHostSoftLimit = 512
        return HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
    }()

    // MARK: - The drive

    public func status() async throws(DriveClientError) -> DriveStatus {
        try await get(.drive)
    }

    /// Stops uploads and background downloads until `resume`; changes of others are still seen.
    public func pause() async throws(DriveClientError) -> DriveStatus {
        try await post(.pause, [String: String]())
    }

    public func resume() async throws(DriveClientError) -> DriveStatus {
        try await post(.resume, [String: String]())
    }

    /// Gives the drive what its cloud wants to know of who asks, and lets it connect.
    public func login(_ login: LoginRequest) async throws(DriveClientError) -> DriveStatus {
        try await post(.login, login, allowing: ControlAPI.longestWait)
    }

    /// Has another daemon take over, and waits until it answers.
    ///
    /// - Returns: What the new one says.
    /// - Throws: `failure` if the old one goes on, with the reason.
    public func restart() async throws(DriveClientError) -> DriveStatus {
        let old = try await status().worker
        do throws(DriveClientError) {
            let _: DriveStatus = try await post(.restart, [String: String]())
        } catch {
            if case .failure = error { throw error }
            // The answer was to come from the daemon that is gone: that it broke off is the answer.
        }
        let end = ContinuousClock.now + patience
        while true {
            do throws(DriveClientError) {
                let status = try await status()
                if status.worker != old { return status }
                guard ContinuousClock.now < end else {
                    throw .notAnswering(mountpoint: drive.mountpoint, pid: status.pid)
                }
            } catch {
                guard ContinuousClock.now < end else { throw error }
            }
            do { try await Task.sleep(for: .milliseconds(50)) } catch { throw unreachable() }
        }
    }

    /// Begins to unmount; the answer comes before the mount is gone.
    ///
    /// - Parameter sending: How long the drive may go on sending after that, 10 s at most.
    /// - Returns: What stays in the outbox, as of now.
    public func unmount(
        force: Bool,
        sending: Duration
    ) async throws(DriveClientError) -> OutboxCounts {
        let request = UnmountRequest(force: force, sendingSeconds: sending / .seconds(1))
        let answer: UnmountResult = try await post(.unmount, request)
        return answer.remaining
    }

    // MARK: - Items

    /// One page of items.
    public func items(_ query: ItemQuery) async throws(DriveClientError) -> ItemPage {
        try await post(.items, query, isLong: true)
    }

    /// All items of a query, page by page, for however many paths.
    public func forEachItem(
        _ paths: [DrivePath],
        depth: ItemQuery.Depth = .named,
        _ body: (ItemPage) throws(DriveClientError) -> Void
    ) async throws(DriveClientError) {
        for batch in Self.batches(of: paths) {
            var query = ItemQuery(paths: batch, depth: depth)
            repeat {
                let page = try await items(query)
                try body(page)
                guard page.next == nil || page.next != query.after else {
                    throw .badAnswer("a page that names itself as the next")
                }
                query.after = page.next
            } while query.after != nil
        }
    }

    /// One page of what a query finds.
    public func query(_ request: QueryRequest) async throws(DriveClientError) -> ItemPage {
        try await post(.query, request)
    }

    public func setPolicy(
        _ policy: PinPolicy,
        _ paths: [DrivePath]
    ) async throws(DriveClientError) -> [ItemResult] {
        try await results(.policy, paths) { PolicyRequest(paths: $0, policy: policy) }
    }

    public func evict(
        _ paths: [DrivePath],
        recursive: Bool
    ) async throws(DriveClientError) -> [ItemResult] {
        try await results(.evict, paths) { EvictRequest(paths: $0, recursive: recursive) }
    }

    /// Begins to download; `downloadProgress` says how far it is.
    public func download(_ paths: [DrivePath]) async throws(DriveClientError) -> [ItemResult] {
        try await results(.download, paths) { PathsRequest(paths: $0) }
    }

    public func downloadProgress(
        _ paths: [DrivePath]
    ) async throws(DriveClientError) -> [DownloadStatus] {
        var found: [DownloadStatus] = []
        for batch in Self.batches(of: paths) {
            let answer: DownloadProgress = try await post(
                .downloadProgress,
                PathsRequest(paths: batch)
            )
            found += answer.downloads
        }
        return found
    }

    /// Compares the items named, and all below the folders named, with the cloud.
    ///
    /// The folders named are as in the cloud when this returns; what is below them follows.
    public func refresh(_ paths: [DrivePath]) async throws(DriveClientError) -> [ItemResult] {
        try await results(.refresh, paths) { PathsRequest(paths: $0) }
    }

    /// One page of a check of the whole drive.
    public func check(_ request: CheckRequest) async throws(DriveClientError) -> CheckPage {
        try await post(.check, request, isLong: true)
    }

    // MARK: - Outbox and conflicts

    public func outbox(
        _ page: PageRequest = PageRequest()
    ) async throws(DriveClientError) -> OutboxPage {
        try await get(.outbox, page)
    }

    /// Waits until the outbox is empty, all that is left failed and does not succeed by itself, or
    /// `timeout` is over.
    ///
    /// The daemon holds one request for `ControlAPI.longestWait` at most, so this asks again.
    public func drain(
        timeout: Duration?,
        _ progress: (OutboxCounts) -> Void = { _ in }
    ) async throws(DriveClientError) -> OutboxCounts {
        let end = timeout.map { ContinuousClock.now + $0 }
        while true {
            let left = end.map { max(.zero, $0 - .now) } ?? ControlAPI.longestWait
            let wait = min(left, ControlAPI.longestWait)
            let answer: DrainResult = try await post(
                .drain,
                DrainRequest(timeoutSeconds: wait / .seconds(1)),
                allowing: wait
            )
            progress(answer.remaining)
            if answer.isOver { return answer.remaining }
            if let end, end <= .now { return answer.remaining }
        }
    }

    public func conflicts(
        _ page: PageRequest = PageRequest()
    ) async throws(DriveClientError) -> ConflictPage {
        try await get(.conflicts, page)
    }

    /// All conflicts of the drive.
    public func allConflicts() async throws(DriveClientError) -> [ConflictGroup] {
        var found: [ConflictGroup] = []
        var request = PageRequest()
        repeat {
            let page = try await conflicts(request)
            for group in page.conflicts {
                if let known = found.firstIndex(where: { $0.path == group.path }) {
                    found[known].versions += group.versions
                } else {
                    found.append(group)
                }
            }
            request.after = page.next
        } while request.after != nil
        return found
    }

    /// The document that an item is a version of, and all its conflict versions.
    public func conflictVersions(
        of path: DrivePath
    ) async throws(DriveClientError) -> ConflictGroup {
        try await post(.conflictVersions, ConflictQuery(path: path))
    }

    /// Ends the conflict that an item is part of.
    ///
    /// - Parameter versions: The conflict versions that the decision is about.
    /// - Throws: `failure` with `remoteChanged` if there are others by now.
    public func resolve(
        _ path: DrivePath,
        keeping keep: ConflictResolution.Keep,
        of versions: [DrivePath]?
    ) async throws(DriveClientError) -> ConflictOutcome {
        try await post(
            .resolveConflict,
            ConflictResolution(path: path, keep: keep, versions: versions)
        )
    }

    // MARK: - One request

    private func results(
        _ route: ControlAPI.Route,
        _ paths: [DrivePath],
        _ body: ([DrivePath]) -> some Encodable & Sendable
    ) async throws(DriveClientError) -> [ItemResult] {
        var found: [ItemResult] = []
        for batch in Self.batches(of: paths) {
            let answer: ItemResults = try await post(route, body(batch), isLong: true)
            found += answer.results
        }
        return found
    }

    /// Splits paths so that no request is larger than the daemon takes.
    static func batches(of paths: [DrivePath]) -> [[DrivePath]] {
        var batches: [[DrivePath]] = []
        var room = 0
        for path in paths {
            // In the worst case every byte is written as three, and every backslash as two.
            let size = 3 * path.names.reduce(0) { $0 + $1.count + 1 } + 4
            if size > room || batches.last?.count == ControlAPI.maximumPathCount {
                batches.append([])
                room = ControlAPI.maximumRequestByteCount / 2
            }
            batches[batches.count - 1].append(path)
            room -= size
        }
        return batches
    }

    func get<Answer: Decodable>(
        _ route: ControlAPI.Route,
        _ page: PageRequest? = nil
    ) async throws(DriveClientError) -> Answer {
        var query = ""
        if let page {
            query = "?limit=\(page.limit)"
            let plain = CharacterSet.alphanumerics
            if let after = page.after?.addingPercentEncoding(withAllowedCharacters: plain) {
                query += "&after=\(after)"
            }
        }
        return try await send(route, query: query, method: .GET, body: nil, within: patience)
    }

    func post<Answer: Decodable & Sendable>(
        _ route: ControlAPI.Route,
        _ body: some Encodable & Sendable,
        isLong: Bool = false,
        allowing extra: Duration = .zero
    ) async throws(DriveClientError) -> Answer {
        let bytes: Data
        do {
            bytes = try JSONEncoder().encode(body)
        } catch {
            throw .badAnswer("the request cannot be written as JSON: \(error)")
        }
        guard isLong else {
            return try await send(route, method: .POST, body: bytes, within: patience + extra)
        }
        return try await whileAnswering { () throws(DriveClientError) in
            try await send(route, method: .POST, body: bytes, within: patience * 20)
        }
    }

    /// Waits for what takes long, for as long as the daemon answers other requests.
    private func whileAnswering<Answer: Sendable>(
        _ request: @escaping @Sendable () async throws(DriveClientError) -> Answer
    ) async throws(DriveClientError) -> Answer {
        typealias Outcome = Result<Answer, DriveClientError>
        let outcome = await withTaskGroup(of: Outcome?.self) { group -> Outcome? in
            group.addTask {
                do throws(DriveClientError) {
                    return .success(try await request())
                } catch {
                    return .failure(error)
                }
            }
            group.addTask { await silence().map { .failure($0) } }
            defer { group.cancelAll() }
            while let outcome = await group.next() {
                if let outcome { return outcome }
            }
            return nil
        }
        guard let outcome else { throw unreachable() }
        return try outcome.get()
    }

    /// Asks again and again whether the daemon answers; `nil` once the task is cancelled.
    private func silence() async -> DriveClientError? {
        while true {
            do { try await Task.sleep(for: patience) } catch { return nil }
            do throws(DriveClientError) {
                _ = try await status()
            } catch {
                // Refused, it was answered.
                if case .failure = error { continue }
                return error
            }
        }
    }

    private func send<Answer: Decodable>(
        _ route: ControlAPI.Route,
        query: String = "",
        method: HTTPMethod,
        body: Data?,
        within limit: Duration
    ) async throws(DriveClientError) -> Answer {
        let (status, bytes) = try await exchange(route, query, method, body, within: limit)
        guard status == .ok else { throw Self.refusal(route, status, bytes) }
        do {
            return try JSONDecoder().decode(Answer.self, from: bytes)
        } catch {
            throw .badAnswer("\(route.rawValue): \(error)")
        }
    }

    private static func refusal(
        _ route: ControlAPI.Route,
        _ status: HTTPResponseStatus,
        _ bytes: Data
    ) -> DriveClientError {
        do {
            return .failure(try JSONDecoder().decode(ControlFailure.self, from: bytes))
        } catch {
            return .badAnswer("\(route.rawValue): status \(status.code)")
        }
    }

    /// The events of a route, from when they are first listened to.
    ///
    /// - Parameter body: `nil` for a route without one.
    func stream<Event: Decodable & Sendable>(
        _ route: ControlAPI.Route,
        _ body: (any Encodable & Sendable)? = nil
    ) -> DriveEvents<Event> {
        DriveEvents(or: unreachable, silentAtMost: longestSilence) {
            let bytes = try body.map { try JSONEncoder().encode($0) }
            let method = body == nil ? HTTPMethod.GET : .POST
            let request = try request(route, "", method, bytes)
            // It ends when one of the two has enough, or the daemon hangs.
            let answer = try await Self.http.execute(request, deadline: .distantFuture)
            guard answer.status == .ok else {
                let most = ControlAPI.maximumAnswerByteCount
                let bytes = Data(buffer: try await answer.body.collect(upTo: most))
                throw Self.refusal(route, answer.status, bytes)
            }
            return answer.body
        }
    }

    private func exchange(
        _ route: ControlAPI.Route,
        _ query: String,
        _ method: HTTPMethod,
        _ body: Data?,
        within limit: Duration
    ) async throws(DriveClientError) -> (HTTPResponseStatus, Data) {
        let request = try request(route, query, method, body)
        do {
            let answer = try await Self.http.execute(request, timeout: TimeAmount(limit))
            let buffer = try await answer.body.collect(upTo: ControlAPI.maximumAnswerByteCount)
            return (answer.status, Data(buffer: buffer))
        } catch is NIOTooManyBytesError {
            throw .badAnswer("more than \(ControlAPI.maximumAnswerByteCount) bytes")
        } catch {
            throw unreachable()
        }
    }

    private func request(
        _ route: ControlAPI.Route,
        _ query: String,
        _ method: HTTPMethod,
        _ body: Data?
    ) throws(DriveClientError) -> HTTPClientRequest {
        guard
            let url = URL(httpURLWithSocketPath: drive.socketPath, uri: route.rawValue + query)
        else { throw .badAnswer("\(drive.socketPath) is no path of a socket") }
        var request = HTTPClientRequest(url: url.absoluteString)
        request.method = method
        request.headers.add(name: "host", value: "drive")
        if let body {
            request.headers.add(name: "content-type", value: "application/json")
            request.body = .bytes(ByteBuffer(data: body))
        }
        return request
    }

    /// Names what a broken exchange means: whether anybody is there is asked of the kernel.
    private func unreachable() -> DriveClientError {
        let pid = drive.record?.pid
        return SocketProbe.ask(drive.socketPath) == .listening
            ? .notAnswering(mountpoint: drive.mountpoint, pid: pid)
            : .noDaemon(mountpoint: drive.mountpoint, pid: pid)
    }
}
