import CloudFS
import Dispatch
import Glibc
import Synchronization

/// The life of a drive: from the lock of its state directory to its exit status.
///
/// A small process that serves nothing itself. It keeps what must not end when a worker does: the
/// way to the kernel, open handles and locks; and it starts another worker in its place.
final class Supervisor: Sendable {
    /// How long to wait for a daemon of the same drive that was unmounted and is still ending.
    private static let patience = Duration.seconds(15)

    /// What the supervisor holds for its workers.
    private struct Holdings {
        var workers: [Int: WorkerProcess] = [:]
        var device: Int32?
    }

    private let configuration: MountConfiguration
    private let words: [String]
    private let readiness: ReadinessChannel?
    private let notifier = ServiceNotifier()
    private let holdings = Mutex(Holdings())
    private let events: AsyncStream<SupervisorPlan.Event>
    private let tell: AsyncStream<SupervisorPlan.Event>.Continuation

    /// - Parameters:
    ///   - configuration: What is mounted, for as long as the drive lives.
    ///   - words: The command line, which the workers show too.
    ///   - readiness: Where a launcher waits; `nil` in the foreground.
    init(_ configuration: MountConfiguration, words: [String], readiness: ReadinessChannel?) {
        self.configuration = configuration
        self.words = words
        self.readiness = readiness
        (events, tell) = AsyncStream.makeStream()
    }

    /// Has the drive mounted and served until its end, and returns the exit status.
    ///
    /// - Throws: What kept the drive from being mounted, or ended it.
    func run() async throws(CloudFSError) -> Int32 {
        ProcessSetup.prepare()
        _ = Program.path
        // A daemon must not keep the caller's folder from being unmounted.
        if readiness != nil { _ = chdir("/") }
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
        try replaceDeadDrive(wasHere: wasHere)
        return try await supervise(try KeptFiles(lock: lock.descriptor))
    }

    /// Asked again as the drive's one owner: what was seen before may have changed.
    private func replaceDeadDrive(wasHere: Bool) throws(CloudFSError) {
        var configuration = configuration
        configuration.mayStartOffline = StateDirectory.hasCatalog(at: configuration.stateDirectory)
        while try MountConfiguration.Checks(configuration, isAbandoned: wasHere).run() == .deadMount
        {
            try MountConfiguration.Checks.remove(configuration.mountpoint)
            say("the daemon of the drive at \(configuration.mountpoint) was gone; replacing it")
        }
    }

    // MARK: - Events and actions

    private func supervise(_ kept: borrowing KeptFiles) async throws(CloudFSError) -> Int32 {
        let signals = Signals.listen(to: [SIGTERM, SIGINT, SIGHUP]) { [tell] number in
            tell.yield(.signalled(number))
        }
        defer { for source in signals { source.cancel() } }
        var plan = SupervisorPlan()
        let clock = ContinuousClock()
        let begin = clock.now
        tell.yield(.began)
        for await event in events {
            for action in plan.decide(event, at: clock.now - begin) {
                guard case .exit(let status, let error) = action else {
                    perform(action, kept)
                    continue
                }
                if let error { throw error }
                return status
            }
        }
        return 0
    }

    private func perform(_ action: SupervisorPlan.Action, _ kept: borrowing KeptFiles) {
        switch action {
        case .start(let worker, let limit): start(worker, within: limit)
        case .wait(let worker, let pause): happens(.due(worker: worker), after: pause)
        case .handOver(let worker): handOver(worker, kept)
        case .kill(let worker): holdings.withLock { $0.workers[worker] }?.kill()
        case .order(let worker, let order):
            holdings.withLock { $0.workers[worker] }?.channel.send(order)
        case .announce: announce()
        case .tell(let sentence): say(sentence)
        case .status(let sentence): notifier.status(sentence)
        case .stopping(let reason): notifier.stopping(reason)
        case .letGo: letGo()
        case .removeMount: removeMount()
        case .removeDeadMount: removeMount(onlyIfDead: true)
        case .exit: break
        }
    }

