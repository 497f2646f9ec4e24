import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct ClaimsCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "claims",
        abstract: "Shows who uses which items, and who waits for whom.",
        discussion: """
            A program that has a file open for writing holds it (plain). Programs that coordinate \
            hold what they asked for, to read or to write. A claim that its program does not give \
            back can be taken from it with --end; the program is told.
            """
    )

    @OptionGroup var drive: DriveArgument

    @Option(help: ArgumentHelp("Take this claim from its program.", valueName: "number"))
    var end: UInt64?

    @Flag(help: "Write JSON: an array of what docs/control-api.md describes.")
    var json = false

    func run() async throws {
        let client = try drive.client()
        if let end { return try await client.endClaim(end) }
        let list = try await client.claims()
        if json { return try Terminal.output.json(list) }
        let hasNews = !list.presenters.isEmpty || !list.leases.isEmpty
        guard !list.claims.isEmpty || hasNews else {
            return Terminal.output.line("nobody uses anything")
        }
        if !list.claims.isEmpty { Self.table(list.claims).write() }
        for lease in list.leases {
            let path = lease.path?.description ?? "an item that is gone"
            let device = lease.isOwn ? "this device" : lease.device
            Terminal.output.line("\(device) writes \(path): \(lease.process)".printable)
        }
        for presenter in list.presenters {
            let path = presenter.path?.description ?? "an item that is gone"
            let silence = presenter.isSilent ? "; does not answer" : ""
            Terminal.output.line(
                "presented by \(presenter.holder.text): \(path)\(silence)".printable
            )
        }
    }

    static func table(_ claims: [ClaimStatus]) -> Table {
        var table = Table([
            .init(title: "CLAIM", isRightAligned: true), .init(title: "STATE"),
            .init(title: "SINCE"), .init(title: "WHO"), .init(title: "WHAT"),
            .init(title: "WAITS FOR"),
        ])
        for claim in claims {
            let age = claim.ageSeconds.map { Units.span(seconds: Int64($0)) } ?? ""
            table.add([
                .init("\(claim.id)"),
                .init(claim.isHeld ? "holds" : "waits", claim.isHeld ? .plain : .yellow),
                .init(age),
                .init(claim.holder.text),
                .init(claim.intents.map(\.text).joined(separator: ", ")),
                .init(claim.behind.map(\.text).joined(separator: ", ")),
            ])
        }
        return table
    }
}

extension ClaimIntent {
    fileprivate var text: String {
        let words = options.map(\.rawValue).joined(separator: " ")
        return "\(access.rawValue) \(path)" + (words.isEmpty ? "" : " (\(words))")
    }
}

extension ClaimStatus.Holder {
    /// Who it is, in a few words.
    var text: String {
        switch kind {
        case .drive: "the drive"
        case .plain, .program:
            "\(command.isEmpty ? "a program that is gone" : command) (\(process))"
        }
    }
}
