import ArgumentParser
import CloudFSControlAPI

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
            PinCommand.self,
            UnpinCommand.self,
            EvictCommand.self,
            DownloadCommand.self,
            RefreshCommand.self,
            CheckCommand.self,
            DrainCommand.self,
            QueueCommand.self,
            ConflictsCommand.self,
            MountsCommand.self,
            PauseCommand.self,
            ResumeCommand.self,
            LoginCommand.self,
            UnmountCommand.self,
        ]
    )
}
