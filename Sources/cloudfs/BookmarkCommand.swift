import ArgumentParser
import CloudFSClient
import CloudFSControlAPI

struct BookmarkCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "bookmark",
        abstract: "Finds documents again after they were moved or renamed.",
        discussion: """
            A bookmark is a line of text that leads to a document wherever it is moved in its \
            container, by whatever program and device. Only you can make bookmarks of yours.
            """,
        subcommands: [Create.self, Resolve.self]
    )

    struct Create: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "create",
            abstract: "Writes a bookmark for a file or folder."
        )

        @Argument(help: "A file or folder in a drive.", completion: .file())
        var path: String

        @Flag(help: "Write JSON, as docs/control-api.md describes it.")
        var json = false

        func run() async throws {
            guard let targets = try Targets.find([path]).first, let item = targets.paths.first
            else { return }
            let status = try await targets.client.bookmark(item)
            if json { return try Terminal.output.json(status) }
            Terminal.output.line(status.token)
        }
    }

    struct Resolve: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "resolve",
            abstract: "Writes the present path of a bookmark's document.",
            discussion: """
                The drive must be mounted. Standard error says when the document was moved since, \
                with the bookmark to keep instead.
                """
        )

        @Argument(help: "What cloudfs bookmark create wrote.")
        var token: String

        @Flag(help: "Write JSON: what the drive says, and the path below its mountpoint.")
        var json = false

        private struct Answer: Encodable {
            var path: String
            var status: BookmarkStatus
        }

        func run() async throws {
            let drives = try DriveLocator.current().drives()
            let (drive, status) = try await Bookmark(token: token).find(in: drives)
            if json {
                let path =
                    drive.mountpoint + (status.path.isRoot ? "" : "/\(status.path.description)")
                try Terminal.output.json(Answer(path: path, status: status))
            } else {
                let below = status.path.isRoot ? [] : [UInt8(ascii: "/")] + status.path.bytes
                Terminal.output.path(Array(drive.mountpoint.utf8) + below)
            }
            guard status.isStale else { return }
            let what =
                status.foundBy == .path
                ? "the document is gone, this is what has its path now" : "it was moved"
            Terminal.errors.line("\(what); keep this bookmark instead: \(status.token)")
        }
    }
}
