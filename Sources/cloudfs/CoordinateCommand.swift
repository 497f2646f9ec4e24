import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct CoordinateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "coordinate",
        abstract: "Runs a command while nobody else changes, or uses, the items named.",
        usage: "cloudfs coordinate [--read FILE]... [--write FILE]... -- COMMAND [ARGUMENT]...",
        discussion: """
            --read waits until nobody writes the items, brings their content here, and keeps \
            everybody from writing them until the command has ended. --write waits until nobody \
            uses them, and keeps other coordinated programs, uploads and newer versions from the \
            cloud away from them. All items are had at once. The command, and what it starts, may \
            do with them what it likes. Other devices wait too, where the cloud can be asked whose \
            turn it is; where it cannot, a line says so, and the command is run all the same.

            Exit status: that of the command; 75 if the items could not be had in time, 1 for \
            other failures, and then the command was not run.
            """
    )

    @Option(help: ArgumentHelp("An item to read. Repeatable.", valueName: "file"))
    var read: [String] = []

    @Option(help: ArgumentHelp("An item to write. Repeatable.", valueName: "file"))
    var write: [String] = []

    @Option(
        name: .customLong("for"),
        help: ArgumentHelp(
            "What writing means: updating, deleting, moving, merging or replacing.",
            valueName: "aim"
        )
    )
    var aim = Aim.updating

    @Flag(help: "Read what is there, without asking programs that present an item to save first.")
    var withoutChanges = false

    @Option(help: "Programs that name the same purpose do not wait for each other.")
    var purpose: String?

    @Option(help: "How long to wait: 30, 30s, 5m, 2h. Default: 30s.")
    var timeout: Span?

    @Argument(parsing: .postTerminator, help: "The command to run.")
    var command: [String] = []

    enum Aim: String, ExpressibleByArgument, CaseIterable {
        case updating
        case deleting
        case moving
        case merging
        case replacing

        var option: [ClaimIntent.Option] {
            switch self {
            case .updating: []
            case .deleting: [.forDeleting]
            case .moving: [.forMoving]
            case .merging: [.forMerging]
            case .replacing: [.forReplacing]
            }
        }
    }

    mutating func validate() throws {
        guard !read.isEmpty || !write.isEmpty else {
            throw ValidationError("name an item with --read or --write")
        }
        guard !command.isEmpty else {
            throw ValidationError("name a command after --, such as: -- tar cf copy.tar folder")
        }
    }

    func run() async throws {
        let child = ChildCommand(command)
        let orders = try orders()
        var held: [HeldClaim] = []
        var watches: [Task<Void, Never>] = []
        defer {
            for watch in watches { watch.cancel() }
            for claim in held { claim.end() }
        }
        for (client, order) in orders {
            let claim = try await Self.hold(client, order)
            held.append(claim)
            watches.append(
                Task {
                    let reason = await claim.reasonOfLoss()
                    guard !Task.isCancelled else { return }
                    Terminal.errors.line("cloudfs: the items are not held any more: \(reason)")
                }
            )
        }
        throw ExitCode(try await child.run())
    }

    /// One order for each drive, in the order of their mountpoints, as everybody else does it.
    private func orders() throws -> [(DriveClient, ClaimOrder)] {
        let groups = try Targets.find(read + write)
            .sorted { $0.drive.mountpoint < $1.drive.mountpoint }
        return groups.map { group in
            let intents = group.targets.map { target in
                write.contains(target.typed)
                    ? ClaimIntent(path: target.path, access: .write, options: aim.option)
                    : ClaimIntent(
                        path: target.path,
                        access: .read,
                        options: withoutChanges ? [.withoutChanges] : []
                    )
            }
            let order = ClaimOrder(
                intents: intents,
                purpose: purpose,
                timeoutSeconds: timeout.map { $0.duration / .seconds(1) }
            )
            return (group.client, order)
        }
    }

    private static func hold(
        _ client: DriveClient,
        _ order: ClaimOrder
    ) async throws -> HeldClaim {
        do {
            return try await HeldClaim.wait(for: order, of: client) { event in
                guard let lack = event.withoutTurn else { return }
                Terminal.errors.line(
                    "cloudfs: other devices do not wait for this one: \(lack.printable)"
                )
            }
        } catch DriveClientError.failure(let failure) where failure.code == "timedOut" {
            Terminal.errors.line("cloudfs: \(failure.message.printable); see: cloudfs claims")
            throw ExitCode(75)
        }
    }
}
