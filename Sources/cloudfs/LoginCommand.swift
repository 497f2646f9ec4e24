import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct LoginCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "login",
        abstract: "Gives a drive the keys of its bucket.",
        discussion: """
            Asks for access key and secret key; without a terminal they are the first two lines \
            of standard input. The drive tries them, and keeps them in its state directory, which \
            only you can read, if the server accepts them. It goes on with them at once.
            """
    )

    @OptionGroup var drive: DriveArgument

    func run() async throws {
        let client = try drive.client()
        let container = try await client.status().containerURL
        let prompt = Prompt()
        if prompt.isWatched { Terminal.errors.line("Keys for \(container.printable)") }
        let name = try prompt.line("Access key: ")
        let secret = try prompt.line("Secret key: ", isSecret: true)
        let status = try await client.login(LoginRequest(name: name, secret: secret))
        Terminal.output.line(
            "\(status.mountpoint.printable): \(DriveDescription.connection(status.connection))"
        )
    }
}
