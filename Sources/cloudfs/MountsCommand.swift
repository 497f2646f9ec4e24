import ArgumentParser
import CloudFSClient
import CloudFSControlAPI
import Glibc

struct MountsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "mounts",
        abstract: "Lists the drives, those whose daemon is gone included.",
        discussion: """
            The READS column says how the kernel gets the bytes of local files: passthrough (from \
            the local disk directly), splice (through the daemon), and why not faster.
            """
    )

    @Flag(help: "Write JSON.")
    var json = false

    @Flag(help: "Forget drives that are neither mounted nor served; their files stay.")
    var prune = false

    func run() async throws {
        if prune {
            let locator = try DriveLocator.current()
            for drive in try locator.drives() { try locator.forget(drive) }
        }
        try await Self.show(json: json)
    }

    /// One drive and what could be learned of it.
    struct Row: Encodable, Sendable {
        enum State: String, Encodable, Sendable {
            case online
            case offline
            case paused
            /// The daemon listens and does not answer.
            case hanging
            /// Mounted, and nobody serves it.
            case dead
            /// Mounted, and no daemon has left its name here.
            case unknown
            /// Not mounted any more; the daemon did not end cleanly.
            case gone
        }

        var mountpoint: String
        /// Where its control API answers, if it does.
        var socket: String?
        var containerURL: String?
        var pid: Int32?
        var state: State
        /// What is wrong and what to do.
        var advice: String?
        var status: DriveStatus?
    }

    static func show(json: Bool) async throws {
        try await show(try drives(.current()), json: json)
    }

    /// All drives, except those that were and cannot be again: these are forgotten on the way.
    ///
    /// A machine that tries things in temporary folders would list them until it starts anew.
    static func drives(_ locator: DriveLocator) throws -> [DriveAddress] {
        let known = try locator.drives()
        return try known.filter { drive in
            guard isLost(drive, among: known) else { return true }
            try locator.forget(drive)
            return false
        }
    }

    /// Whether nobody serves the drive any more and the folders that made it are not there.
    private static func isLost(_ drive: DriveAddress, among drives: [DriveAddress]) -> Bool {
        guard !drive.isMounted, !drive.isListening, let record = drive.record else { return false }
        // A mountpoint in another drive is not looked at: that one may hang.
        let isInDrive = drives.contains {
            $0.isMounted && drive.mountpoint.hasPrefix($0.mountpoint + "/")
        }
        return isMissing(record.stateDirectory) || !isInDrive && isMissing(drive.mountpoint)
    }

    /// Only what surely is not there: a folder that cannot be looked at may be.
    private static func isMissing(_ path: String) -> Bool {
        var status = stat()
        return lstat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR)
    }

    static func show(_ drives: [DriveAddress], json: Bool) async throws {
        let rows = await withTaskGroup(of: (Int, Row).self) { group in
            for (index, drive) in drives.enumerated() {
                group.addTask { (index, await row(of: drive)) }
            }
            var rows: [(Int, Row)] = []
            for await row in group { rows.append(row) }
            return rows.sorted { $0.0 < $1.0 }.map(\.1)
        }
        if json { return try Terminal.output.json(rows) }
        guard !rows.isEmpty else { return Terminal.output.line("no drives are mounted") }
        table(rows).write()
        for row in rows {
            guard let advice = row.advice else { continue }
            let place = row.state == .dead || row.state == .gone ? "\(row.mountpoint): " : ""
            Terminal.output.line((place + advice).printable)
        }
    }

    private static func row(of drive: DriveAddress) async -> Row {
        var row = Row(
            mountpoint: drive.mountpoint,
            socket: drive.isListening ? drive.socketPath : nil,
            containerURL: drive.record?.containerURL,
            pid: drive.record?.pid,
            state: !drive.isMounted ? .gone : drive.record == nil ? .unknown : .dead
        )
        guard drive.isListening else {
            row.advice = advice(for: row, drive)
            return row
        }
        do throws(DriveClientError) {
            let status = try await DriveClient(drive, patience: .seconds(5)).status()
            row.status = status
            row.containerURL = status.containerURL
            row.pid = status.pid
            switch status.connection.state {
            case .online: row.state = .online
            case .offline: row.state = .offline
            case .paused: row.state = .paused
            }
        } catch {
            row.state = .hanging
            row.advice = "\(error)"
        }
        return row
    }

    private static func advice(for row: Row, _ drive: DriveAddress) -> String {
        let source = row.containerURL ?? "<container-url>"
        // Another one knows nothing of what was not sent.
        let state = drive.record.map { "--state-dir '\($0.stateDirectory)' " } ?? ""
        let again = "cloudfs-mount \(state)'\(source)' '\(row.mountpoint)'"
        guard drive.isMounted else {
            return "its daemon ended without cleaning up; what was not sent waits for: \(again) "
                + "(forget it: cloudfs mounts --prune)"
        }
        guard row.state == .dead else {
            return "\(DriveClientError.noDaemon(mountpoint: row.mountpoint, pid: nil))"
        }
        return "its daemon is gone; mount it again: \(again); or detach it: "
            + "cloudfs unmount --force '\(row.mountpoint)'"
    }

    static func table(_ rows: [Row]) -> Table {
        var table = Table([
            .init(title: "MOUNTPOINT"), .init(title: "CONTAINER"),
            .init(title: "PID", isRightAligned: true), .init(title: "STATE"),
            .init(title: "OUTBOX"), .init(title: "READS"),
        ])
        for row in rows {
            let isReadOnly = row.status?.isReadOnly == true
            table.add([
                .init(row.mountpoint),
                .init(row.containerURL ?? "?"),
                .init(row.pid.map { "\($0)" } ?? "?"),
                .init(row.state.rawValue + (isReadOnly ? ", read-only" : ""), style(row.state)),
                .init(row.status.map { Units.outbox($0.outbox) } ?? ""),
                .init(row.status.map { DriveDescription.mode($0.mode) } ?? ""),
            ])
        }
        return table
    }

    private static func style(_ state: Row.State) -> Style {
        switch state {
        case .online: .green
        case .paused: .yellow
        case .offline, .hanging, .dead, .unknown, .gone: .red
        }
    }
}
