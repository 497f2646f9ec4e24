import Foundation
import Hummingbird
import HummingbirdCore
import Logging
import NIOCore
import NIOHTTP1

/// What is known of a request beside its words.
struct ControlContext: RequestContext {
    /// Where it comes from.
    struct Source: RequestContextSource {
        var logger: Logger
        var peer: ControlPeer
        /// Done when its connection is closed, whoever closed it.
        var closed: EventLoopFuture<Void>
    }

    var coreContext: CoreRequestContextStorage
    let peer: ControlPeer
    let closed: EventLoopFuture<Void>

    init(source: Source) {
        coreContext = CoreRequestContextStorage(source: source)
        peer = source.peer
        closed = source.closed
    }
}

/// One request on its way through the router, and its answer on the way back.
enum ControlAnswer {
    /// What a connection does with each request.
    static func responder(
        _ router: Router<ControlRoutes.Context>,
        logger: Logger
    ) -> HTTPChannelHandler.Responder {
        let responder = router.buildResponder()
        return { request, writer, channel in
            let peer = try await PeerCheckedChannel.peer(of: channel).get()
            let source = ControlContext.Source(
                logger: logger,
                peer: peer,
                closed: channel.closeFuture
            )
            let context = ControlContext(source: source)
            var response: Response
            do {
                response = try await responder.respond(to: request, context: context)
            } catch let error as HTTPParserError {
                // The connection answers this one and ends.
                throw error
            } catch {
                response = Response(status: .internalServerError)
            }
            response.headers[.date] = date(of: time(nil))
            do {
                try await writer.write(response: response.head, body: response.body)
            } catch let error as HTTPParserError {
                // As it is, it would be answered once more.
                throw CloudFSError(.cancelled, "the request broke off", cause: error)
            }
        }
    }

    /// A time as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
    static func date(of seconds: time_t) -> String {
        var seconds = seconds
        var fields = tm()
        gmtime_r(&seconds, &fields)
        var text = [CChar](repeating: 0, count: 64)
        // Its words are English here: nobody calls `setlocale`.
        let count = strftime(&text, text.count, "%a, %d %b %Y %H:%M:%S GMT", &fields)
        return String(decoding: text.prefix(count).map(UInt8.init(bitPattern:)), as: UTF8.self)
    }
}
