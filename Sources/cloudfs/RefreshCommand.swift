import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct RefreshCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "refresh",
        abstract: "Compares folders with the cloud now.",
        discussion: """
            For changes by programs that are no CloudFS, which a drive finds by itself only now \
            and then. A folder is as in the cloud when the command ends; what is below it follows. \
            Without a path: the working folder.
            """
    )

    @Argument(help: "Files and folders in a drive.", completion: .file())
    var paths: [String] = ["."]

    func run() async throws {
        var isDone = true
        for group in try Targets.find(paths) {
            if !group.report(try await group.client.refresh(group.paths)) { isDone = false }
        }
        guard isDone else { throw ExitCode.failure }
    }
}