    /// A worker that cannot be started is no reason to end: another one may be serving.
    private func start(_ id: Int, within limit: Duration?) {
        do throws(CloudFSError) {
            let worker = try WorkerProcess.start(id: id, words: words) { [weak self] news in
                self?.hear(news, of: id)
            }
            holdings.withLock { $0.workers[id] = worker }
        } catch {
            tell.yield(.unstarted(worker: id, error))
            return
        }
        if let limit { happens(.deadline(worker: id), after: limit) }
    }

    private func happens(_ event: SupervisorPlan.Event, after time: Duration) {
        Task { [tell] in
            try await Task.sleep(for: time)
            tell.yield(event)
        }
    }

    /// On the thread of the worker's socket: descriptors must not wait, or get lost.
    private func hear(_ news: WorkerProcess.News, of id: Int) {
        switch news {
        case .report(let report, var descriptors):
            if case .mounted = report, let device = descriptors.popLast() {
                let old = holdings.withLock { holdings in
                    defer { holdings.device = device }
                    return holdings.device
                }
                if let old { close(old) }
            }
            for descriptor in descriptors { close(descriptor) }
            tell.yield(.report(worker: id, report))
        case .lost(let how):
            holdings.withLock { _ = $0.workers.removeValue(forKey: id) }
            tell.yield(.lost(worker: id, how: how))
        }
    }

    private func handOver(_ id: Int, _ kept: borrowing KeptFiles) {
        let (worker, device) = holdings.withLock { ($0.workers[id], $0.device) }
        guard let worker else { return }
        let order = SupervisorOrder.begin(driveFile: configuration.driveFile)
        let descriptors = kept.descriptors + (device.map { [$0] } ?? [])
        let result = worker.channel.send(order.text, descriptors)
        // One that is gone will be reported as lost; one that hears nothing would wait for ever.
        guard ![0, EPIPE, ECONNRESET].contains(result) else { return }
        say("the drive's worker cannot be told to begin: \(String(cString: strerror(result)))")
        worker.kill()
    }

    private func letGo() {
        let device = holdings.withLock { holdings in
            defer { holdings.device = nil }
            return holdings.device
        }
        if let device { close(device) }
    }

    /// - Parameter onlyIfDead: Leaves a drive alone that answers, for it is another daemon's.
    private func removeMount(onlyIfDead: Bool = false) {
        let path = configuration.mountpoint
        do throws(CloudFSError) {
            let mount = try MountConfiguration.MountTable.current().mount(at: path)
            guard mount?.type == MountConfiguration.MountTable.driveType,
                !onlyIfDead || MountConfiguration.Checks.signOfLife(path) == .death
            else { return }
            try MountConfiguration.Checks.remove(path)
        } catch {
            say(error.message)
        }
    }

    // MARK: - Reports

    private func announce() {
        notifier.ready("Mounted at \(configuration.mountpoint)")
        if let readiness, !readiness.report(.ready) { tell.yield(.abandoned) }
        // From now on it hardly does anything.
        ProcessMemory.release()
    }

    private func say(_ sentence: String) {
        readiness?.report(.note(sentence))
        Output.line(sentence)
    }
}

/// Files that outlive every worker.
struct KeptFiles: ~Copyable {
    /// In the order in which a worker expects them.
    let descriptors: [Int32]

    /// - Parameter lock: The lock of the state directory, which stays somebody else's.
    init(lock: Int32) throws(CloudFSError) {
        var descriptors = [lock]
        for name in ["cloudfs-greeting", "cloudfs-handles", "cloudfs-locks"] {
            descriptors.append(try KeptDescriptors.makeFile(name))
        }
        self.descriptors = descriptors
    }

    deinit {
        for descriptor in descriptors.dropFirst() { close(descriptor) }
    }
}
