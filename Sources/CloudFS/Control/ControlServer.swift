import CloudFSControlAPI
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOPosix
import ServiceLifecycle
import Synchronization

/// Serves the control API of one drive on a Unix socket of its user.
///
/// Make it before the mount: what is wrong with the runtime folder is known then, as one sentence.
/// Run it as a service that stops after the queue was drained, so that `cloudfs` can watch.
final class ControlServer: Service {
    private let drive: any ControlledDrive
    private let socket: ControlSocket
    private let published = Mutex<ControlSocket.Published?>(nil)
    private let limits: RequestLimits
    private let logger: Logger
    private let pool = BlockingPool(name: "cloudfs-control", width: 1)
    private let whenReady: @Sendable () -> Void
    private let arrivals: Arrivals
    private let listener = Mutex<(any Channel)?>(nil)

    /// Prepares the folder of the socket and checks that no other daemon serves the mountpoint.
    ///
    /// - Parameters:
    ///   - drive: What answers.
    ///   - record: Who serves what; its mountpoint is absolute and without symbolic links.
    ///   - directory: Where the socket is made.
    ///   - limits: What clients may ask for at most.
    ///   - logger: Gets one line for each request that failed, at debug.
    ///   - whenReady: Called once, when clients can connect.
    /// - Throws: `denied`, `exists`, `nameTooLong`.
    init(
        drive: any ControlledDrive,
        record: DriveRecord,
        directory: RuntimeDirectory = .forThisProcess(),
        limits: RequestLimits = RequestLimits(),
        logger: Logger,
        whenReady: @escaping @Sendable () -> Void = {}
    ) throws(CloudFSError) {
        self.drive = drive
        self.limits = limits
        self.logger = logger
        self.whenReady = whenReady
        arrivals = Arrivals(logger: logger)
        socket = try ControlSocket(directory: directory, record: record)
    }

    /// What clients connect to.
    var socketPath: String { socket.path }

    func run() async throws {
        let result: Result<Void, any Error>
        do {
            result = .success(try await serve())
        } catch {
            result = .failure(error)
        }
        await arrivals.endAll()
        do {
            let published = takePublished()
            try await pool.run { [socket] in try socket.remove(published) }
        } catch {
            logger.warning("the control socket was not removed", metadata: ["error": "\(error)"])
        }
        try result.get()
    }

    /// The socket that is there; once, as what is there later is another daemon's.
    private func takePublished() -> ControlSocket.Published? {
        published.withLock { published in
            defer { published = nil }
            return published
        }
    }

    private func serve() async throws {
        let (listening, listens) = AsyncStream.makeStream(of: Void.self)
        let server = server { [self] channel in
            listener.withLock { $0 = channel }
            listens.finish()
        }
        try await withThrowingTaskGroup(of: Ending.self) { group in
            group.addTask { [self] in
                // A task of its own: it must not be cancelled while somebody comes.
                let running = Task { try await server.run() }
                try await withTaskCancellationHandler {
                    try await running.value
                } onCancel: {
                    Task {
                        await closeTheDoor()
                        running.cancel()
                    }
                }
                return .served
            }
            group.addTask { [self, pool, socket, whenReady] in
                for await _ in listening {}
                // Cancelled: the server ended before it listened, and says why itself.
                guard !Task.isCancelled else { return .published }
                let socketID = try await pool.run { try socket.publish() }
                published.withLock { $0 = socketID }
                whenReady()
                return .published
            }
            group.addTask { [limits] in
                try await gracefulShutdown()
                try await Task.sleep(for: limits.shutdown)
                return .graceIsOver
            }
            defer { group.cancelAll() }
            while let ending = try await group.next() {
                guard case .published = ending else { return }
            }
        }
    }

    /// Waits until everybody who has come was let in, and nobody else can come.
    private func closeTheDoor() async {
        let published = takePublished()
        let seconds = max(1, Int(limits.shutdown.components.seconds))
        do {
            try await pool.run { [socket] in
                try socket.withdraw(published, within: seconds)
            }
            // For who had found the socket before, and comes to it after the last one.
            try await listener.withLock { $0 }?.close()
        } catch {
            logger.debug("the control socket ends early", metadata: ["error": "\(error)"])
        }
    }

    /// What ended in `serve`.
    private enum Ending: Sendable {
        case published
        case served
        case graceIsOver
    }

    /// Hummingbird's server, without its `Application`: that formats a date every second, by a
    /// timer that wakes an idle machine several times each time.
    private func server(
        whenListening: @escaping @Sendable (any Channel) -> Void
    ) -> Server<PeerCheckedChannel> {
        let gate = RequestGate(width: limits.concurrentRequests)
        let routes = ControlRoutes(
            drive: drive,
            limits: limits,
            gate: gate,
            streams: StreamPlaces(most: limits.streams)
        )
        let channel = PeerCheckedChannel(
            base: HTTP1Channel(
                responder: ControlAnswer.responder(routes.router(), logger: logger),
                configuration: .init(
                    idleTimeout: TimeAmount(limits.idle),
                    httpDecoderConfiguration: .init(
                        maxHeaderFieldSize: 8 << 10,
                        maxHeaderListSize: 16 << 10,
                        maxHeaderFieldCount: 64
                    )
                )
            ),
            unread: TimeAmount(limits.unread),
            serves: limits.serves,
            arrivals: arrivals,
            logger: logger
        )
        return Server(
            childChannelSetup: channel,
            configuration: ServerConfiguration(
                address: .unixDomainSocket(path: socket.privatePath),
                availableConnectionsDelegate: MaximumAvailableConnections(limits.connections)
            ),
            onServerRunning: { whenListening($0) },
            eventLoopGroup: MultiThreadedEventLoopGroup.singleton,
            logger: quietLogger
        )
    }

    /// Hummingbird tells what is no news here: its start, and an error for every orderly end.
    private var quietLogger: Logger {
        var quiet = logger
        quiet.logLevel = .critical
        return quiet
    }
}
