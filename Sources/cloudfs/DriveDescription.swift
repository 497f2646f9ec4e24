import CloudFSControlAPI

/// One drive in words: what `cloudfs status` says in a drive.
struct DriveDescription: Sendable {
    private let status: DriveStatus

    init(_ status: DriveStatus) {
        self.status = status
    }

    func lines(hasColour: Bool) -> [String] {
        let title = status.mountpoint.printable
        let rows = rows
        let width = rows.map { $0.0.count }.max() ?? 0
        let body = rows.map { name, value, style in
            let fill = String(repeating: " ", count: width - name.count)
            let value = value.printable
            return "  \(name)\(fill)  \(hasColour ? style.applied(to: value) : value)"
        }
        return [hasColour ? Style.bold.applied(to: title) : title] + body
    }

    private var rows: [(String, String, Style)] {
        var rows: [(String, String, Style)] = [
            ("container", container, .plain),
            ("connection", Self.connection(status.connection), Self.style(status.connection)),
            ("items", items, .plain),
            ("here", here, .plain),
            ("disk", disk, .plain),
            ("outbox", Units.outbox(status.outbox), status.outbox.failed > 0 ? .red : .plain),
        ]
        if status.counts.conflicts > 0 {
            let versions = Units.count(status.counts.conflicts, "version")
            rows.append(("conflicts", "\(versions); see: cloudfs conflicts", .red))
        }
        if status.counts.errors > 0 {
            let items = Units.count(status.counts.errors, "item")
            rows.append(("errors", "\(items); see: cloudfs queue", .red))
        }
        for (name, note) in (status.server ?? [:]).sorted(by: { $0.key < $1.key }) {
            rows.append((name, note, .plain))
        }
        rows += [
            ("reading", Self.mode(status.mode), .plain),
            ("device", status.deviceName, .plain),
            ("state", status.stateDirectory, .plain),
            ("daemon", daemon, .plain),
        ]
        return rows
    }

    private var container: String {
        let access = status.isReadOnly ? ", read-only" : ""
        return "\(status.containerDisplayName) (\(status.containerURL))\(access)"
    }

    private var items: String {
        let counts = Units.count(status.counts.items, "item")
        guard !status.listing.isComplete else { return counts }
        let left = Units.count(status.listing.foldersLeft, "folder")
        return "\(counts), still listing: \(left) to go"
    }

    private var here: String {
        let counts = status.counts
        var parts = ["\(counts.resident) local"]
        if counts.partial > 0 { parts.append("\(counts.partial) partial") }
        if counts.dirty > 0 { parts.append("\(counts.dirty) modified") }
        return parts.joined(separator: ", ")
    }

    private var disk: String {
        let cache = status.cache
        return "\(Units.bytes(cache.usedBytes)) of \(Units.bytes(cache.limitBytes)) used, "
            + "\(Units.bytes(cache.freeBytes)) free "
            + "(\(Units.bytes(cache.freeFloorBytes)) stay free)"
    }

    private var daemon: String {
        "pid \(status.pid), version \(status.version), "
            + "mounted \(Units.moment(status.since))"
    }

    static func connection(_ connection: DriveStatus.Connection) -> String {
        let age = connection.since.map(Units.age) ?? 0
        let span = age > 0 ? " for \(Units.span(seconds: age))" : ""
        switch connection.state {
        case .online: return "online"
        case .offline: return "offline\(span)\(connection.reason.map { ": \($0)" } ?? "")"
        case .paused: return "paused\(span)"
        }
    }

    static func style(_ connection: DriveStatus.Connection) -> Style {
        switch connection.state {
        case .online: .green
        case .offline: .red
        case .paused: .yellow
        }
    }

    static func mode(_ mode: DriveStatus.Mode) -> String {
        mode.reason.isEmpty ? mode.name : "\(mode.name): \(mode.reason)"
    }
}
