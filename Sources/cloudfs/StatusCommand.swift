import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct StatusCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "status",
        abstract: "Shows drives, or items and how much of them is here.",
        discussion: """
            Without a path: the drive of the working folder, or a table of all drives. With paths: \
            one line for each; a folder shows the sums of everything in it.
            """
    )

    @Argument(help: "Files and folders in a drive.", completion: .file())
    var paths: [String] = []

    @Flag(name: .shortAndLong, help: "Show what is in the folders instead of their sums.")
    var list = false

    @Flag(name: .shortAndLong, help: "Show everything below the folders.")
    var recursive = false

    @Flag(help: "Show all drives, also when the working folder is in one.")
    var all = false

    @Flag(help: "Write JSON, as docs/control-api.md describes it.")
    var json = false

    mutating func validate() throws {
        guard !all || paths.isEmpty else {
            throw ValidationError("--all shows drives, so it takes no paths")
        }
    }

    func run() async throws {
        guard paths.isEmpty else { return try await showItems() }
        let locator = try DriveLocator.current()
        if !all, !list, !recursive, let drive = try Self.drive(of: ".", locator) {
            try drive.requireDaemon()
            if json { return try await MountsCommand.show([drive], json: true) }
            let status = try await DriveClient(drive).status()
            for line in DriveDescription(status).lines(hasColour: Terminal.output.hasColour) {
                Terminal.output.line(line)
            }
            return
        }
        if list || recursive {
            return try await showItems(["."])
        }
        try await MountsCommand.show(json: json)
    }

    private static func drive(of path: String, _ locator: DriveLocator) throws -> DriveAddress? {
        do throws(DriveClientError) {
            return try locator.location(of: path).drive
        } catch {
            guard case .notInDrive = error else { throw error }
            return nil
        }
    }

    private func showItems(_ defaults: [String] = []) async throws {
        let depth: ItemQuery.Depth = recursive ? .all : list ? .children : .named
        var items: [(status: ItemStatus, shown: String)] = []
        var isComplete = true
        for group in try Targets.find(paths.isEmpty ? defaults : paths) {
            try await group.client.forEachItem(group.paths, depth: depth) { page in
                if !group.report(page.failures) { isComplete = false }
                items += page.items.map { ($0, group.shown($0.path)) }
            }
        }
        // What is in one folder comes in the order in which it became known.
        if depth == .children { items.sort { $0.shown < $1.shown } }
        if json {
            try Terminal.output.json(items.map(\.status))
        } else if !items.isEmpty {
            var table = ItemTable()
            for item in items { table.add(item.status, shown: item.shown) }
            table.write()
        }
        guard isComplete else { throw ExitCode.failure }
    }
}

/// Items as lines of a table.
struct ItemTable: Sendable {
    private(set) var table = Table([
        .init(title: "STATUS"), .init(title: "LOCAL", isRightAligned: true),
        .init(title: "SIZE", isRightAligned: true), .init(title: "PIN"), .init(title: "PATH"),
        .init(title: "NOTE"),
    ])

    var isEmpty: Bool { table.rows.isEmpty }

    mutating func add(_ item: ItemStatus, shown path: String) {
        let size = item.totals?.bytes ?? item.size
        let local = item.totals?.localBytes ?? item.localBytes
        table.add([
            .init(item.status.rawValue, item.status.style),
            .init(Self.share(item, local: local, size: size)),
            .init(item.kind == .file || item.totals != nil ? Units.bytes(size) : ""),
            .init(Self.pin(item.pin)),
            .init(path + (item.kind == .folder && !path.hasSuffix("/") ? "/" : ""), .plain),
            .init(Self.note(item), item.error == nil ? .faint : .red),
        ])
    }

    func write() {
        table.write()
    }

    private static func share(_ item: ItemStatus, local: Int64, size: Int64) -> String {
        switch item.kind {
        case .file: "\(Int(item.percentDownloaded)) %"
        case .folder where item.totals != nil: "\(Units.percent(local, of: size)) %"
        case .folder, .symlink, .fifo, .socket: ""
        }
    }

    private static func pin(_ pin: PinState) -> String {
        switch (pin.own, pin.effective) {
        case (.inherit, .onDemand), (.inherit, .inherit): ""
        case (.inherit, let effective): "(\(effective.rawValue))"
        case (let own, _): own.rawValue
        }
    }

    private static func note(_ item: ItemStatus) -> String {
        var notes: [String] = []
        if let error = item.error { notes.append(error) }
        if let sent = item.percentUploaded { notes.append("\(Int(sent)) % sent") }
        if item.hasConflicts { notes.append("has other versions: cloudfs conflicts") }
        if let totals = item.totals {
            notes.append(Units.count(totals.files, "file"))
            if totals.dirty > 0 { notes.append("\(totals.dirty) to send") }
            if totals.errors > 0 { notes.append(Units.count(totals.errors, "error")) }
        }
        return notes.joined(separator: ", ")
    }
}

extension ItemStatus.State {
    var style: Style {
        switch self {
        case .local: .green
        case .cloud, .excluded: .faint
        case .downloading, .uploading, .partial: .blue
        case .modified: .yellow
        case .conflict, .error: .red
        }
    }
}
