import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct QueueCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "queue",
        abstract: "Shows the outbox: what was changed here and the cloud does not have yet.",
        discussion: """
            waiting: not its turn yet, or the file is still being written. retrying: failed and is \
            tried again. failed: needs your doing, the error says what.
            """
    )

    @OptionGroup var drive: DriveArgument

    @Flag(help: "Write JSON: an array of what docs/control-api.md describes.")
    var json = false

    func run() async throws {
        let client = try drive.client()
        var entries: [OutboxPage.Entry] = []
        var request = PageRequest()
        var counts = OutboxCounts.none
        repeat {
            let page = try await client.outbox(request)
            entries += page.entries
            counts = page.counts
            request.after = page.next
        } while request.after != nil
        if json { return try Terminal.output.json(entries) }
        if !entries.isEmpty { Self.table(entries).write() }
        Terminal.output.line(Units.outbox(counts))
        if entries.contains(where: { $0.state == .retrying || $0.state == .failed }) {
            Terminal.output.line("to try what failed again now: cloudfs drain")
        }
    }

    static func table(_ entries: [OutboxPage.Entry]) -> Table {
        var table = Table([
            .init(title: "STATE"), .init(title: "CHANGE"),
            .init(title: "SIZE", isRightAligned: true), .init(title: "TRIES", isRightAligned: true),
            .init(title: "NEXT"), .init(title: "PATH"), .init(title: "ERROR"),
        ])
        for entry in entries {
            let share = " \(Units.percent(entry.sentBytes, of: entry.bytes)) %"
            table.add([
                .init(
                    entry.state.rawValue + (entry.state == .uploading ? share : ""),
                    entry.state == .failed ? .red : entry.state == .uploading ? .blue : .plain
                ),
                .init(entry.operation.rawValue),
                .init(entry.bytes > 0 ? Units.bytes(entry.bytes) : ""),
                .init(entry.attempts > 0 ? "\(entry.attempts)" : ""),
                .init(entry.nextAttempt.map(next) ?? ""),
                .init(entry.path.description),
                .init(entry.lastError ?? "", .red),
            ])
        }
        return table
    }

    private static func next(_ attempt: WireTime) -> String {
        let seconds = -Units.age(attempt)
        return seconds > 0 ? "in \(Units.span(seconds: seconds))" : "now"
    }
}
