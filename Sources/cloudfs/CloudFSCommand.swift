import ArgumentParser
import CloudFSClient
import CloudFSControlAPI
import Glibc

/// The user's command: asks the drives that are mounted, and tells them what to do.
@main
struct CloudFSCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "cloudfs",
        abstract: "Shows and steers the drives that cloudfs-mount has mounted.",
        discussion: """
            A drive is found from any path in it. Commands that take no path of an item use the \
            drive of the working folder, or the only drive there is.

            States of an item: cloud (nothing here), downloading, partial, local (all here), \
            modified (changed here and not sent yet), uploading, conflict (several versions), \
            error, excluded (kept out of the cloud).

            Exit status: 0 done, 1 could not be done or not for every item, 64 wrong usage.
            Colours are used on a terminal, unless NO_COLOR is set.
            """,
        version: ControlAPI.productVersion,
        subcommands: [
            StatusCommand.self,
            QueryCommand.self,
            OpenWithCommand.self,
            PinCommand.self,
            UnpinCommand.self,
            EvictCommand.self,
            DownloadCommand.self,
            RefreshCommand.self,
            CheckCommand.self,
            DrainCommand.self,
            QueueCommand.self,
            ConflictsCommand.self,
            CoordinateCommand.self,
            ClaimsCommand.self,
            BookmarkCommand.self,
            ActivityCommand.self,
            MountsCommand.self,
            PauseCommand.self,
            ResumeCommand.self,
            LoginCommand.self,
            RestartCommand.self,
            UnmountCommand.self,
        ]
    )

    static func main() async {
        do {
            try checkName(in: Array(CommandLine.arguments.dropFirst()))
            var command = try parseAsRoot()
            guard var work = command as? any AsyncParsableCommand else { return try command.run() }
            if !(work is UnmountCommand) { try detachDeadMounts() }
            try await work.run()
        } catch {
            guard let message = message(of: error) else { exit(withError: error) }
            Terminal.errors.line(message)
            Glibc.exit(exitCode(for: error).rawValue)
        }
    }

    /// Refuses a command that there is not: the parser shows all of the help where its help is
    /// asked for, and takes it for an argument else.
    static func checkName(in arguments: [String]) throws {
        var commands = configuration.subcommands
        // Behind a command's name its own commands and arguments look alike.
        let words = arguments.first == "help" ? arguments.dropFirst() : arguments.prefix(1)
        for word in words.prefix(while: { !$0.hasPrefix("-") && $0 != "help" }) {
            guard let command = commands.first(where: { $0.configuration.commandName == word })
            else { throw ValidationError("there is no command \(word)") }
            commands = command.configuration.subcommands
        }
    }

    /// What is said of a failure, by whom: names in it are somebody else's text.
    ///
    /// - Returns: `nil` for what is none, such as help that was asked for, or has no words.
    static func message(of error: any Error) -> String? {
        var text = fullMessage(for: error)
        guard !exitCode(for: error).isSuccess, !text.isEmpty else { return nil }
        let label = "Error: "
        if text.hasPrefix(label) { text = "cloudfs: " + text.dropFirst(label.count) }
        let lines = text.split(separator: "\n", omittingEmptySubsequences: false)
        return lines.map { String($0).printable }.joined(separator: "\n")
    }

    /// A mount that nobody serves is in everybody's way, and no command has a use for it.
    private static func detachDeadMounts() throws {
        for mountpoint in try DeadMounts.detachAll(.current()) {
            Terminal.errors.line(
                "\(mountpoint.printable) had lost its daemon, and is detached; "
                    + "mount it again as before (`cloudfs mounts` says how), nothing is lost"
            )
        }
    }
}
