import CFuse
import CLinux
import Dispatch
import Foundation
import Glibc
import Logging
import Synchronization

/// Why a session is over.
enum SessionEnd: Sendable, Equatable {
    /// `unmount()` was called.
    case unmounted
    /// Someone else unmounted the drive.
    case unmountedOutside
    /// The kernel cut the connection; the dead mount has been taken away.
    case aborted
}

/// One mounted drive: libfuse's session, its threads and its notifier.
///
/// `init`, then `mount()`, then `run()`, which begins the threads that speak with the kernel.
final class FuseSession: Sendable {
    private struct State {
        enum Phase { case new, mounted, running, over }

        var phase = Phase.new
        /// `nil` once libfuse's session is gone.
        var session: SharedPointer?
        var mount: OwnMount?
        /// The thread that waits for the end of libfuse's workers, while it does.
        var loop: pthread_t?
        var isLeaving = false
    }

    /// More workers than processors, because they wait for the local disk.
    ///
    /// Idle ones are kept, as libfuse advises: making threads costs more than keeping them.
    private static let workers: UInt32 = 16
    private static let patience = DispatchTimeInterval.seconds(10)
    /// How long the kernel needs at most to close the connection of a drive that nobody has.
    private static let usualEnd = DispatchTimeInterval.seconds(3)

    let notifier: KernelNotifier
    private let context: SessionContext
    private let connection: KeptConnection
    private let options: FuseMountOptions
    private let changes: ChangeHub
    private let logger: Logger
    private let state = Mutex(State())
    /// Its one thread is there from the beginning: a drive must end also while there is no other.
    private let unmounting = BlockingPool(name: "cloudfs-unmount", width: 1)
    /// Signalled once.
    private let loopEnd = DispatchSemaphore(value: 0)

    /// - Parameters:
    ///   - filesystem: What answers the requests.
    ///   - changes: Where news comes from that the kernel must hear while the drive is mounted.
    ///   - options: Where and how to mount.
    ///   - connection: The way to the kernel, if an earlier worker has left one.
    ///   - logger: For what goes wrong, and what libfuse says.
    ///   - isReady: Called once, on a thread of libfuse, when the drive answers.
    /// - Throws: `invalidArgument` for options that libfuse does not take.
    init(
        filesystem: Filesystem,
        changes: ChangeHub,
        options: FuseMountOptions,
        connection: KeptConnection,
        logger: Logger,
        isReady: @escaping @Sendable () -> Void = {}
    ) throws(CloudFSError) {
        FuseLog.install(logger)
        let context = SessionContext(
            filesystem: filesystem,
            connection: connection,
            logger: logger,
            isReady: isReady
        )
        let session = try Self.makeSession(options, context)
        self.context = context
        self.connection = connection
        self.options = options
        self.changes = changes
        self.logger = logger
        notifier = KernelNotifier(logger: logger) { notification in
            let told = Telling(from: filesystem)
            let number = notification.send(through: session)
            told.note(notification, answeredWith: number)
            return number
        }
        state.withLock { $0.session = session }
    }

    deinit {
        let (session, mount) = state.withLock { ($0.session, $0.mount) }
        guard let session else { return }
        if let mount, isOurs(mount) { _ = mount.mountpoint.unmount(lazily: true) }
        Self.destroy(session, context)
    }

    /// Mounts the drive, or goes on with the mount of an earlier worker; it answers once `run()` is
    /// called.
    ///
    /// - Throws: One sentence that says what is wrong and what to do; nothing new is left mounted.
    func mount() throws(CloudFSError) {
        guard let session = state.withLock({ $0.phase == .new ? $0.session : nil }) else {
            throw CloudFSError(.internalFailure, "a session is mounted once")
        }
        // Before the engine can change anything.
        context.filesystem.files.caches.untoldSizes.beginTelling()
        context.filesystem.catalog.untoldNames.beginTelling()
        guard let device = connection.device else { return try begin(session) }
        let mountpoint = Mountpoint(mounted: options.mountpoint)
        let mount = try OwnMount(mountpoint, number: connection.mount)
        try context.kernel.install(in: session.raw, device: device, mount: mount)
        try context.kernel.greetAgain(session.raw)
        didMount(mount)
    }

    private func begin(_ session: SharedPointer) throws(CloudFSError) {
        let mountpoint = try Mountpoint(preparing: options)
        _ = FuseLog.takeLines()
        guard fuse_session_mount(session.raw, mountpoint.path) == 0 else {
            throw mountpoint.failure(FuseLog.takeLines())
        }
        do throws(CloudFSError) {
            let mount = try OwnMount(at: mountpoint)
            let device = fuse_session_fd(session.raw)
            try context.kernel.install(in: session.raw, device: device, mount: mount)
            didMount(mount)
        } catch {
            _ = mountpoint.unmount(lazily: true)
            throw error
        }
    }

