import CloudFS
import Dispatch
import Glibc
import Logging

/// The life of the process that serves a drive: from its supervisor's order to its last word.
struct Worker {
    /// What can happen to a running drive, in one row.
    private enum Event: Sendable {
        case started
        case startFailed(CloudFSError)
        case ordered(signal: Int32)
        case ended(MountEnd)
        case stopped(queued: Int?)
    }

    /// How long queued changes may be uploaded before the drive ends without them.
    private static let drainTime = Duration.seconds(10)

    private let supervisor: MessageSocket

    /// - Parameter supervisor: Where orders come from.
    init(_ supervisor: MessageSocket) {
        self.supervisor = supervisor
    }

    /// Waits for the order to begin, serves until the end, and returns the exit status.
    func run() async throws(CloudFSError) -> Int32 {
        // A terminal gives these to the supervisor too, which passes them on.
        for number in [SIGINT, SIGHUP] { signal(number, SIG_IGN) }
        ProcessSetup.prepare()
        unsetenv("NOTIFY_SOCKET")
        FaultCompanion.set(getppid())
        guard KeptDescriptors.dieWithParent(),
            supervisor.send(.standsBy(format: KeptDescriptors.format))
        else { return 1 }
        guard let first = supervisor.receive(), case .begin(let file) = SupervisorOrder(first.text)
        else { return 0 }
        do throws(CloudFSError) {
            let configuration = try MountConfiguration(driveFile: file, host: .current())
            return try await serve(configuration, first.descriptors)
        } catch {
            supervisor.send(.failed(error))
            return 1
        }
    }

    private func serve(
        _ configuration: MountConfiguration,
        _ descriptors: [Int32]
    ) async throws(CloudFSError) -> Int32 {
        // The first is the lock of the state directory, held for as long as this process lives.
        guard descriptors.count >= 4 else {
            throw CloudFSError(.internalFailure, "the supervisor gave too few descriptors")
        }
        let level = configuration.logLevel
        let logger = Logger(label: "cloudfs") { _ in LogfmtHandler(level: level) }
        let link = SupervisorLink(supervisor)
        let mount = CloudMount(
            configuration: configuration,
            kept: KeptDescriptors(
                device: descriptors.count > 4 ? descriptors[4] : nil,
                greetings: descriptors[1],
                handles: descriptors[2],
                locks: descriptors[3]
            ),
            keeper: link,
            logger: logger
        )
        return try await run(mount, link, configuration)
    }

    // MARK: - Serving

    private func run(
        _ mount: CloudMount,
        _ link: SupervisorLink,
        _ configuration: MountConfiguration
    ) async throws(CloudFSError) -> Int32 {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        link.listen { continuation.yield(.ordered(signal: $0)) }
        let signals = Signals.listen(to: [SIGTERM]) { continuation.yield(.ordered(signal: $0)) }
        defer { for source in signals { source.cancel() } }
        let starting = Task { await Self.start(mount, continuation) }

        var status: Int32 = 0
        var (isStarted, isEnding) = (false, false)
        var failure: CloudFSError?
        for await event in events {
            switch event {
            case .started:
                isStarted = true
                if isEnding { end(mount, continuation) } else { supervisor.send(.ready) }
            case .startFailed(let error):
                guard isEnding else { throw error }
                say("the drive at \(configuration.mountpoint) has ended", configuration)
                supervisor.send(.ended(status: 0))
                return 0
            case .ordered(let signal):
                guard !isEnding else {
                    if signal == SIGINT { abandon() }
                    break
                }
                isEnding = true
                tellEnd("ending by signal \(signal)")
                // Only what has come up can be taken away whole.
                if isStarted { end(mount, continuation) } else { starting.cancel() }
            case .ended(let reason):
                if case .failed(let error) = reason {
                    failure = error
                    status = 1
                }
                guard !isEnding else { break }
                isEnding = true
                tellEnd("the drive was unmounted")
                end(mount, continuation)
            case .stopped(let queued):
                report(queued, configuration, failure)
                supervisor.send(.ended(status: status))
                return status
            }
        }
        return status
    }

    private static func start(
        _ mount: CloudMount,
        _ events: AsyncStream<Event>.Continuation
    ) async {
        do throws(CloudFSError) {
            try await mount.start()
        } catch {
            events.yield(.startFailed(error))
            return
        }
        events.yield(.started)
        events.yield(.ended(await mount.waitUntilUnmounted()))
    }

    private func tellEnd(_ reason: String) {
        supervisor.send(.stopping("Uploading what is queued: \(reason)"))
    }

    private func end(_ mount: CloudMount, _ events: AsyncStream<Event>.Continuation) {
        Task { events.yield(.stopped(queued: await mount.stop(deadline: Self.drainTime))) }
    }

    /// Ends at once.
    ///
    /// Nothing is lost: everything acknowledged is in the catalog and the content store already.
    /// A mount that is still there is for the supervisor to take away, which knows of it.
    private func abandon() -> Never {
        Output.line("ending at once; what is queued will be uploaded at the next mount")
        supervisor.send(.ended(status: 128 + SIGINT))
        _exit(128 + SIGINT)
    }

    private func report(
        _ queued: Int?,
        _ configuration: MountConfiguration,
        _ failure: CloudFSError?
    ) {
        if let failure { Output.line(failure.message) }
        let sentence =
            switch queued {
            case nil: "the queue of \(configuration.mountpoint) cannot be read; see the log"
            case 0: "the drive at \(configuration.mountpoint) has ended; nothing is queued"
            case 1: "1 change is queued and will be uploaded at the next mount"
            case let count?: "\(count) changes are queued and will be uploaded at the next mount"
            }
        say(sentence, configuration, isNews: queued != 0)
    }

    private func say(
        _ sentence: String,
        _ configuration: MountConfiguration,
        isNews: Bool = false
    ) {
        supervisor.send(.status(sentence))
        if isNews || !configuration.foreground { Output.line(sentence) }
    }
}
