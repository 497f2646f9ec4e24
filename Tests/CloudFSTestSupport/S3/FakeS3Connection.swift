import NIOCore
import NIOHTTP1

/// One connection of a client: takes requests apart, and lets the faults happen.
///
/// Confined to the event loop of its channel. Answers are written as bytes, not through
/// SwiftNIO's encoder, which would not let a wrong one pass.
final class FakeS3Connection: ChannelInboundHandler {
    typealias InboundIn = HTTPServerRequestPart
    typealias OutboundOut = ByteBuffer

    private let core: FakeS3Core
    private var number = 0
    private var context: ChannelHandlerContext?
    private var exchange: FakeS3Exchange?
    private var sender: FakeS3Sender?

    init(core: FakeS3Core) {
        self.core = core
    }

    // MARK: - From the channel

    func handlerAdded(context: ChannelHandlerContext) {
        self.context = context
    }

    func handlerRemoved(context: ChannelHandlerContext) {
        self.context = nil
    }

    func channelActive(context: ChannelHandlerContext) {
        number = core.opened(context.channel)
        context.fireChannelActive()
    }

    func channelInactive(context: ChannelHandlerContext) {
        core.closed(number)
        if let exchange { core.finished(exchange.request) }
        exchange = nil
        sender = nil
        context.fireChannelInactive()
    }

    func errorCaught(context: ChannelHandlerContext, error: any Error) {
        // What is no HTTP, or a connection that broke: nothing can be answered.
        context.channel.hangUp()
    }

