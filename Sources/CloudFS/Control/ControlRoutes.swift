import CloudFSControlAPI
import Foundation
import Hummingbird
import Logging
import NIOCore

/// The routes of the control API: JSON in, one call of the drive, JSON out.
///
/// Streams are in `ControlRoutes+Streams`.
struct ControlRoutes: Sendable {
    typealias Context = ControlContext

    let drive: any ControlledDrive
    let limits: RequestLimits
    let gate: RequestGate
    let streams: StreamPlaces

    func router() -> Router<Context> {
        let router = Router(context: Context.self)
        router.add(middleware: FailureMiddleware())
        addDrive(to: router)
        addItems(to: router)
        addOutbox(to: router)
        addCoordination(to: router)
        addPlaces(to: router)
        addStreams(to: router)
        return router
    }

    private func addDrive(to router: Router<Context>) {
        get(.drive, router) { drive, _ in try await drive.status() }
        post(.pause, router) { (drive, _: NoBody) in
            try await drive.pause()
            return try await drive.status()
        }
        post(.resume, router) { (drive, _: NoBody) in
            try await drive.resume()
            return try await drive.status()
        }
        post(.restart, router, within: ControlAPI.longestWait + limits.answer) {
            (drive, _: NoBody) in
            try await drive.restart()
            return try await drive.status()
        }
        post(.unmount, router) { (drive, body: UnmountRequest) in
            // Whatever number that is, it is a time.
            let sending = body.sendingSeconds.map { Duration.seconds(min(max(0, $0), 1e6)) }
            return UnmountResult(
                remaining: try await drive.unmount(force: body.force, sending: sending)
            )
        }
        get(.conflicts, router) { drive, page in try await drive.conflicts(page) }
        post(.conflictVersions, router) { (drive, body: ConflictQuery) in
            try await drive.conflictVersions(body)
        }
        post(.resolveConflict, router) { (drive, body: ConflictResolution, peer) in
            try await drive.resolve(body, for: peer)
        }
        // The cloud answers it, so the deadline is longer.
        let limit = ControlAPI.longestWait + limits.answer
        let size = ControlAPI.maximumLoginByteCount
        post(.login, router, within: limit, atMost: size) { (drive, body: LoginRequest) in
            try await drive.login(ProviderLogin(name: body.name, secret: body.secret))
        }
    }

    private func addItems(to router: Router<Context>) {
        let long = limits.longAnswer
        post(.items, router, within: long) { (drive, query: ItemQuery) in
            try Self.check(query.paths)
            try Self.check(limit: query.limit)
            return try await drive.items(query)
        }
        post(.query, router) { (drive, query: QueryRequest) in
            try Self.check(limit: query.limit)
            return try await drive.query(query)
        }
        post(.policy, router, within: long) { (drive, body: PolicyRequest) in
            try Self.check(body.paths)
            var results: [ItemResult] = []
            for path in body.paths {
                do throws(CloudFSError) {
                    try await drive.setPolicy(body.policy, at: path)
                    results.append(.done(path))
                } catch {
                    results.append(.refused(path, error))
                }
            }
            return ItemResults(results: results)
        }
        post(.evict, router, within: long) { (drive, body: EvictRequest) in
            try Self.check(body.paths)
            return ItemResults(
                results: try await drive.evict(body.paths, recursive: body.recursive)
            )
        }
        post(.download, router, within: long) { (drive, body: PathsRequest) in
            try Self.check(body.paths)
            return ItemResults(results: try await drive.download(body.paths))
        }
        post(.refresh, router, within: long) { (drive, body: PathsRequest) in
            try Self.check(body.paths)
            return ItemResults(results: try await drive.refresh(body.paths))
        }
        post(.check, router, within: long) { (drive, body: CheckRequest) in
            try await drive.check(body)
        }
        post(.downloadProgress, router) { (drive, body: PathsRequest) in
            try Self.check(body.paths)
            return DownloadProgress(downloads: try await drive.downloadProgress(body.paths))
        }
    }

    private func addOutbox(to router: Router<Context>) {
        get(.outbox, router) { drive, page in try await drive.outbox(page) }
        // The wait has a bound of its own, so the deadline comes after it.
        let limit = ControlAPI.longestWait + limits.answer
        post(.drain, router, within: limit) { (drive, body: DrainRequest) in
            let seconds = body.timeoutSeconds
            guard seconds.isFinite, seconds >= 0 else {
                throw CloudFSError(.invalidArgument, "timeoutSeconds must be 0 or more")
            }
            let wanted = Duration.seconds(min(seconds, 86_400))
            return try await drive.drain(timeout: min(wanted, ControlAPI.longestWait))
        }
    }

    private func addCoordination(to router: Router<Context>) {
        get(.claims, router) { drive, _ in try await drive.claims() }
        post(.endClaim, router) { (drive, body: ClaimEnding) in
            try await drive.endClaim(body.id)
            return Done()
        }
        post(.presenterAnswer, router) { (drive, body: PresenterAnswer) in
            try await drive.answer(body)
            return Done()
        }
    }

    private func addPlaces(to router: Router<Context>) {
        get(.activity, router) { drive, _ in try await drive.activity() }
        post(.bookmarks, router) { (drive, body: BookmarkOrder) in
            try await drive.bookmark(body)
        }
        post(.resolveBookmark, router) { (drive, body: BookmarkQuery) in
            try await drive.resolveBookmark(body)
        }
    }

    // MARK: - One request

    /// A body that means nothing: `pause` and `resume` have no arguments.
    private struct NoBody: Decodable, Sendable {}

