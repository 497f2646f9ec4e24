import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct DrainCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Sends what waits, and says whether the cloud has everything.",
        discussion: """
            Exit status 0: nothing is left to send. 1: something remains or failed, and is named. \
            With --wait the command returns when that is known or the time is over.
            """
    )

    @OptionGroup var drive: DriveArgument

    @Flag(help: "Wait until everything is sent or has failed.")
    var wait = false

    @Option(help: "How long to wait: 30, 30s, 5m, 2h. By default, as long as it takes.")
    var timeout: Span?

    mutating func validate() throws {
        guard timeout == nil || wait else {
            throw ValidationError("--timeout is for --wait")
        }
    }

    func run() async throws {
        let client = try drive.client()
        let isPaused = try await client.status().connection.state == .paused
        let waits = wait && !isPaused
        let remaining = try await Self.drain(client, timeout: waits ? timeout?.duration : .zero)
        guard remaining.total > 0 else {
            return Terminal.output.line("everything is sent")
        }
        Terminal.errors.line("not sent: \(Units.outbox(remaining))")
        try await Self.nameWhatRemains(client)
        if isPaused {
            Terminal.errors.line("uploads are paused: cloudfs resume lets them go")
        } else if !wait, remaining.failed < remaining.total {
            Terminal.errors.line("to wait for it: cloudfs drain --wait")
        }
        throw ExitCode.failure
    }

    /// Drains with a line of progress on a terminal.
    ///
    /// - Parameter note: What is said if Ctrl-C ends that.
    static func drain(
        _ client: DriveClient,
        timeout: Duration?,
        note: String = "Sending goes on; `cloudfs queue` shows it."
    ) async throws -> OutboxCounts {
        guard Terminal.errors.isWatched, timeout != .zero else {
            return try await client.drain(timeout: timeout)
        }
        let interrupt = InterruptNote(note)
        defer { interrupt.cancel() }
        // Ends with this function.
        async let _ = show(client)
        return try await client.drain(timeout: timeout)
    }

    /// Shows every second what is left, until the task is cancelled.
    private static func show(_ client: DriveClient) async throws {
        var bar = ProgressBar()
        defer { bar.clear() }
        while !Task.isCancelled {
            let status = try await client.status()
            let isOffline = status.connection.state == .offline
            let note = isOffline ? "the cloud cannot be reached; waiting for it; " : ""
            bar.show("\(note)to send: \(Units.outbox(status.outbox))")
            try await Task.sleep(for: .seconds(1))
        }
    }

    /// Names the first changes that are left; `cloudfs queue` has all of them.
    static func nameWhatRemains(_ client: DriveClient) async throws {
        let page = try await client.outbox(PageRequest(limit: 20))
        for entry in page.entries {
            let error = entry.lastError.map { ": \($0)" } ?? ""
            let text = "\(entry.state.rawValue) \(entry.path)\(error)"
            Terminal.errors.line("  \(text.printable)")
        }
        if page.next != nil { Terminal.errors.line("  and more: cloudfs queue") }
    }
}
