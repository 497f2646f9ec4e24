import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct EvictCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "evict",
        abstract: "Frees the space of files that are in the cloud too.",
        discussion: """
            The files stay visible and are downloaded again when they are read. A file that is \
            open, pinned or not sent yet is refused, with the reason; then the exit status is 1.
            """
    )

    @Argument(help: "Files in a drive, and folders with -r.", completion: .file())
    var paths: [String]

    @Flag(name: .shortAndLong, help: "Evict everything below the folders.")
    var recursive = false

    @Flag(name: .shortAndLong, help: "Name every file that was evicted.")
    var verbose = false

    func run() async throws {
        var isDone = true
        var evictedCount: Int64 = 0
        for group in try Targets.find(paths) {
            let results = try await group.client.evict(group.paths, recursive: recursive)
            for result in results where result.done {
                evictedCount += 1
                if verbose { Terminal.output.line(group.shown(result.path).printable) }
            }
            if !group.report(results) { isDone = false }
        }
        if recursive { Terminal.output.line("evicted: \(Units.count(evictedCount, "file"))") }
        guard isDone else { throw ExitCode.failure }
    }
}
