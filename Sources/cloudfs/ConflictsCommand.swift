import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Shows and ends conflicts: documents that were changed in two places at once.",
        discussion: """
            All versions are files in the same folder, which any program can open. To end a \
            conflict, keep one version or all of them, or merge them first. Removing or renaming \
            the versions does the same. Other devices hear of it.
            """,
        subcommands: [
            ListConflicts.self, ShowConflict.self, KeepVersion.self, MergeVersions.self,
        ],
        defaultSubcommand: ListConflicts.self
    )
}

struct ListConflicts: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "list",
        abstract: "Shows the documents of a drive that have several versions."
    )

    @OptionGroup var drive: DriveArgument

    @Flag(help: "Write JSON: an array of what docs/control-api.md describes.")
    var json = false

    func run() async throws {
        let conflicts = try await drive.client().allConflicts()
        if json { return try Terminal.output.json(conflicts) }
        guard !conflicts.isEmpty else { return Terminal.output.line("no conflicts") }
        for conflict in conflicts {
            let name = conflict.path.description.printable
            Terminal.output.line(Terminal.output.hasColour ? Style.bold.applied(to: name) : name)
            for version in conflict.versions {
                Terminal.output.line("  \(version.path.description.printable)")
                Terminal.output.line("    \(version.facts)")
            }
        }
    }
}

extension ConflictGroup.Version {
    /// Who wrote it, when, and how large it is.
    fileprivate var facts: String {
        let device = device.map { "from \($0), " } ?? ""
        return "\(device)\(Units.moment(modified)), \(Units.bytes(size))".printable
    }
}

/// One document in conflict, found by the path of any of its versions.
private struct Conflict {
    let target: Targets
    let group: ConflictGroup

    /// - Throws: `DriveClientError`; `NoConflict` if it has no other versions.
    init(_ path: String) async throws {
        target = try Targets.find([path])[0]
        let named = target.paths[0]
        group = try await target.client.conflictVersions(of: named)
        guard !group.versions.isEmpty else { throw NoConflict(path: path) }
    }

    /// The document, then its versions.
    var paths: [DrivePath] { [group.path] + group.versions.map(\.path) }

    /// As programs of this machine name it.
    func file(_ path: DrivePath) -> String {
        let names = path.names.map { String(decoding: $0, as: UTF8.self) }
        return ([target.drive.mountpoint] + names).joined(separator: "/")
    }

    /// Ends it; versions that have come since are nothing that the user has decided about.
    func resolve(
        _ path: DrivePath,
        _ keep: ConflictResolution.Keep
    ) async throws -> ConflictOutcome {
        try await target.client.resolve(path, keeping: keep, of: group.versions.map(\.path))
    }

    /// Runs `work` while nobody else uses any of the versions.
    func holdingAll<Value>(_ work: () async throws -> Value) async throws -> Value {
        let order = ClaimOrder(
            intents: paths.map { ClaimIntent(path: $0, access: .write, options: []) }
        )
        let claim = try await HeldClaim.wait(for: order, of: target.client)
        defer { claim.end() }
        return try await work()
    }
}

private struct NoConflict: Error, CustomStringConvertible {
    let path: String

    var description: String { "\(path.printable) has no other versions" }
}

struct ShowConflict: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "show",
        abstract: "Shows the versions of a document, and with --diff what differs.",
        discussion: "The exit status with --diff is 1 if the versions differ, as that of diff."
    )

    @Argument(help: "The document, or one of its versions.", completion: .file())
    var file: String

    @Flag(help: "Compare each version with the document, as diff -ru does; this downloads them.")
    var diff = false

    func run() async throws {
        let comparison = ChildCommand(["diff", "-ru", "--"])
        let conflict = try await Conflict(file)
        guard diff else {
            Terminal.output.line(conflict.file(conflict.group.path).printable)
            for version in conflict.group.versions {
                Terminal.output.line(conflict.file(version.path).printable)
                Terminal.output.line("  \(version.facts)")
            }
            return
        }
        var status: Int32 = 0
        for version in conflict.group.versions {
            let files = [conflict.group.path, version.path].map(conflict.file)
            status = max(status, try await comparison.with(files).run())
        }
        throw ExitCode(status)
    }
}

struct KeepVersion: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "keep",
        abstract: "Keeps one version as the document, or with --all each as one of its own.",
        discussion: """
            The version named gets the document's name, and the others are removed. With --all \
            nothing is removed: each version gets a name of its own.
            """
    )

    @Argument(help: "The document, or one of its versions.", completion: .file())
    var file: String

    @Flag(help: "Keep every version, as documents of their own.")
    var all = false

    func run() async throws {
        let conflict = try await Conflict(file)
        let outcome = try await conflict.holdingAll {
            try await conflict.resolve(conflict.target.paths[0], all ? .all : .this)
        }
        outcome.write(conflict)
    }
}

extension ConflictOutcome {
    fileprivate func write(_ conflict: Conflict) {
        if renamed.isEmpty { Terminal.output.line("kept: \(conflict.file(path).printable)") }
        for path in renamed { Terminal.output.line("kept: \(conflict.file(path).printable)") }
        for path in removed { Terminal.output.line("removed: \(conflict.file(path).printable)") }
    }
}

struct MergeVersions: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "merge",
        abstract: "Runs a program that merges the versions into the document.",
        usage: "cloudfs conflicts merge FILE -- COMMAND [ARGUMENT]...",
        discussion: """
            The command gets the document and then its versions as further arguments, and is to \
            change the document. If it exits with 0, the versions are removed; otherwise all stay, \
            and its status is the exit status. Meanwhile no other coordinated program, no upload \
            and no newer version comes in between. With vimdiff, leave with :cq to give up.

            cloudfs conflicts merge plan.txt -- meld
            """
    )

    @Argument(help: "The document, or one of its versions.", completion: .file())
    var file: String

    @Argument(parsing: .postTerminator, help: "The command to run.")
    var command: [String] = []

    mutating func validate() throws {
        guard !command.isEmpty else {
            throw ValidationError("name a command after --, such as: -- meld")
        }
    }

    func run() async throws {
        let command = ChildCommand(command)
        let conflict = try await Conflict(file)
        let child = command.with(conflict.paths.map(conflict.file))
        let status = try await conflict.holdingAll {
            let status = try await child.run()
            guard status == 0 else { return status }
            try await conflict.resolve(conflict.group.path, .this).write(conflict)
            return status
        }
        throw ExitCode(status)
    }
}
