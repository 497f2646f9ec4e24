import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct RestartCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "restart",
        abstract: "Has a new daemon take over a drive while programs go on using it.",
        discussion: """
            The new one is of the version that is installed now, with the options of the mount. If \
            it does not come up, the old one goes on. On kernels before Linux 6.9 the drive is \
            unmounted and mounted again instead.
            """
    )

    @OptionGroup var drive: DriveArgument

    func run() async throws {
        let status = try await drive.client().restart()
        Terminal.output.line(
            "\(status.mountpoint.printable): served by pid \(status.worker), "
                + "version \(status.version)"
        )
    }
}