    private func get<Answer: Encodable & Sendable>(
        _ route: ControlAPI.Route,
        _ router: Router<Context>,
        _ work: @escaping @Sendable (any ControlledDrive, PageRequest) async throws -> Answer
    ) {
        router.get(RouterPath(route.rawValue)) { [drive, gate, limits] request, _ in
            let page = try Self.page(request)
            return try Self.response(
                await gate.run(within: limits.answer) { try await work(drive, page) }
            )
        }
    }

    private func post<Body: Decodable & Sendable, Answer: Encodable & Sendable>(
        _ route: ControlAPI.Route,
        _ router: Router<Context>,
        within limit: Duration? = nil,
        atMost byteCount: Int = ControlAPI.maximumRequestByteCount,
        _ work: @escaping @Sendable (any ControlledDrive, Body) async throws -> Answer
    ) {
        post(route, router, within: limit, atMost: byteCount) { drive, body, _ in
            try await work(drive, body)
        }
    }

    private func post<Body: Decodable & Sendable, Answer: Encodable & Sendable>(
        _ route: ControlAPI.Route,
        _ router: Router<Context>,
        within limit: Duration? = nil,
        atMost byteCount: Int = ControlAPI.maximumRequestByteCount,
        _ work:
            @escaping @Sendable (any ControlledDrive, Body, ControlPeer) async throws -> Answer
    ) {
        let limit = limit ?? limits.answer
        router.post(RouterPath(route.rawValue)) { [drive, gate, limits] request, context in
            // A client that sends its body in drops gets the short deadline, whatever the route.
            let body: Body = try await gate.run(within: limits.answer) {
                var request = request
                return try await Self.body(of: &request, atMost: byteCount)
            }
            return try Self.response(
                await gate.run(within: limit) { try await work(drive, body, context.peer) }
            )
        }
    }

    static func body<Body: Decodable>(
        of request: inout Request,
        atMost limit: Int
    ) async throws -> Body {
        let tooLarge = CloudFSError(.tooLarge, "the body is larger than \(limit) bytes")
        if let announced = request.headers[.contentLength].flatMap({ Int($0) }), announced > limit {
            throw tooLarge
        }
        let buffer: ByteBuffer
        do {
            buffer = try await request.collectBody(upTo: limit)
        } catch is NIOTooManyBytesError {
            throw tooLarge
        }
        let bytes = buffer.readableBytes == 0 ? Data("{}".utf8) : Data(buffer.readableBytesView)
        do {
            return try JSONDecoder().decode(Body.self, from: bytes)
        } catch let error as DecodingError {
            throw CloudFSError(.invalidArgument, "the body is not what is expected: \(error.brief)")
        }
    }

    private static func page(_ request: Request) throws -> PageRequest {
        let parameters = request.uri.queryParameters
        var page = PageRequest(after: parameters.get("after"))
        if let text = parameters.get("limit") {
            guard let limit = Int(text) else {
                throw CloudFSError(.invalidArgument, "limit must be a number")
            }
            page.limit = limit
        }
        try check(limit: page.limit)
        return page
    }

    private static func check(_ paths: [DrivePath]) throws {
        guard (1...ControlAPI.maximumPathCount).contains(paths.count) else {
            throw CloudFSError(
                .invalidArgument,
                "a request names 1 to \(ControlAPI.maximumPathCount) paths, not \(paths.count)"
            )
        }
    }

    private static func check(limit: Int) throws {
        guard (1...ControlAPI.maximumPageCount).contains(limit) else {
            throw CloudFSError(
                .invalidArgument,
                "limit must be 1 to \(ControlAPI.maximumPageCount)"
            )
        }
    }

    static func response(
        _ answer: some Encodable,
        status: HTTPResponse.Status = .ok
    ) throws -> Response {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        let bytes = try encoder.encode(answer)
        return Response(
            status: status,
            headers: [.contentType: "application/json", .contentLength: "\(bytes.count)"],
            body: ResponseBody(byteBuffer: ByteBuffer(bytes: bytes))
        )
    }
}

/// Turns whatever a route throws into the one form of an error, and logs it once.
private struct FailureMiddleware: RouterMiddleware {
    typealias Context = ControlContext

    func handle(
        _ request: Request,
        context: Context,
        next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        let failure: CloudFSError
        let status: HTTPResponse.Status
        do {
            return try await next(request, context)
        } catch let error as CloudFSError {
            failure = error
            status = error.code.status
        } catch let error as HTTPError {
            let isUnknown = error.status == .notFound || error.status == .methodNotAllowed
            failure = CloudFSError(
                isUnknown ? .notFound : .invalidArgument,
                error.body ?? "there is no \(request.method) \(request.uri.path)"
            )
            status = error.status
        } catch {
            failure = CloudFSError(.internalFailure, "the request failed", cause: error)
            status = .internalServerError
        }
        context.logger.debug(
            "a control request failed",
            metadata: [
                "control.route": "\(request.uri.path)",
                "error.code": "\(failure.code.rawValue)",
                "error": "\(failure)",
            ]
        )
        return try ControlRoutes.response(ControlFailure(failure), status: status)
    }
}

extension DecodingError {
    /// What is wrong and where, without the types of this program.
    fileprivate var brief: String {
        switch self {
        case .keyNotFound(let key, _):
            return "\(key.stringValue) is missing"
        case .typeMismatch(_, let context), .valueNotFound(_, let context),
            .dataCorrupted(let context):
            let path = context.codingPath.map(\.stringValue).joined(separator: ".")
            return path.isEmpty
                ? context.debugDescription : "\(path): \(context.debugDescription)"
        @unknown default:
            return "no JSON of this form"
        }
    }
}
