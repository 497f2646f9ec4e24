import CFuse
import Logging

/// What the callbacks of one mount need; libfuse carries it as its user data.
final class SessionContext: Sendable {
    let filesystem: Filesystem
    let ledger: RequestLedger
    let kernel: KernelProtocol
    private let isReady: @Sendable () -> Void

    init(
        filesystem: Filesystem,
        connection: KeptConnection,
        logger: Logger,
        isReady: @escaping @Sendable () -> Void
    ) {
        self.filesystem = filesystem
        self.isReady = isReady
        ledger = RequestLedger(logger: logger)
        kernel = KernelProtocol(
            passthrough: filesystem.files.passthrough,
            store: filesystem.files.store,
            connection: connection
        )
    }

    /// The kernel has said hello: the drive answers from now on.
    func ready() { isReady() }

    /// The context that was given to `fuse_session_new`.
    static func of(_ userdata: UnsafeMutableRawPointer?) -> SessionContext {
        guard let userdata else { preconditionFailure("libfuse lost the session's context") }
        return Unmanaged<SessionContext>.fromOpaque(userdata).takeUnretainedValue()
    }
}

extension FuseRequest<KernelPort> {
    /// The request behind `raw`, for an entry of the callback table.
    static func handle(
        _ raw: fuse_req_t?,
        _ operation: String,
        _ item: fuse_ino_t,
        _ work: (Filesystem) throws(CloudFSError) -> FuseReply
    ) {
        let (request, files) = make(raw, operation, item)
        request.answer { () throws(CloudFSError) in try work(files) }
    }

    /// Like `handle`, for an operation that may have to wait.
    static func handleLater(
        _ raw: fuse_req_t?,
        _ operation: String,
        _ item: fuse_ino_t,
        _ work: (Filesystem) throws(CloudFSError) -> Answer<FuseReply>
    ) {
        let (request, files) = make(raw, operation, item)
        request.answerLater { () throws(CloudFSError) in try work(files) }
    }

    private static func make(
        _ raw: fuse_req_t?,
        _ operation: String,
        _ item: fuse_ino_t
    ) -> (FuseRequest, Filesystem) {
        guard let raw else { preconditionFailure("libfuse gave no request") }
        let session = SessionContext.of(fuse_req_userdata(raw))
        session.filesystem.noteRequest()
        let port = KernelPort(raw, session)
        let item = FuseArguments.item(item)
        return (FuseRequest(port, session.ledger, operation, item: item), session.filesystem)
    }
}