    private func didMount(_ mount: OwnMount) {
        state.withLock { state in
            state.phase = .mounted
            state.mount = mount
        }
    }

    /// Answers requests until the drive is unmounted.
    ///
    /// Cancelling the task unmounts. Returns after the last request and notification has ended.
    ///
    /// - Throws: `internalFailure` if the connection to the kernel failed.
    func run() async throws(CloudFSError) -> SessionEnd {
        let session = state.withLock { state -> SharedPointer? in
            guard state.phase == .mounted else { return nil }
            state.phase = .running
            return state.session
        }
        guard let session else {
            throw CloudFSError(.internalFailure, "a session runs once, after it was mounted")
        }
        notifier.start { [logger] in
            Self.keepOnly(fuse_session_fd(session.raw), logger)
        }
        changes.connect(
            ChangeHub.Kernel(
                tell: { [notifier] in notifier.enqueue($0) },
                settled: { [notifier] in await notifier.settled() }
            )
        )
        if let device = connection.device { goOn(at: device) }
        let result = await withTaskCancellationHandler {
            await withCheckedContinuation { continuation in
                OwnThread.start("cloudfs-fuse") {
                    continuation.resume(returning: self.loop(session))
                }
            }
        } onCancel: {
            unmount()
        }
        changes.connect(nil)
        return try result.get()
    }

    /// Makes `run()` return: unmounts, and takes the drive from programs that still use it.
    ///
    /// Returns at once; the work is done on a thread, because unmounting writes back what
    /// programs have mapped. Calling it again does nothing.
    func unmount() {
        let mount = state.withLock { state -> OwnMount? in
            guard !state.isLeaving, state.phase == .mounted || state.phase == .running else {
                return nil
            }
            state.isLeaving = true
            return state.mount
        }
        guard let mount else { return }
        unmounting.start { self.leave(mount) }
    }

    // MARK: - The mount of an earlier worker

    /// Takes over what an earlier worker left undone: requests without answers, and what it may
    /// not have told the kernel.
    private func goOn(at device: Int32) {
        notifier.enqueue(context.filesystem.handles.keptItems.map { .attributes($0) })
        let number = context.kernel.resend(to: device)
        if number != 0 {
            logger.notice(
                "The kernel sends no request again; the drive may be unmounted.",
                metadata: ["reason": "\(String(cString: strerror(number)))"]
            )
        }
        NameExpiry(
            catalog: context.filesystem.catalog,
            kernel: context.kernel,
            device: device,
            logger: logger
        ).start { [logger] in Self.keepOnly(device, logger) }
    }

    // MARK: - The loop and its end

    /// Runs libfuse's loop on this thread, and cleans up after it.
    private func loop(_ session: SharedPointer) -> Result<SessionEnd, CloudFSError> {
        Self.blockSignals()
        clinux_become_interruptible()
        let thread = pthread_self()
        state.withLock { $0.loop = thread }
        let configuration = fuse_loop_cfg_create()
        fuse_loop_cfg_set_clone_fd(configuration, 0)
        fuse_loop_cfg_set_max_threads(configuration, Self.workers)
        let result = cfuse_session_loop(session.raw, configuration)
        fuse_loop_cfg_destroy(configuration)
        state.withLock { $0.loop = nil }
        loopEnd.signal()

        let end = leftOver()
        finish(session)
        if result < 0 {
            let reason = String(cString: strerror(-result))
            return .failure(
                CloudFSError(.internalFailure, "the connection to the kernel failed: \(reason)")
            )
        }
        return .success(end)
    }

    /// Why the loop ended; a mount that is still there answers nobody any more and is taken away.
    private func leftOver() -> SessionEnd {
        let (isLeaving, mount) = state.withLock { ($0.isLeaving, $0.mount) }
        guard let mount, isOurs(mount) else {
            return isLeaving ? .unmounted : .unmountedOutside
        }
        let number = mount.mountpoint.unmount(lazily: true)
        if number != 0 {
            logger.warning(
                "The dead drive could not be unmounted; run 'fusermount3 -u' on it.",
                metadata: ["path": "\(mount.mountpoint.path)"]
            )
        }
        return isLeaving ? .unmounted : .aborted
    }

    /// Ends what still uses libfuse's session, then the session.
    ///
    /// `/dev/null` takes the place of `/dev/fuse` first: the kernel then ends whatever waits for
    /// an answer or holds a notification, and late replies go nowhere instead of into some file
    /// that got the same descriptor.
    private func finish(_ session: SharedPointer) {
        notifier.close()
        context.filesystem.files.passthrough.end(because: "the drive is not mounted")
        Self.disconnect(session)
        connection.whenOver()
        let isQuiet =
            context.ledger.finishRequests(within: Self.patience)
            && notifier.waitUntilStopped(within: Self.patience)
        state.withLock { state in
            state.session = nil
            state.phase = .over
        }
        guard isQuiet else {
            logger.warning("A request or notification did not end with its session.")
            return
        }
        Self.destroy(session, context)
    }

