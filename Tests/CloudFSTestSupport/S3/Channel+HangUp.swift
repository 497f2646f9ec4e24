import Glibc
import NIOCore
import NIOPosix

extension Channel {
    /// Ends a connection, or a listening socket, for whoever is at its other end.
    ///
    /// Closing is not enough: SwiftNIO's sockets are inherited by child processes, which tests
    /// start all the time, and live on in those.
    @discardableResult
    func hangUp() -> EventLoopFuture<Void> {
        eventLoop.submit {
            try self.pipeline.syncOperations.withUnsafeTransportIfAvailable(
                of: NIOBSDSocket.Handle.self
            ) { _ = shutdown($0, Int32(SHUT_RDWR)) }
        }
        .flatMap { _ in self.close() }
        .flatMapErrorThrowing { error in
            // The other end was faster.
            if (error as? IOError)?.errnoCode == EBADF { return }
            guard case ChannelError.alreadyClosed = error else { throw error }
        }
    }
}
