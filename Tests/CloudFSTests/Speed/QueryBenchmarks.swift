import CloudFSTestSupport
import Foundation
import GRDB
import Testing

@testable import CloudFS

/// What queries cost on a large drive, and what being able to ask them costs a listing.
///
/// In ordinary test runs a small catalog shows that none of it rots; with `CLOUDFS_MICRO=1` there
/// are 1,000,000 items, or `CLOUDFS_QUERY_ITEMS`, and every figure is printed.
@Suite(.serialized, .timeLimit(.minutes(30))) struct QueryBenchmarks {
    private static let isMeasuring = ProcessInfo.processInfo.environment["CLOUDFS_MICRO"] == "1"
    private static let itemCount =
        ProcessInfo.processInfo.environment["CLOUDFS_QUERY_ITEMS"].flatMap { Int($0) }
        ?? (isMeasuring ? 1_000_000 : 500)

    private static let queries = [
        "IMG_00012345", "report", "name:*.psd", "name:holiday*.jpg", "ab", "type:image",
        "type:public.camera-raw-image", "type:text budget", "tag:red", "favorite:yes",
        "size>1G", "size>10M type:image", "modified>-7d", "modified>-7d type:image budget",
        "status:modified", "status:cloud type:pdf", "path:folder7 report", "not tag:red",
        "invoice or thesis", "sort:modified- limit:100", "type:image sort:modified- limit:100",
        "IMG_0001 sort:name limit:100", "nothingisnamedlikethis",
    ]

    private let fixture: CatalogFixture
    private let types = ContentTypes(MIMEDatabase.installed())
    private let now = CatalogFixture.now

    init() throws {
        fixture = try CatalogFixture()
    }

    private func print(_ name: String, _ text: String) {
        guard Self.isMeasuring else { return }
        Swift.print("query: " + name.padding(toLength: 44, withPad: " ", startingAt: 0) + text)
    }

    private func plan(_ text: String) throws -> QueryPlan {
        let surroundings = QueryParser.Surroundings(now: now, isType: { types.isName($0) })
        return try QueryPlan(try QueryParser.parse(text, in: surroundings)) { types.match($0) }
    }

    private static func milliseconds(_ duration: Duration) -> String {
        String(format: "%.2f ms", duration / .milliseconds(1))
    }

    private static let words = [
        "report", "holiday", "budget", "invoice", "meeting", "notes", "draft", "summer", "letter",
        "thesis", "project", "archive", "music", "scan",
    ]
    private static let ends = [
        "jpg", "jpg", "jpg", "png", "pdf", "pdf", "txt", "docx", "odt", "mp3", "md", "xlsx", "c",
    ]

    private static func name(_ number: Int, _ random: inout SeededRandom) -> String {
        if number % 50_000 == 7 { return "poster \(number).psd" }
        if number % 20_000 == 3 { return "raw \(number).cr2" }
        let end = ends.randomElement(using: &random) ?? "txt"
        if end == "jpg" {
            let digits = String(number)
            let zeros = String(repeating: "0", count: max(0, 8 - digits.utf8.count))
            return "IMG_" + zeros + digits + ".jpg"
        }
        let pair = (0..<2).map { _ in words.randomElement(using: &random) ?? "notes" }
        return "\(pair.joined(separator: " ")) \(number).\(end)"
    }

    /// Adds items as a first listing does, 250 in a transaction.
    private func fill(_ catalog: Catalog, count: Int) throws -> Duration {
        var random = SeededRandom(seed: 7)
        let begin = ContinuousClock.now
        var folders: [ItemID] = [.root]
        var number = 0
        while number < count {
            try catalog.write(isLong: true) { writer in
                for _ in 0..<250 where number < count {
                    defer { number += 1 }
                    let isFolder = number % 1_000 == 0
                    let name = isFolder ? "folder\(number / 1_000)" : Self.name(number, &random)
                    let age = Int64.random(in: 0..<1_000_000_000, using: &random)
                    var metadata = CatalogFixture.metadata
                    metadata.modified = now + .seconds(-age)
                    let parent = isFolder ? .root : folders.last ?? .root
                    let size = isFolder ? 0 : Int64(1) << Int64.random(in: 4..<31, using: &random)
                    let new = NewItem(
                        container: ContainerID(1),
                        kind: isFolder ? .folder : .file,
                        metadata: metadata,
                        size: size
                    )
                    let id = try writer.insert(new, name: Array(name.utf8), in: parent, at: now).id
                    try writer.setBase(
                        CatalogFixture.base(of: id, named: name, in: parent, version: "\(number)")
                    )
                    if isFolder { folders.append(id) }
                    try mark(id, number, writer)
                }
            }
        }
        return ContinuousClock.now - begin
    }

    private func mark(_ id: ItemID, _ number: Int, _ writer: CatalogWriter) throws {
        if number % 1_000 == 1 {
            try writer.setAttribute(TagList.attribute, to: Array("red,blue".utf8), of: id)
        }
        if number % 10_000 == 2 {
            try writer.setAttribute(RemoteAttribute.favorite, to: [49], of: id)
        }
        if number % 5_000 == 4 { try writer.enqueue(id, notBefore: now) }
    }

    @Test func `queries of a large drive`() throws {
        let catalog = fixture.catalog
        let filling = try fill(catalog, count: Self.itemCount)
        print("\(Self.itemCount) items listed", "\(filling)")
        for text in ["report", "nothingisnamedlikethis", "name:*.psd"] {
            try measure(text, "without index")
        }
        let begin = ContinuousClock.now
        var longest = Duration.zero
        var isMore = true
        while isMore {
            let start = ContinuousClock.now
            isMore = try catalog.write { try $0.indexNames() }
            longest = max(longest, ContinuousClock.now - start)
        }
        let took = Self.milliseconds(longest)
        print("their names indexed", "\(ContinuousClock.now - begin), \(took) at most at once")
        for text in Self.queries { try measure(text, "") }
        let some = try catalog.read { try $0.items(matching: plan("budget"), limit: 100) }
        let judging = try plan("type:text budget not tag:red")
        let start = ContinuousClock.now
        _ = try catalog.read { try $0.items(some, matching: judging) }
        print("100 changed items judged", Self.milliseconds(ContinuousClock.now - start))
    }

    private func measure(_ text: String, _ note: String) throws {
        var times: [Duration] = []
        var count = 0
        for _ in 0..<(Self.isMeasuring ? 3 : 1) {
            let begin = ContinuousClock.now
            let plan = try plan(text)
            count = try fixture.catalog.read { try $0.find(plan, limit: 100).items.count }
            times.append(ContinuousClock.now - begin)
        }
        times.sort()
        print("\(text) \(note)", "\(Self.milliseconds(times[times.count / 2])), \(count) found")
    }

    @Test func `what a listing pays for being asked later`() throws {
        let count = Self.isMeasuring ? 100_000 : 500
        for round in 0..<(Self.isMeasuring ? 2 : 1) {
            for (name, drops) in [
                ("without the indexes of queries", ["item_modified", "item_large"]),
                ("with them", []),
            ] {
                let other = try CatalogFixture()
                try other.catalog.write { writer in
                    for index in drops { try writer.execute("DROP INDEX \(index)") }
                }
                let took = try fill(other.catalog, count: count)
                print("round \(round): \(count) items, \(name)", "\(took)")
            }
        }
    }
}