    func channelWritabilityChanged(context: ChannelHandlerContext) {
        if context.channel.isWritable { sendMore() }
        context.fireChannelWritabilityChanged()
    }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        switch unwrapInboundIn(data) {
        case .head(let head): began(head)
        case .body(let piece): received(piece)
        case .end: ended()
        }
    }

    // MARK: - The request

    private func began(_ head: HTTPRequestHead) {
        let settings = core.settings
        let parsed = FakeS3Request(
            method: head.method.rawValue,
            target: head.uri,
            headers: head.headers.map { ($0.name, $0.value) },
            virtualHostDomain: settings.virtualHostDomain
        )
        guard var request = parsed else {
            write(string: "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            if let context { hangUpWhenSent(context) }
            return
        }
        request.connection = number
        let (recorded, actions) = core.begin(request)
        let exchange = FakeS3Exchange(recorded, actions, keepsAlive: head.isKeepAlive)
        exchange.rate = settings.bandwidth
        self.exchange = exchange
        if cutIfWanted(exchange) { return }
        guard head.headers.contains(name: "expect") else { return }
        if exchange.failsAtOnce {
            // The client has not sent the body, and need not.
            exchange.keepsAlive = false
            exchange.isAnswering = true
            beforeEffect(exchange, at: 0)
        } else {
            write(string: "HTTP/1.1 100 Continue\r\n\r\n")
        }
    }

    private func received(_ piece: ByteBuffer) {
        guard let exchange, !exchange.isAnswering else { return }
        exchange.bodyByteCount += Int64(piece.readableBytes)
        var piece = piece
        exchange.body.writeBuffer(&piece)
        if !cutIfWanted(exchange) { slowDownReading(exchange) }
    }

    /// Closes the connection if as much of the body has come as a fault allows.
    private func cutIfWanted(_ exchange: FakeS3Exchange) -> Bool {
        for case .cutRequest(let limit) in exchange.actions where exchange.bodyByteCount >= limit {
            core.received(exchange.bodyByteCount, of: exchange.request)
            // What is read until the connection is closed has no effect any more.
            exchange.isAnswering = true
            context?.channel.hangUp()
            return true
        }
        return false
    }

    /// Reads no more until as much time has gone by as the bytes take at the connection's rate.
    private func slowDownReading(_ exchange: FakeS3Exchange) {
        guard let rate = exchange.rate, let context else { return }
        let due = exchange.started + .time(of: exchange.bodyByteCount, at: rate)
        guard due > .now() + .milliseconds(2), !exchange.isPaused else { return }
        exchange.isPaused = true
        setReading(false)
        context.eventLoop.assumeIsolated().scheduleTask(deadline: due) {
            exchange.isPaused = false
            self.setReading(true)
        }
    }

    private func setReading(_ isReading: Bool) {
        do {
            try context?.channel.syncOptions?.setOption(.autoRead, value: isReading)
        } catch {
            // Only a channel that is closed has no options any more.
            context?.channel.hangUp()
        }
    }

    private func ended() {
        guard let exchange, !exchange.isAnswering else { return }
        exchange.isAnswering = true
        core.received(exchange.bodyByteCount, of: exchange.request)
        // What came in one piece took no longer than the piece; the rest of its time is due now.
        let transfer = exchange.rate.map { rate in
            exchange.started + .time(of: exchange.bodyByteCount, at: rate) - .now()
        }
        let wait = core.settings.latency + .nanoseconds(max(transfer?.nanoseconds ?? 0, 0))
        // No timer without need, so that a server without faults is fast.
        if wait > .zero { exchange.actions.insert(.delay(wait), at: 0) }
        beforeEffect(exchange, at: 0)
    }

    // MARK: - The answer

    /// Goes through the actions, one after the other, that come before the effect.
    private func beforeEffect(_ exchange: FakeS3Exchange, at index: Int) {
        guard index < exchange.actions.count else { return perform(exchange) }
        let loop = context?.eventLoop
        switch exchange.actions[index] {
        case .delay(let duration):
            guard let loop else { return perform(exchange) }
            loop.assumeIsolated().scheduleTask(in: TimeAmount(duration)) {
                self.beforeEffect(exchange, at: index + 1)
            }
        case .wait(let gate):
            guard let loop else { return perform(exchange) }
            let promise = loop.makePromise(of: Void.self)
            gate.whenOpen { promise.succeed() }
            promise.futureResult.assumeIsolated().whenSuccess {
                self.beforeEffect(exchange, at: index + 1)
            }
        case .fail(let status, let code, let headers):
            var failure = FakeS3Failure(status, code)
            failure.headers = headers
            answer(exchange, failure.answer(to: exchange.request))
        case .redirect(let place):
            var failure = FakeS3Failure(307, "TemporaryRedirect")
            failure.headers = [("Location", place + exchange.request.target)]
            answer(exchange, failure.answer(to: exchange.request))
        default:
            beforeEffect(exchange, at: index + 1)
        }
    }

    private func perform(_ exchange: FakeS3Exchange) {
        var disregarded: Set<FakeS3Fault.Disregard> = []
        for case .disregard(let what) in exchange.actions { disregarded.insert(what) }
        let answer = core.perform(
            exchange.request,
            body: exchange.body,
            disregarding: disregarded
        )
        self.answer(exchange, answer)
    }

    private func answer(_ exchange: FakeS3Exchange, _ answer: FakeS3Answer) {
        guard exchange === self.exchange, let context else { return }
        let answer = exchange.faulty(answer)
        core.answers(exchange.request, status: answer.status)
        for case .raw(let bytes) in exchange.actions {
            write(ByteBuffer(bytes: bytes))
            hangUpWhenSent(context)
            return
        }
        let sender = FakeS3Sender(answer, of: exchange, now: core.now)
        if sender.isCutBeforeHead {
            context.channel.hangUp()
            return
        }
        write(string: sender.head)
        self.sender = sender
        sendMore()
    }

    private func sendMore() {
        guard let sender, let context else { return }
        while context.channel.isWritable {
            guard sender.scheduled == nil else { return }
            switch sender.next() {
            case .piece(let piece):
                core.sent(piece.readableBytes)
                write(piece)
            case .pause(let until):
                sender.scheduled = until
                context.eventLoop.assumeIsolated().scheduleTask(deadline: until) {
                    sender.scheduled = nil
                    if sender === self.sender { self.sendMore() }
                }
            case .stall:
                return
            case .end(let closes):
                self.sender = nil
                if let exchange { core.finished(exchange.request) }
                exchange = nil
                if closes { hangUpWhenSent(context) }
                return
            }
        }
    }

    /// Hangs up when all that was written has left, or cannot.
    private func hangUpWhenSent(_ context: ChannelHandlerContext) {
        let channel = context.channel
        let sent = context.eventLoop.makePromise(of: Void.self)
        context.writeAndFlush(wrapOutboundOut(ByteBuffer()), promise: sent)
        sent.futureResult.whenComplete { _ in channel.hangUp() }
    }

    private func write(string: String) {
        write(ByteBuffer(string: string))
    }

    private func write(_ buffer: ByteBuffer) {
        context?.writeAndFlush(wrapOutboundOut(buffer), promise: nil)
    }
}
