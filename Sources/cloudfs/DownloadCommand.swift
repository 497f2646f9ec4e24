import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct DownloadCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "download",
        abstract: "Brings files to this machine now, and shows how far it is.",
        discussion: """
            A folder means everything in it. On a terminal there is a bar; Ctrl-C ends the bar and \
            not the download. Downloaded files can be evicted again when space is needed; \
            `cloudfs pin` keeps them.
            """
    )

    @Argument(help: "Files and folders in a drive.", completion: .file())
    var paths: [String]

    @Flag(help: "Return at once; the downloads go on.")
    var noWait = false

    func run() async throws {
        var isDone = true
        var begun: [Targets] = []
        for group in try Targets.find(paths) {
            let results = try await group.client.download(group.paths)
            if !group.report(results) { isDone = false }
            let started = Set(results.filter(\.done).map(\.path))
            begun.append(group.filtered { started.contains($0) })
        }
        if !noWait {
            let note = "The downloads go on; `cloudfs status` shows them."
            let interrupt = InterruptNote(note)
            defer { interrupt.cancel() }
            for group in begun where !group.paths.isEmpty {
                if try await !watch(group) { isDone = false }
            }
        }
        guard isDone else { throw ExitCode.failure }
    }

    /// Shows the progress until nothing more will come; whether all of it came.
    private func watch(_ group: Targets) async throws -> Bool {
        var bar = ProgressBar()
        var finished: Set<DrivePath> = []
        var isDone = true
        var isToldOffline = false
        defer { bar.clear() }
        while true {
            let downloads = try await group.client.downloadProgress(group.paths)
            for download in downloads where download.isFinished {
                guard finished.insert(download.path).inserted else { continue }
                bar.clear()
                if !report(download, group) { isDone = false }
            }
            if downloads.allSatisfy(\.isFinished) { return isDone }
            let state = try await group.client.status().connection.state
            guard state != .paused else {
                bar.clear()
                Terminal.errors.line("downloads are paused: cloudfs resume lets them go")
                return false
            }
            if Terminal.errors.isWatched {
                show(downloads, isOffline: state == .offline, in: &bar)
            } else if state == .offline, !isToldOffline {
                isToldOffline = true
                Terminal.errors.line(Self.offline)
            }
            // Summing up a large folder costs the daemon something, a bar needs few steps.
            try await Task.sleep(for: .milliseconds(Terminal.errors.isWatched ? 250 : 1_000))
        }
    }

    private static let offline = "the cloud cannot be reached; waiting for it"

    private func show(_ downloads: [DownloadStatus], isOffline: Bool, in bar: inout ProgressBar) {
        let sum = Self.sum(downloads)
        let note = "\(Units.bytes(sum.local)) of \(Units.bytes(sum.bytes))"
        bar.show(
            done: sum.local,
            of: sum.bytes,
            note: isOffline ? "\(note); \(Self.offline)" : note
        )
    }

    private func report(_ download: DownloadStatus, _ group: Targets) -> Bool {
        let name = group.shown(download.path).printable
        guard download.filesFailed == 0 else {
            let reason = download.error?.printable ?? "the download failed"
            let count =
                download.files > 1 ? " (\(download.filesFailed) of \(download.files) files)" : ""
            Terminal.errors.line("\(name): \(reason)\(count)")
            return false
        }
        guard download.filesDone >= download.files else {
            let count = "\(download.filesDone) of \(Units.count(download.files, "file"))"
            Terminal.errors.line(
                "\(name): \(count) are here: others gave way again, or are new; see cache-size"
            )
            return false
        }
        Terminal.output.line("\(name): \(Units.bytes(download.bytes))")
        return true
    }

    private static func sum(_ downloads: [DownloadStatus]) -> (local: Int64, bytes: Int64) {
        downloads.reduce((0, 0)) { ($0.0 + $1.localBytes, $0.1 + $1.bytes) }
    }
}

extension Targets {
    /// The same with the paths that are to be kept.
    func filtered(_ keeps: (DrivePath) -> Bool) -> Targets {
        var kept = self
        kept.keep(keeps)
        return kept
    }
}
