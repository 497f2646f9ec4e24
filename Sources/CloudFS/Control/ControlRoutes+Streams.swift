import CloudFSControlAPI
import Hummingbird
import NIOCore

/// Routes whose answer is a stream of server-sent events, for as long as the client reads it.
extension ControlRoutes {
    func addStreams(to router: Router<Context>) {
        streamPost(.claims, router) { (drive, order: ClaimOrder, peer, outlet) in
            try Self.check(order)
            try await drive.hold(order, for: peer) { outlet.send($0) }
        }
        streamPost(.presenters, router) { (drive, order: PresenterOrder, peer, outlet) in
            try Self.check(purpose: order.purpose)
            try await drive.present(order, for: peer) { outlet.send($0) }
        }
        streamPost(.liveQuery, router) { (drive, query: QueryRequest, _, outlet) in
            try await drive.follow(query) { outlet.send($0) }
        }
        router.get(RouterPath(ControlAPI.Route.events.rawValue)) { request, context in
            var request = request
            _ = try await request.collectBody(upTo: 0)
            return try await stream(request, context) { drive, outlet in
                try await drive.watch { outlet.send($0) }
            }
        }
    }

    private static func check(_ order: ClaimOrder) throws {
        let most = ControlAPI.maximumIntentCount
        guard (1...most).contains(order.intents.count) else {
            throw CloudFSError(.invalidArgument, "a claim names 1 to \(most) items")
        }
        if let seconds = order.timeoutSeconds {
            guard seconds.isFinite, (0...86_400).contains(seconds) else {
                throw CloudFSError(.invalidArgument, "timeoutSeconds must be 0 to 86400")
            }
        }
        try check(purpose: order.purpose)
    }

    private static func check(purpose: String?) throws {
        let most = ControlAPI.maximumPurposeByteCount
        guard (purpose?.utf8.count ?? 1) <= most, purpose?.isEmpty != true else {
            throw CloudFSError(.invalidArgument, "a purpose has 1 to \(most) bytes")
        }
    }

    private func streamPost<Body: Decodable & Sendable>(
        _ route: ControlAPI.Route,
        _ router: Router<Context>,
        _ work:
            @escaping @Sendable (
                any ControlledDrive, Body, ControlPeer, EventOutlet
            ) async throws -> Void
    ) {
        router.post(RouterPath(route.rawValue)) { [gate, limits] request, context in
            let (read, body) = try await gate.run(within: limits.answer) {
                var request = request
                let limit = ControlAPI.maximumRequestByteCount
                let body: Body = try await Self.body(of: &request, atMost: limit)
                return (request, body)
            }
            return try await stream(read, context) { drive, outlet in
                try await work(drive, body, context.peer, outlet)
            }
        }
    }

    /// Runs `work` for as long as the client reads.
    private func stream(
        _ request: Request,
        _ context: Context,
        _ work: @escaping @Sendable (any ControlledDrive, EventOutlet) async throws -> Void
    ) async throws -> Response {
        try streams.enter()
        let outlet = EventOutlet()
        let task = Task { [drive, streams] in
            defer { streams.leave() }
            do {
                try await work(drive, outlet)
                outlet.finish()
            } catch {
                let other = CloudFSError(.internalFailure, "the stream broke off", cause: error)
                outlet.fail(error as? CloudFSError ?? other)
            }
        }
        outlet.whenFinished { task.cancel() }
        // A client may be gone before there is anything to write to it.
        context.closed.whenComplete { _ in outlet.finish() }
        do throws(CloudFSError) {
            try await outlet.waitForBeginning()
        } catch {
            task.cancel()
            throw error
        }
        return Response(
            status: .ok,
            headers: [.contentType: "text/event-stream", .cacheControl: "no-store"],
            body: ResponseBody { writer in
                // The connection's other half tells that the client is gone.
                try await request.body.consumeWithInboundCloseHandler { body in
                    // It was read already; what comes after it is looked at when it is gone.
                    for try await _ in body {}
                    try await outlet.write(to: &writer)
                } onInboundClosed: {
                    outlet.finish()
                }
                try await writer.finish(nil)
            }
        )
    }
}
