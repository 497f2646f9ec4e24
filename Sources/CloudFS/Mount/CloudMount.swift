import Glibc
public import Logging
import Synchronization

/// How a drive's life ended.
public enum MountEnd: Sendable {
    case unmounted
    case failed(CloudFSError)
}

/// One mounted drive: builds the graph of everything, and runs it.
public final class CloudMount: Sendable {
    private struct State {
        var parts: DriveParts?
        var session: FuseSession?
        var services: Task<Void, Never>?
        var serving: Task<MountEnd, Never>?
        /// How long it may go on sending at its end, if somebody has said so.
        var sending: Duration?
    }

    private let configuration: MountConfiguration
    private let kept: KeptDescriptors?
    private let keeper: any DriveKeeper
    private let logger: Logger
    private let state = Mutex(State())

    /// How long the container is waited for when nothing is known of it yet.
    private static let connectDeadline = Duration.seconds(20)

    /// Prepares a drive that ends with this process; nothing is opened before `start`.
    public convenience init(configuration: MountConfiguration, logger: Logger) {
        self.init(configuration: configuration, kept: nil, keeper: NoKeeper(), logger: logger)
    }

    /// Prepares a drive, or goes on with one of an earlier worker.
    ///
    /// - Parameters:
    ///   - kept: What outlives this process; owned by the drive from `start` on.
    ///   - keeper: Who keeps it.
    package init(
        configuration: MountConfiguration,
        kept: KeptDescriptors?,
        keeper: any DriveKeeper,
        logger: Logger
    ) {
        self.configuration = configuration
        self.kept = kept
        self.keeper = keeper
        self.logger = logger
    }

    /// Mounts the drive and returns when it is usable.
    ///
    /// Cancelling the task ends the wait for the container; what is mounted by then comes up.
    ///
    /// - Throws: What is wrong, in a sentence; nothing is left mounted.
    public func start() async throws(CloudFSError) {
        let kept = try KeptState(kept, keeper)
        let parts = try DriveParts(
            configuration,
            kept: kept,
            keeper: keeper,
            logger: logger
        ) { [weak self] sending in
            self?.state.withLock { state in
                state.sending = sending
                return state.session
            }?.unmount()
        }
        state.withLock { $0.parts = parts }
        try await parts.meetContainer(within: Self.connectDeadline)
        let ready = Pending<Void>()
        let reachable = Pending<Void>()
        let session = try FuseSession(
            filesystem: parts.filesystem,
            changes: parts.hub,
            options: try FuseMountOptions(
                mountpoint: configuration.mountpoint,
                source: parts.containerURL,
                options: configuration.mountOptions + (configuration.readOnly ? ["ro"] : [])
            ),
            connection: kept.connection,
            logger: logger,
            isReady: { ready.finish(.success(())) }
        )
        let control = try ControlServer(
            drive: parts.control,
            record: parts.control.record,
            logger: logger,
            whenReady: { reachable.finish(.success(())) }
        )
        try session.mount()
        try await FaultPoint.mountMade.passInTask()
        let serving = Task { await Self.serve(session, ready) }
        state.withLock { state in
            state.session = session
            state.serving = serving
            state.services = Task {
                await parts.run(control) { reachable.finish(.failure($0)) }
                reachable.finish(.failure(CancellationError()))
            }
        }
        do {
            try await Task {
                try await ready.value {}
                try await reachable.value {}
            }.value
        } catch {
            if kept.connection.device == nil { await giveUp() }
            throw error as? CloudFSError
                ?? CloudFSError(.internalFailure, "the drive did not come up", cause: error)
        }
    }

    /// Leaves nothing of a drive that nobody has used yet.
    ///
    /// One that programs use is left to the next worker.
    private func giveUp() async {
        let state = state.withLock { $0 }
        state.session?.unmount()
        _ = await state.serving?.value
        state.services?.cancel()
        await state.services?.value
        state.parts?.close()
    }

    private static func serve(_ session: FuseSession, _ ready: Pending<Void>) async -> MountEnd {
        do throws(CloudFSError) {
            let end = try await session.run()
            let error = CloudFSError(.internalFailure, "the connection to the kernel was cut")
            ready.finish(.failure(error))
            return end == .aborted ? .failed(error) : .unmounted
        } catch {
            ready.finish(.failure(error))
            return .failed(error)
        }
    }

    /// Returns when the drive is no longer mounted, whoever unmounted it.
    public func waitUntilUnmounted() async -> MountEnd {
        guard let serving = state.withLock({ $0.serving }) else { return .unmounted }
        return await serving.value
    }

    /// Unmounts, sends what can be sent until `deadline`, or as long as whoever had it unmounted
    /// allows, and stores the rest.
    ///
    /// To be called once `start` has returned.
    ///
    /// - Returns: How many changes stay queued for the next mount; `nil` if that is not known.
    public func stop(deadline: Duration) async -> Int? {
        let (parts, session, serving, sending) = state.withLock {
            ($0.parts, $0.session, $0.serving, $0.sending)
        }
        session?.unmount()
        _ = await serving?.value
        guard let parts else { return 0 }
        parts.closeHandles()
        let queued = await parts.drain(deadline: min(deadline, sending ?? deadline))
        await parts.leases.endAll()
        let services = state.withLock { $0.services }
        services?.cancel()
        await services?.value
        parts.close()
        return queued
    }
}
