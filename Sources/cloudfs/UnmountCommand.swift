import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct UnmountCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unmount",
        abstract: "Sends what waits, unmounts a drive and waits until it is gone.",
        discussion: """
            What cannot be sent in time stays on this machine and is sent after the next mount; \
            the command says what it is. With --force nothing is waited for and open files are no \
            hindrance; a drive whose daemon is gone, or does not answer, is detached.
            """
    )

    @Argument(help: "The mountpoint.", completion: .directory)
    var mountpoint: String

    @Flag(name: .shortAndLong, help: "Do not send first, and do not mind open files.")
    var force = false

    @Option(help: "How long to wait for the outbox: 30, 30s, 5m.")
    var timeout = Span(duration: .seconds(30))

    /// How long the mount may take to vanish after the daemon agreed.
    private static let patience = Duration.seconds(30)

    func run() async throws {
        let locator = try DriveLocator.current()
        let location = try locator.location(of: mountpoint)
        let drive = location.drive
        guard location.path.isRoot else {
            throw ValidationError(
                "\(mountpoint) is in the drive at \(drive.mountpoint); name that to unmount it"
            )
        }
        let isServed = try isServed(drive)
        if isServed {
            guard try await unmount(drive) else { return }
        } else {
            try DeadMounts.detach(drive.mountpoint)
        }
        try await Self.waitUntilGone(drive)
        if !isServed { try DriveLocator.current().forget(drive.afterDetaching) }
    }

    /// Whether there is a daemon to be asked; one that is about to take over is waited for.
    private func isServed(_ drive: DriveAddress) throws -> Bool {
        if drive.isListening { return true }
        if force || DeadMounts.isDead(drive.mountpoint) { return false }
        try drive.requireDaemon()
        return true
    }

    /// - Returns: Whether the daemon ends; else the mount was taken from one that hangs.
    private func unmount(_ drive: DriveAddress) async throws -> Bool {
        do {
            try await end(drive)
            return true
        } catch let error as DriveClientError {
            guard force, case .notAnswering = error else { throw error }
            try DeadMounts.detach(drive.mountpoint)
            let pid = drive.record.map { " (pid \($0.pid))" } ?? ""
            Terminal.errors.line(
                "the daemon\(pid) does not answer; \(drive.mountpoint.printable) is detached"
            )
            return false
        }
    }

    private func end(_ drive: DriveAddress) async throws {
        guard !force else {
            let client = DriveClient(drive, patience: .seconds(5))
            return tell(try await client.unmount(force: true, sending: .zero), nil)
        }
        let client = DriveClient(drive)
        let rest = try await send(client)
        let page = try await client.outbox(PageRequest(limit: 20))
        tell(try await client.unmount(force: false, sending: rest), page)
    }

    /// Sends what waits.
    ///
    /// - Returns: How long what comes to it at the very end may be sent.
    private func send(_ client: DriveClient) async throws -> Duration {
        let end = ContinuousClock.now + timeout.duration
        let status = try await client.status()
        // Nothing moves in a drive that is offline or paused; waiting would be in vain.
        guard status.connection.state == .online else { return .zero }
        if status.outbox.total > 0 {
            let note = "The drive is still mounted. Sending goes on; `cloudfs queue` shows it."
            let left = try await DrainCommand.drain(client, timeout: timeout.duration, note: note)
            // What could not be sent in all this time cannot be sent in a little more.
            guard left.total == 0 else { return .zero }
        }
        return max(.zero, end - ContinuousClock.now)
    }

    /// Says what is kept.
    private func tell(_ remaining: OutboxCounts, _ page: OutboxPage?) {
        guard remaining.total > 0 else { return }
        Terminal.errors.line(
            "not sent, and kept for the next mount: \(Units.outbox(remaining))"
        )
        for entry in page?.entries ?? [] {
            let error = entry.lastError.map { ": \($0)" } ?? ""
            Terminal.errors.line("  \(entry.path)\(error)".printable)
        }
    }

    private static func waitUntilGone(_ drive: DriveAddress) async throws {
        let end = ContinuousClock.now + patience
        while try MountTable.current().hasDrive(at: drive.mountpoint)
            || SocketProbe.ask(drive.socketPath) == .listening
        {
            guard ContinuousClock.now < end else {
                Terminal.errors.line(
                    "\(drive.mountpoint.printable) is still there after "
                        + "\(patience.components.seconds) s; see: cloudfs mounts"
                )
                throw ExitCode.failure
            }
            try await Task.sleep(for: .milliseconds(50))
        }
    }
}

extension DriveAddress {
    fileprivate var afterDetaching: DriveAddress {
        var detached = self
        detached.isMounted = false
        return detached
    }
}
