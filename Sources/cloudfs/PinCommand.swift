import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct PinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "pin",
        abstract: "Keeps files on this machine: downloads them and never evicts them.",
        discussion: """
            A folder means everything in it, also what will come into it. The downloads go on in \
            the background; `cloudfs download` of the same paths shows them.
            """
    )

    @Argument(help: "Files and folders in a drive.", completion: .file())
    var paths: [String]

    func run() async throws {
        var isDone = true
        for group in try Targets.find(paths) {
            let results = try await group.client.setPolicy(.pinned, group.paths)
            if !group.report(results) { isDone = false }
        }
        guard isDone else { throw ExitCode.failure }
    }
}

struct UnpinCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "unpin",
        abstract: "Takes back a pin; the files stay here until space is needed.",
        discussion: """
            A file in a pinned folder stays pinned by its folder; --on-demand makes an exception \
            of it.
            """
    )

    @Argument(help: "Files and folders in a drive.", completion: .file())
    var paths: [String]

    @Flag(help: "Do not follow a pinned folder above either.")
    var onDemand = false

    func run() async throws {
        var isDone = true
        for group in try Targets.find(paths) {
            let policy: PinPolicy = onDemand ? .onDemand : .inherit
            let results = try await group.client.setPolicy(policy, group.paths)
            if !group.report(results) { isDone = false }
            let changed = results.filter(\.done).map(\.path)
            try await group.client.forEachItem(changed) { page in
                for item in page.items where item.pin.effective == .pinned {
                    let name = group.shown(item.path).printable
                    Terminal.errors.line("\(name): still pinned by a folder above")
                }
            }
        }
        guard isDone else { throw ExitCode.failure }
    }
}
