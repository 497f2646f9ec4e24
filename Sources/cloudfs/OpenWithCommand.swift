import ArgumentParser
import CLinux
import CloudFSClient
import CloudFSControlAPI
import Foundation
import Glibc

struct OpenWithCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "open-with",
        abstract: "Lists the applications that can open a file, or opens it with one of them.",
        discussion: """
            Applications are those of the desktop that open the file's type, or what it is a kind \
            of: a program for texts opens Markdown, too. The first is what the desktop would take. \
            A viewer shows documents, an editor may change them. \
            The file is downloaded when the application reads it.
            """
    )

    @Argument(help: "A file in a drive.", completion: .file())
    var file: String

    @Argument(help: "The name of an application, as it is listed, or of its desktop entry.")
    var application: String?

    @Option(help: "Only applications of a role: editor or viewer.")
    var role: Role?

    /// `DesktopEntry.Role`, as an argument.
    enum Role: String, ExpressibleByArgument, CaseIterable {
        case editor
        case viewer
    }

    @Flag(help: "Wait until the application ends, and return its exit status.")
    var wait = false

    @Flag(help: "Write JSON: an array of applications.")
    var json = false

    /// An application as it is listed.
    private struct Listed: Encodable {
        var id: String
        var name: String
        var role: DesktopEntry.Role
        var isDefault: Bool
    }

    func validate() throws {
        guard role == nil || application == nil else {
            throw ValidationError("--role chooses what is listed, not how an application opens it")
        }
    }

    func run() async throws {
        let item = try await item()
        let type = item.contentType ?? "application/octet-stream"
        let applications = ApplicationList.installed()
        guard let name = application else {
            return try list(applications.applications(for: type), type)
        }
        guard let chosen = applications.application(named: name) else {
            throw ValidationError(
                "there is no application \"\(name)\"; cloudfs open-with FILE lists some"
            )
        }
        try await open(chosen)
    }

    private func item() async throws -> ItemStatus {
        let groups = try Targets.find([file])
        guard let group = groups.first else { throw ExitCode.failure }
        let page = try await group.client.items(ItemQuery(paths: group.paths))
        guard group.report(page.failures), let item = page.items.first else {
            throw ExitCode.failure
        }
        return item
    }

    private func list(_ all: [DesktopEntry], _ type: String) throws {
        let applications = all.filter { role == nil || $0.role.rawValue == role?.rawValue }
        if json {
            let listed = applications.map { entry in
                Listed(
                    id: entry.id,
                    name: entry.name,
                    role: entry.role,
                    isDefault: entry.id == all.first?.id
                )
            }
            return try Terminal.output.json(listed)
        }
        guard !applications.isEmpty else {
            let kind = role.map(\.rawValue) ?? "application"
            Terminal.errors.line("cloudfs: no \(kind) opens \(type.printable)")
            throw ExitCode.failure
        }
        var table = Table([
            .init(title: "APPLICATION"), .init(title: "ROLE"), .init(title: "ENTRY"),
        ])
        for entry in applications {
            table.add([.init(entry.name), .init(entry.role.rawValue), .init(entry.id, .faint)])
        }
        table.write()
    }

    private func open(_ entry: DesktopEntry) async throws {
        let words = entry.command(opening: try Self.absolute(file))
        if let folder = entry.workingFolder, chdir(folder) != 0 {
            let reason = String(cString: strerror(errno))
            Terminal.errors.line("cloudfs: \(folder.printable): \(reason)")
            throw ExitCode.failure
        }
        // One that needs a terminal has this one.
        if wait || entry.needsTerminal {
            throw ExitCode(try await ChildCommand(words).run())
        }
        try DetachedCommand.start(words)
    }

    private static func absolute(_ path: String) throws -> String {
        guard !path.hasPrefix("/") else { return path }
        guard let folder = getcwd(nil, 0) else { throw ExitCode.failure }
        defer { free(folder) }
        return String(cString: folder) + "/" + path
    }
}

/// A command that goes on by itself, with no terminal.
enum DetachedCommand {
    /// - Throws: `ExitCode` 127 if there is no such command, and 126 if it cannot be run.
    static func start(_ words: [String]) throws {
        var attributes = posix_spawnattr_t()
        posix_spawnattr_init(&attributes)
        defer { posix_spawnattr_destroy(&attributes) }
        attributes.blockNoSignals()
        // A group of its own: Ctrl-C, and the end of this terminal, are not meant for it.
        posix_spawnattr_setflags(
            &attributes,
            Int16(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK)
        )
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        for (descriptor, flags) in [(0, O_RDONLY), (1, O_WRONLY), (2, O_WRONLY)] {
            posix_spawn_file_actions_addopen(&actions, Int32(descriptor), "/dev/null", flags, 0)
        }
        // Connections to drives end with this process.
        clinux_spawn_close_from(&actions, 3)
        var arguments = words.map { strdup($0) } + [nil]
        defer { for argument in arguments { free(argument) } }
        var child = pid_t()
        let result = posix_spawnp(&child, words[0], &actions, &attributes, &arguments, environ)
        guard result == 0 else {
            let reason = String(cString: strerror(result))
            Terminal.errors.line("cloudfs: \(words[0].printable): \(reason)")
            throw ExitCode(result == ENOENT ? 127 : 126)
        }
    }
}