    // MARK: - Unmounting

    private func leave(_ mount: OwnMount) {
        let mountpoint = mount.mountpoint
        if isOurs(mount), mountpoint.unmount(lazily: false) != 0, isOurs(mount) {
            logger.info(
                "Programs still use the drive; it is taken from them.",
                metadata: ["path": "\(mountpoint.path)"]
            )
            _ = mountpoint.unmount(lazily: true)
        } else {
            // Nobody uses it here, and the kernel ends the connection, and that the loop.
            guard loopEnd.wait(timeout: .now() + Self.usualEnd) == .timedOut, isLooping else {
                return
            }
            logger.notice(
                "The drive is mounted elsewhere too, by a container perhaps; it is taken away.",
                metadata: ["path": "\(mountpoint.path)"]
            )
        }
        // While requests are still answered: a notification that waited for one in the kernel
        // would keep the connection open for ever.
        notifier.close()
        context.ledger.waits.interruptAll()
        _ = notifier.waitUntilStopped(within: Self.patience)
        endLoop()
    }

    /// Makes libfuse's loop return although the kernel keeps the connection open.
    private func endLoop() {
        state.withLock { state in
            if let session = state.session { fuse_session_exit(session.raw) }
        }
        // More than once: it may have looked at the session just before, and wait just after.
        while interruptLoop() { _ = loopEnd.wait(timeout: .now() + .milliseconds(20)) }
    }

    private var isLooping: Bool { state.withLock { $0.loop != nil } }

    private func interruptLoop() -> Bool {
        state.withLock { state in
            guard let loop = state.loop else { return false }
            clinux_interrupt(loop)
            return true
        }
    }

    /// Whether what is on top at the drive's place is the drive.
    private func isOurs(_ mount: OwnMount) -> Bool {
        do throws(CloudFSError) {
            return try mount.isOnTop()
        } catch {
            logger.warning("\(error)")
            return false
        }
    }

    // MARK: - libfuse

    private static func makeSession(
        _ options: FuseMountOptions,
        _ context: SessionContext
    ) throws(CloudFSError) -> SharedPointer {
        _ = FuseLog.takeLines()
        var arguments = options.arguments.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var operations = FuseOperations.table()
        let userdata = Unmanaged.passRetained(context).toOpaque()
        let session = arguments.withUnsafeMutableBufferPointer { buffer in
            var vector = fuse_args(
                argc: Int32(buffer.count - 1),
                argv: buffer.baseAddress,
                allocated: 0
            )
            defer { fuse_opt_free_args(&vector) }
            return cfuse_session_new(&vector, &operations, userdata)
        }
        guard let session else {
            Unmanaged<SessionContext>.fromOpaque(userdata).release()
            let reason = FuseLog.takeLines().joined(separator: " ")
            throw CloudFSError(.invalidArgument, "libfuse refuses the mount options: \(reason)")
        }
        return SharedPointer(session)
    }

    /// Takes all but one descriptor from the calling thread, which the kernel may hold behind a
    /// request.
    ///
    /// If the process is killed in such a moment, request and thread wait for each other until
    /// somebody cuts the connection or answers, and what the thread has open stays open. The
    /// socket to the supervisor and the lock of the state directory must not be among it: by them
    /// others know that this worker is gone, and do that.
    private static func keepOnly(_ descriptor: Int32, _ logger: Logger) {
        guard clinux_keep_only(descriptor) != 0 else { return }
        logger.notice(
            "A thread shares all files: killed at a bad moment, the drive stays locked.",
            metadata: ["reason": "\(String(cString: strerror(Glibc.errno)))"]
        )
    }

    private static func disconnect(_ session: SharedPointer) {
        let device = fuse_session_fd(session.raw)
        let nowhere = open("/dev/null", O_RDWR | O_CLOEXEC)
        guard device >= 0, nowhere >= 0 else { return }
        dup3(nowhere, device, O_CLOEXEC)
        close(nowhere)
    }

    private static func destroy(_ session: SharedPointer, _ context: SessionContext) {
        fuse_session_destroy(session.raw)
        Unmanaged.passUnretained(context).release()
    }

    /// Signals are for the program's own threads; libfuse's workers inherit this mask.
    private static func blockSignals() {
        var signals = sigset_t()
        sigemptyset(&signals)
        for signal in [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCHLD, SIGALRM] {
            sigaddset(&signals, signal)
        }
        pthread_sigmask(SIG_BLOCK, &signals, nil)
    }
}
