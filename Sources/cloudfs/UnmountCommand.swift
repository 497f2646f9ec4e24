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
            hindrance; a drive whose daemon is gone is detached.
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
        if drive.isListening {
            try await unmount(drive)
        } else {
            guard force || DeadMounts.isDead(drive.mountpoint) else {
                try drive.requireDaemon()
                return
            }
            try DeadMounts.detach(drive.mountpoint)
        }
        try await Self.waitUntilGone(drive)
        if !drive.isListening { try DriveLocator.current().forget(drive.afterDetaching) }
    }

    private func unmount(_ drive: DriveAddress) async throws {
        let client = DriveClient(drive)
        if !force {
            let status = try await client.status()
            // Nothing moves in a drive that is offline or paused; waiting would be in vain.
            if status.connection.state == .online, status.outbox.total > 0 {
                _ = try await DrainCommand.drain(client, timeout: timeout.duration)
            }
        }
        let page = force ? nil : try await client.outbox(PageRequest(limit: 20))
        let remaining = try await client.unmount(force: force)
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
