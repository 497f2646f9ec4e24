import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct ResumeCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "resume",
        abstract: "Ends a pause: uploads and downloads go on."
    )

    @OptionGroup var drive: DriveArgument

    func run() async throws {
        let status = try await drive.client().resume()
        Terminal.output.line(
            "\(status.mountpoint.printable): \(DriveDescription.connection(status.connection))"
        )
    }
}
