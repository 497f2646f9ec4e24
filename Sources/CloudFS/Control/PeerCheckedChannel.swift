import Glibc
import HummingbirdCore
import Logging
import NIOCore
import Synchronization

/// HTTP/1.1 for processes of our own user and root, and for nobody else.
///
/// The folder and the socket already keep others out; a descriptor that was handed on, or a
/// folder somebody opened by mistake, does not get past this.
struct PeerCheckedChannel: ServerChildChannel {
    typealias Value = HTTP1Channel.Value

    let base: HTTP1Channel
    /// How long an answer may lie unread before the connection is closed.
    let unread: TimeAmount
    /// Whose processes are served.
    let serves: @Sendable (_ user: UInt32) -> Bool
    /// Holds connections that were accepted and are not handled yet.
    let arrivals: Arrivals
    /// Where refusals are told: the server's own logger is quiet.
    let logger: Logger

    func setup(channel: any Channel, logger quiet: Logger) -> EventLoopFuture<Value> {
        let setup = Self.peer(of: channel).flatMapThrowing { peer in
            guard serves(peer.user) else {
                logger.warning(
                    "a control connection of another user was refused",
                    metadata: ["peer.uid": "\(peer.user)", "peer.pid": "\(peer.process)"]
                )
                throw CloudFSError(.denied, "a peer of user \(peer.user)")
            }
            try channel.pipeline.syncOperations.addHandler(SlowReaderHandler(limit: unread))
        }.flatMap {
            base.setup(channel: channel, logger: quiet)
        }
        setup.whenSuccess { [arrivals] in arrivals.hold($0) }
        // Nobody else closes a connection whose setup failed.
        setup.whenFailure { _ in channel.close(promise: nil) }
        return setup
    }

    func handle(value: Value, logger: Logger) async {
        arrivals.release(value)
        await base.handle(value: value, logger: logger)
    }

    /// The kernel's `struct ucred`: who called `connect`, as the kernel noted it then.
    static func peer(of channel: any Channel) -> EventLoopFuture<ControlPeer> {
        guard let socket = channel as? any SocketOptionProvider else {
            let error = CloudFSError(.internalFailure, "the connection is no socket")
            return channel.eventLoop.makeFailedFuture(error)
        }
        return socket.unsafeGetSocketOption(
            level: NIOBSDSocket.OptionLevel(rawValue: CInt(SOL_SOCKET)),
            name: NIOBSDSocket.Option(rawValue: CInt(SO_PEERCRED))
        )
    }
}

/// Connections between their arrival and whoever handles them.
///
/// A server that ends forgets those that it has not begun to handle, and NIO ends the process for
/// each that nobody closes. So they are held here until they are handled, or the server is over.
final class Arrivals: Sendable {
    typealias Connection = PeerCheckedChannel.Value

    private struct State {
        var waiting: [ObjectIdentifier: Connection] = [:]
        var isOver = false
    }

    private let state = Mutex(State())
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    /// Holds a connection until it is handled; ends it if nobody will.
    func hold(_ connection: Connection) {
        let isOver = state.withLock { state in
            if !state.isOver { state.waiting[ObjectIdentifier(connection.channel)] = connection }
            return state.isOver
        }
        if isOver { Task { await end(connection) } }
    }

    /// Somebody handles it, and will close it.
    func release(_ connection: Connection) {
        state.withLock { _ = $0.waiting.removeValue(forKey: ObjectIdentifier(connection.channel)) }
    }

    /// Ends those that the server, which is over, has not begun to handle, and all that come yet.
    func endAll() async {
        let left = state.withLock { state in
            defer { state.waiting = [:] }
            state.isOver = true
            return Array(state.waiting.values)
        }
        for connection in left { await end(connection) }
    }

    private func end(_ connection: Connection) async {
        do {
            try await connection.executeThenClose { _, _ in }
        } catch {
            logger.debug("a connection ended early", metadata: ["error": "\(error)"])
        }
    }
}

/// Closes a connection whose peer does not take what was written to it.
///
/// Every write that is done is progress; none for `limit` while one waits is the end.
private final class SlowReaderHandler: ChannelOutboundHandler {
    typealias OutboundIn = IOData

    private let limit: TimeAmount
    private var waiting = 0
    private var timer: Scheduled<Void>?

    init(limit: TimeAmount) {
        self.limit = limit
    }

    func write(context: ChannelHandlerContext, data: NIOAny, promise: EventLoopPromise<Void>?) {
        let written = promise ?? context.eventLoop.makePromise(of: Void.self)
        waiting += 1
        if timer == nil { restart(context.channel) }
        let bound = NIOLoopBound(
            (handler: self, channel: context.channel),
            eventLoop: context.eventLoop
        )
        written.futureResult.whenComplete { _ in
            let (handler, channel) = bound.value
            handler.waiting -= 1
            handler.restart(channel)
        }
        context.write(data, promise: written)
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        timer?.cancel()
        timer = nil
    }

    private func restart(_ channel: any Channel) {
        timer?.cancel()
        timer = nil
        guard waiting > 0 else { return }
        timer = channel.eventLoop.scheduleTask(in: limit) {
            channel.close(promise: nil)
        }
    }
}
