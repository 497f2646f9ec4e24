import CloudFS
import Dispatch
import Glibc
import Logging

/// The life of a drive's process: from the lock of its state to the last line of its log.
struct Daemon {
    /// What can happen to a running drive, in one row.
    private enum Event: Sendable {
        case started
        case startFailed(CloudFSError)
        case signalled(Int32)
        case ended(MountEnd)
        case stopped(queued: Int?)
    }

    /// How long queued changes may be uploaded before the drive ends without them.
    private static let drainTime = Duration.seconds(10)
    /// How long to wait for a daemon of the same drive that was unmounted and is still ending.
    private static let patience = Duration.seconds(15)

    private var configuration: MountConfiguration
    private let readiness: ReadinessChannel?
    private let notifier = ServiceNotifier()

    /// - Parameters:
    ///   - configuration: What is mounted.
    ///   - readiness: Where a launcher waits; `nil` in the foreground.
    init(_ configuration: MountConfiguration, readiness: ReadinessChannel?) {
        self.configuration = configuration
        self.readiness = readiness
    }

    /// Mounts, serves until the end, and returns the exit status.
    ///
    /// - Throws: What kept the drive from being mounted; nothing is mounted then.
    mutating func run() async throws(CloudFSError) -> Int32 {
        ProcessSetup.prepare()
        if let readiness { ProcessSetup.detachFromCaller(keeping: readiness.descriptor) }
        let wasHere = StateLock.isAbandoned(
            configuration.stateDirectory,
            at: configuration.mountpoint
        )
        _ = try MountConfiguration.Checks(configuration, isAbandoned: wasHere).run()
        let state = try StateDirectory(at: configuration.stateDirectory)
        let lock = try StateLock(
            state,
            mountpoint: configuration.mountpoint,
            patience: Self.patience
        )
        defer { withExtendedLifetime(lock) {} }
        if readiness != nil { LogFile.rotate(state.logPath) }
        let level = configuration.logLevel
        let logger = Logger(label: "cloudfs") { _ in LogfmtHandler(level: level) }

        // Asked again as the drive's one owner: what was seen before may have changed.
        configuration.mayStartOffline = StateDirectory.hasCatalog(at: state.path)
        while try MountConfiguration.Checks(configuration, isAbandoned: wasHere).run() == .deadMount
        {
            try MountConfiguration.Checks.remove(configuration.mountpoint)
            tell("the daemon of the drive at \(configuration.mountpoint) was gone; replacing it")
        }
        let mount = try CloudMount(configuration: configuration, logger: logger)
        return try await serve(mount)
    }

    // MARK: - Serving

    private func serve(_ mount: CloudMount) async throws(CloudFSError) -> Int32 {
        let (events, continuation) = AsyncStream.makeStream(of: Event.self)
        let signals = Self.listen(to: [SIGTERM, SIGINT, SIGHUP]) { number in
            continuation.yield(.signalled(number))
        }
        defer { for source in signals { source.cancel() } }
        Task { await Self.start(mount, continuation) }

        var status: Int32 = 0
        var isEnding = false
        var failure: CloudFSError?
        for await event in events {
            switch event {
            case .started:
                guard !isEnding else { break }
                guard announce() else {
                    isEnding = true
                    end(mount, "nobody waits for the drive any more", continuation)
                    break
                }
            case .startFailed(let error):
                guard !isEnding else { break }
                throw error
            case .signalled(let number):
                guard !isEnding else {
                    if number == SIGINT { abandon() }
                    break
                }
                isEnding = true
                end(mount, "ending by signal \(number)", continuation)
            case .ended(let reason):
                if case .failed(let error) = reason {
                    failure = error
                    status = 1
                }
                guard !isEnding else { break }
                isEnding = true
                end(mount, "the drive was unmounted", continuation)
            case .stopped(let queued):
                report(queued: queued, failure: failure)
                return status
            }
        }
        return status
    }

    /// Handles signals, from the moment this returns.
    ///
    /// Sources are registered in the background; a signal that came before that would end the
    /// process or be lost.
    private static func listen(
        to numbers: [Int32],
        _ handler: @escaping @Sendable (Int32) -> Void
    ) -> [any DispatchSourceSignal] {
        let isRegistered = DispatchSemaphore(value: 0)
        let sources = numbers.map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { handler(number) }
            source.setRegistrationHandler { isRegistered.signal() }
            source.resume()
            return source
        }
        for _ in sources { isRegistered.wait() }
        return sources
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

    private func end(
        _ mount: CloudMount,
        _ reason: String,
        _ events: AsyncStream<Event>.Continuation
    ) {
        notifier.stopping("Uploading what is queued: \(reason)")
        Task { events.yield(.stopped(queued: await mount.stop(deadline: Self.drainTime))) }
    }

    /// Ends at once.
    ///
    /// Nothing is lost: everything acknowledged is in the catalog and the content store already.
    private func abandon() -> Never {
        Output.line("ending at once; what is queued will be uploaded at the next mount")
        do throws(CloudFSError) {
            try MountConfiguration.Checks.detach(configuration.mountpoint)
        } catch {
            Output.line(error.message)
        }
        _exit(128 + SIGINT)
    }

    // MARK: - Reports

    /// Says that the drive is usable.
    ///
    /// - Returns: `false` if the launcher is gone: somebody interrupted the command.
    private func announce() -> Bool {
        notifier.ready("Mounted at \(configuration.mountpoint)")
        guard let readiness else { return true }
        let isHeard = readiness.report(.ready)
        close(readiness.descriptor)
        return isHeard
    }

    private func tell(_ sentence: String) {
        readiness?.report(.note(sentence))
        Output.line(sentence)
    }

    private func report(queued: Int?, failure: CloudFSError?) {
        if let failure { Output.line(failure.message) }
        let sentence =
            switch queued {
            case nil: "the queue of \(configuration.mountpoint) cannot be read; see the log"
            case 0: "the drive at \(configuration.mountpoint) has ended; nothing is queued"
            case 1: "1 change is queued and will be uploaded at the next mount"
            case let count?: "\(count) changes are queued and will be uploaded at the next mount"
            }
        notifier.status(sentence)
        if queued != 0 || readiness != nil { Output.line(sentence) }
    }
}

/// The file that a background daemon's standard error goes to.
enum LogFile {
    private static let maximumByteCount = 10 << 20

    /// Begins a new log when the old one has become large; one old log is kept.
    static func rotate(_ path: String) {
        var status = stat()
        guard stat(path, &status) == 0, status.st_size > maximumByteCount,
            rename(path, "\(path).1") == 0
        else { return }
        let descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { return }
        dup2(descriptor, 1)
        dup2(descriptor, 2)
        close(descriptor)
    }
}
