import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct ConflictsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "conflicts",
        abstract: "Shows the documents that were changed in two places at once.",
        discussion: """
            Both versions are files in the same folder. To resolve: look at both, keep what you \
            want under the first name, delete the other file.
            """
    )

    @OptionGroup var drive: DriveArgument

    @Flag(help: "Write JSON, as docs/control-api.md describes it.")
    var json = false

    func run() async throws {
        let client = try drive.client()
        var conflicts: [ConflictGroup] = []
        var request = PageRequest()
        repeat {
            let page = try await client.conflicts(request)
            conflicts += page.conflicts
            request.after = page.next
        } while request.after != nil
        if json { return try Terminal.output.json(conflicts) }
        guard !conflicts.isEmpty else { return Terminal.output.line("no conflicts") }
        for conflict in conflicts {
            let name = conflict.path.description.printable
            Terminal.output.line(Terminal.output.hasColour ? Style.bold.applied(to: name) : name)
            for version in conflict.versions {
                let device = version.device.map { "from \($0), " } ?? ""
                let facts =
                    "\(device)\(Units.moment(version.modified)), "
                    + Units.bytes(version.size)
                Terminal.output.line("  \(version.path.description.printable)")
                Terminal.output.line("    \(facts.printable)")
            }
        }
    }
}
