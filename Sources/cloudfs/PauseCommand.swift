import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct PauseCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pause",
        abstract: "Stops uploads and background downloads until `cloudfs resume`.",
        discussion: """
            Files can be used all the while: what programs read comes, and what is changed waits \
            in the outbox. Changes of others are still seen.
            """
    )

    @OptionGroup var drive: DriveArgument

    func run() async throws {
        let status = try await drive.client().pause()
        Terminal.output.line(
            "\(status.mountpoint.printable): \(DriveDescription.connection(status.connection))"
        )
    }
}
