import ArgumentParser
import CloudFSClient
import CloudFSControlAPI
import Glibc

struct QueryCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "query",
        abstract: "Finds items by name, type, tag, size, time and state, wherever their bytes are.",
        usage: "cloudfs query [<options>] <word> ... [<folder>]",
        discussion: """
            Words: text in the name, name:'*.jpg', type:image, tag:red, favorite:yes, size'>'10M, \
            modified'>'-7d, modified:2026-01, status:cloud, path:Photos/; put together by and, or, \
            not and parentheses, as in 'type:image (tag:red or tag:blue) not size<1M'. All must \
            hold. See docs/query.md.

            A last argument that begins with / or . is a folder, below which items are looked for; \
            without one, all drives that are mounted are. Nothing is downloaded.
            """
    )

    @Argument(help: "What is looked for, and the folder to look in.", completion: .file())
    var words: [String] = []

    @Option(help: "The part of the drives: all, documents, data or external.")
    var scope = Part.all

    @Option(help: "The order: added, modified, name, size or used; size- is the other way.")
    var sort: String?

    @Option(name: [.customShort("n"), .long], help: "The most results.")
    var limit: Int?

    @Flag(help: "Go on, and tell what comes (+), changes (~) and goes (-).")
    var live = false

    @Flag(name: .shortAndLong, help: "Show state and size of the items, too.")
    var long = false

    @Flag(name: [.customShort("0"), .customLong("null")], help: "End paths with NUL: xargs -0.")
    var null = false

    @Flag(help: "Write JSON: an array, or with --live a line for each change.")
    var json = false

    /// `QueryScope`, as an argument.
    enum Part: String, ExpressibleByArgument, CaseIterable {
        case all
        case documents
        case data
        case external

        var scope: QueryScope {
            switch self {
            case .all: .all
            case .documents: .documents
            case .data: .data
            case .external: .external
            }
        }
    }

    mutating func validate() throws {
        guard [live, long, null].filter({ $0 }).count <= 1, !json || !(long || null) else {
            throw ValidationError("--live, --long, --null and --json say how results are shown")
        }
        guard !live || limit == nil && sort == nil else {
            throw ValidationError("results that are followed have no order and no limit")
        }
        if let limit, limit < 1 { throw ValidationError("--limit is 1 or more") }
    }

    /// One drive, and what is asked of it.
    private struct Search: Sendable {
        var client: DriveClient
        var request: QueryRequest
    }

    func run() async throws {
        let (searches, isComplete) = try await searches()
        if live { return try await follow(searches) }
        try await showAll(searches)
        guard isComplete else { throw ExitCode.failure }
    }

    private func showAll(_ searches: [Search]) async throws {
        var results: [Result] = []
        var table = ItemTable()
        var found = QueryResults(searches.map { ($0.client, $0.request) }, atMost: limit)
        while let (item, drive) = try await found.next() { results.append(Result(item, of: drive)) }
        if results.isEmpty { hint() }
        if json { return try Terminal.output.json(results) }
        if long {
            for result in results { table.add(result.item, shown: result.path) }
            if !table.isEmpty { table.write() }
            return
        }
        for result in results { write(result) }
    }

    /// A folder that was named without "./" is a word like any other.
    private func hint() {
        var status = stat()
        guard words.count > 1, let last = words.last, !last.hasPrefix("/"), !last.hasPrefix("."),
            stat(last, &status) == 0, status.st_mode & S_IFMT == S_IFDIR
        else { return }
        let name = last.printable
        Terminal.errors.line("cloudfs: \(name) was looked for in names; ./\(name) is the folder")
    }

    /// - Returns: What is asked of which drives, and whether those are all that could be.
    private func searches() async throws -> (searches: [Search], isComplete: Bool) {
        var words = words
        let locator = try DriveLocator.current()
        var places: [DriveLocator.Location] = []
        if let last = words.last, last.hasPrefix("/") || last.hasPrefix(".") {
            words.removeLast()
            places = [try locator.location(of: last)]
        } else {
            places = try locator.drives().filter(\.isMounted).map { .init(drive: $0, path: .root) }
        }
        guard !places.isEmpty else { throw NoDrive() }
        if let sort { words.append("sort:\(sort)") }
        let text = words.joined(separator: " ")
        let (answering, failures) = await Self.answering(places)
        if answering.isEmpty, let first = failures.first { throw first }
        for failure in failures { Terminal.errors.line("cloudfs: \(failure)".printable) }
        let searches = answering.map { place in
            let request = QueryRequest(query: text, scope: scope.scope, below: place.path)
            return Search(client: DriveClient(place.drive), request: request)
        }
        return (searches, !failures.contains(where: \.isSilence))
    }

    /// Those whose daemon answers, and why the others do not.
    private static func answering(
        _ places: [DriveLocator.Location]
    ) async -> ([DriveLocator.Location], [DriveClientError]) {
        let isOne = places.count == 1
        let outcomes = await withTaskGroup(of: (Int, DriveClientError?).self) { group in
            for (index, place) in places.enumerated() {
                group.addTask { (index, await failure(of: place.drive, isOnly: isOne)) }
            }
            return await group.reduce(into: [Int: DriveClientError]()) { $0[$1.0] = $1.1 }
        }
        let answering = places.indices.filter { outcomes[$0] == nil }.map { places[$0] }
        return (answering, places.indices.compactMap { outcomes[$0] })
    }

    /// Why a drive cannot be asked.
    ///
    /// - Parameter isOnly: Whether no other drive is: else one that hangs must not hide the others.
    private static func failure(
        of drive: DriveAddress,
        isOnly: Bool
    ) async -> DriveClientError? {
        do throws(DriveClientError) {
            try drive.requireDaemon()
            if !isOnly { _ = try await DriveClient(drive, patience: .seconds(5)).status() }
            return nil
        } catch {
            return error
        }
    }

    private func write(_ result: Result) {
        if null {
            Terminal.output.write(result.bytes + [0])
        } else {
            Terminal.output.path(result.bytes)
        }
    }

    // MARK: - Results

    /// An item, and the drive that it is in.
    struct Result: Encodable, Sendable {
        var drive: String
        var item: ItemStatus

        init(_ item: ItemStatus, of drive: DriveAddress) {
            self.drive = drive.mountpoint
            self.item = item
        }

        /// Absolute.
        var bytes: [UInt8] { Array(drive.utf8) + [UInt8(ascii: "/")] + item.path.bytes }
        var path: String { String(decoding: bytes, as: UTF8.self) }
    }

    /// What `--live` tells as JSON.
    private struct Change: Encodable, Sendable {
        var change: String
        var drive: String
        var item: ItemStatus
    }

    // MARK: - Following

    private func follow(_ searches: [Search]) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for search in searches {
                group.addTask { try await self.follow(search) }
            }
            try await group.waitForAll()
        }
    }

    /// Follows a drive, also over a restart of its daemon.
    private func follow(_ search: Search) async throws {
        var known: [Int64: ItemStatus] = [:]
        var absence = DaemonAbsence()
        while true {
            do {
                // What the stream finds at its beginning; what is not among it is gone.
                var fresh: Set<Int64> = []
                for try await event in search.client.follow(search.request) {
                    absence.end()
                    var gone = event.removed
                    if event.kind == .found { fresh.formUnion(event.added.map(\.itemID)) }
                    if event.kind == .gathered { gone += known.keys.filter { !fresh.contains($0) } }
                    for number in gone {
                        guard let item = known.removeValue(forKey: number) else { continue }
                        try tell("-", "removed", item, search)
                    }
                    for item in event.changed + event.added {
                        try tell(item, before: known.updateValue(item, forKey: item.itemID), search)
                    }
                }
            } catch let error as DriveClientError {
                guard !error.isRefusal, !absence.isTooLong() else { throw error }
            }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    private func tell(_ item: ItemStatus, before: ItemStatus?, _ search: Search) throws {
        guard let before else { return try tell("+", "added", item, search) }
        if before.path != item.path {
            try tell("-", "removed", before, search)
            try tell("+", "added", item, search)
        } else if before != item {
            try tell("~", "changed", item, search)
        }
    }

    private func tell(
        _ mark: String,
        _ word: String,
        _ item: ItemStatus,
        _ search: Search
    ) throws {
        let result = Result(item, of: search.client.drive)
        guard json else { return Terminal.output.line("\(mark) \(result.path.printable)") }
        let change = Change(change: word, drive: result.drive, item: item)
        try Terminal.output.jsonLine(change)
    }
}
