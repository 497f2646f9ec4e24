import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct ActivityCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "activity",
        abstract: "Shows which programs had content downloaded, and which were refused.",
        discussion: """
            Thumbnailers, indexers and backups get what is here, and no downloads: who they are, \
            and how to change that, is in docs/who-may-hydrate.md. Counts begin when the drive's \
            daemon starts.
            """
    )

    @OptionGroup var drive: DriveArgument

    @Flag(help: "Write JSON: an array of what docs/control-api.md describes.")
    var json = false

    func run() async throws {
        let report = try await drive.client().activity()
        if json { return try Terminal.output.json(report) }
        guard !report.programs.isEmpty else {
            return Terminal.output.line("no program has asked for content that was not here")
        }
        Self.table(report.programs).write()
    }

    static func table(_ programs: [ActivityReport.Program]) -> Table {
        var table = Table([
            .init(title: "PROGRAM"), .init(title: "PURPOSE"),
            .init(title: "FILES", isRightAligned: true),
            .init(title: "DOWNLOADED", isRightAligned: true),
            .init(title: "REFUSED", isRightAligned: true), .init(title: "LAST"),
        ])
        for program in programs {
            table.add([
                .init(program.program),
                .init(program.purpose == .person ? "" : program.purpose.rawValue),
                .init("\(program.files)"),
                .init(Units.bytes(program.bytes)),
                .init(program.refusedReads > 0 ? "\(program.refusedReads)" : "", .yellow),
                .init(Units.moment(program.last)),
            ])
        }
        return table
    }
}
