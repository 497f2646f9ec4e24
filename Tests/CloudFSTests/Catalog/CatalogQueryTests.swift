import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Every way to the answer of a query gives the same one.
@Suite struct CatalogQueryTests {
    private let fixture: CatalogFixture
    private static let types = ContentTypes(MIMEDatabase.installed(folders: []))

    init() throws {
        fixture = try CatalogFixture()
    }

    private func plan(_ text: String) throws -> QueryPlan {
        let surroundings = QueryParser.Surroundings(
            now: CatalogFixture.now,
            isType: { Self.types.isName($0) }
        )
        return try QueryPlan(try QueryParser.parse(text, in: surroundings)) { Self.types.match($0) }
    }

    private func found(_ text: String, limit: Int = 10_000) throws -> [String] {
        let plan = try plan(text)
        return try fixture.catalog.read { reader in
            try reader.items(matching: plan, limit: limit).map { id in
                String(decoding: try reader.name(of: id)?.name ?? [], as: UTF8.self)
            }
        }
    }

    /// What is found by looking at every item.
    private func judged(_ text: String) throws -> Set<ItemID> {
        let plan = try plan(text)
        return try fixture.catalog.read { reader in
            let all = try reader.names(after: 0, limit: 100_000).map(\.name.item)
            return try reader.items(all, matching: plan)
        }
    }

    @discardableResult
    private func add(
        _ name: String,
        in parent: ItemID = .root,
        kind: ItemKind = .file,
        size: Int64 = 0,
        modified: Int64 = 0
    ) throws -> ItemID {
        try fixture.catalog.write { writer in
            var metadata = CatalogFixture.metadata
            metadata.modified = Timestamp(seconds: modified, nanoseconds: 0)
            let new = NewItem(container: ContainerID(1), kind: kind, metadata: metadata, size: size)
            return try writer.insert(
                new,
                name: Array(name.utf8),
                in: parent,
                at: CatalogFixture.now
            )
            .id
        }
    }

    private func setAttribute(_ name: String, _ value: String, _ id: ItemID) throws {
        try fixture.catalog.write { try $0.setAttribute(name, to: Array(value.utf8), of: id) }
    }

    private func indexAll() throws {
        while try fixture.catalog.write({ try $0.indexNames() }) {}
    }

    @Test func `SQLite has what queries need`() throws {
        let options = try fixture.catalog.read { reader in
            try reader.exists(
                "SELECT 1 FROM pragma_compile_options WHERE compile_options = 'ENABLE_FTS5'"
            )
        }
        #expect(options)
    }

    @Test func `items are found by name, type, size, time, tag, place and state`() throws {
        let photos = try add("Photos", kind: .folder)
        let deep = try add("2024", in: photos, kind: .folder)
        let picture = try add("Ärger.JPG", in: deep, size: 20 << 20, modified: 500)
        let report = try add("report.txt", size: 10, modified: 900)
        try add("reporter.txt", size: 2_000, modified: 100)
        try setAttribute("user.xdg.tags", "Red, dark blue", picture)
        try setAttribute("user.xdg.comment", "The best one", report)
        try setAttribute("user.cloudfs.favorite", "1", report)
        for isIndexed in [false, true] {
            if isIndexed { try indexAll() }
            #expect(try found("name=report.txt") == ["report.txt"])
            #expect(try found("report") == ["report.txt", "reporter.txt"])
            #expect(try found("ärger") == ["Ärger.JPG"])
            #expect(try found("*.jpg") == ["Ärger.JPG"])
            #expect(try found("type:image") == ["Ärger.JPG"])
            #expect(try found("type:text size>1k") == ["reporter.txt"])
            #expect(try found("type:folder") == ["Photos", "2024"])
            #expect(try found("size>10M") == ["Ärger.JPG"])
            #expect(try found("tag:red") == ["Ärger.JPG"])
            #expect(try found("tag:\"DARK BLUE\"") == ["Ärger.JPG"])
            #expect(try found("tag:blue").isEmpty)
            #expect(try found("tag:*") == ["Ärger.JPG"])
            #expect(try found("comment:best favorite:yes") == ["report.txt"])
            #expect(try found("path:Photos kind:file") == ["Ärger.JPG"])
            #expect(try found("path:Photos/2024/") == ["2024", "Ärger.JPG"])
            #expect(try found("path:nowhere").isEmpty)
            #expect(try found("status:cloud") == ["Ärger.JPG", "report.txt", "reporter.txt"])
            #expect(try found("kind:file not report") == ["Ärger.JPG"])
            #expect(try found("report or type:image").count == 3)
            #expect(
                try found("kind:file sort:modified-") == [
                    "report.txt", "Ärger.JPG", "reporter.txt",
                ]
            )
            #expect(
                try found("kind:file sort:name limit:2") == ["report.txt", "reporter.txt"]
            )
            #expect(try found("kind:file sort:size", limit: 1) == ["report.txt"])
        }
    }

    @Test func `a name that changes is found under its new name only`() throws {
        let file = try add("before.txt")
        try indexAll()
        #expect(try found("before") == ["before.txt"])
        try fixture.catalog.write { writer in
            try writer.moveName(of: file, to: Array("after.txt".utf8), in: .root)
        }
        #expect(try found("before").isEmpty)
        #expect(try found("after") == ["after.txt"])
        try indexAll()
        #expect(try found("before").isEmpty)
        #expect(try found("after") == ["after.txt"])
        // Its place may be taken by a name that is indexed anew.
        try add("before.txt")
        #expect(try found("before") == ["before.txt"])
    }

    @Test func `an index of names that are gone is begun anew`() throws {
        let ids = try fixture.catalog.write { writer in
            let new = NewItem(
                container: ContainerID(1),
                kind: .file,
                metadata: CatalogFixture.metadata
            )
            return try (0..<10_100).map { number in
                let name = Array("file \(number)".utf8)
                return try writer.insert(new, name: name, in: .root, at: CatalogFixture.now).id
            }
        }
        try indexAll()
        #expect(try !fixture.catalog.read { try $0.hasStaleIndex() })
        try fixture.catalog.write { writer in
            for id in ids.dropFirst(100) {
                try writer.execute("DELETE FROM name WHERE item = ?", [id.rawValue])
            }
        }
        #expect(try fixture.catalog.read { try $0.hasStaleIndex() })
        try fixture.catalog.write { try $0.dropIndex() }
        #expect(try fixture.catalog.read { try $0.indexedNames() } == 0)
        #expect(try found("file").count == 100)
        try indexAll()
        #expect(try found("file 99") == ["file 99"])
    }

    @Test(arguments: 0..<4)
    func `random queries find the same by all ways, in pages of any length`(seed: Int) throws {
        var random = SeededRandom(seed: UInt64(seed))
        try fill(&random)
        for number in 0..<30 {
            let text = Self.query(&random, depth: 2)
            let expected = try judged(text)
            if number == 10 || number == 20 {
                _ = try fixture.catalog.write { try $0.indexNames(atMost: 150) }
            }
            for order in [
                "", "sort:added-", "sort:name", "sort:modified-", "sort:size", "sort:used",
            ] {
                let plan = try plan("\(text) \(order)")
                let limit = Int.random(in: 1...40, using: &random)
                let paged = try pages(of: plan, limit: limit)
                #expect(paged.count == Set(paged).count, "\(text) \(order), seed \(seed)")
                #expect(Set(paged) == expected, "\(text) \(order), seed \(seed)")
                let whole = try fixture.catalog.read { try $0.items(matching: plan, limit: 10_000) }
                #expect(whole == paged, "\(text) \(order), seed \(seed)")
            }
        }
    }

    private func pages(of plan: QueryPlan, limit: Int) throws -> [ItemID] {
        var paged: [ItemID] = []
        var keys: [String] = []
        var position: QueryPosition?
        repeat {
            let page = try fixture.catalog.read {
                try $0.find(plan, after: position, limit: limit)
            }
            paged += page.items
            keys += page.keys.map { $0.digits(isDescending: plan.query.isDescending) }
            // As a client carries it.
            position = try page.next.map { try #require(QueryPosition($0.text)) }
        } while position != nil
        // Pages of several drives are merged by these.
        #expect(keys.count == paged.count && keys == keys.sorted())
        return paged
    }

    private static let stems = [
        "a", "ab", "report", "Report 2024", "IMG_01", "été", "ÉTÉ", "x\u{2}y", "100%", "a_b",
        "\"q\"",
        "日本語の名前", "c\u{3}", "'; DROP TABLE item", "back\\slash", "*",
    ]
    private static let ends = ["", ".txt", ".TXT", ".jpg", ".c", ".tar.gz", ".z", ".odt", "."]

    private func fill(_ random: inout SeededRandom) throws {
        var folders: [ItemID] = [.root]
        for number in 0..<250 {
            let stem = Self.stems.randomElement(using: &random) ?? "a"
            let end = Self.ends.randomElement(using: &random) ?? ""
            let parent = folders.randomElement(using: &random) ?? .root
            let isFolder = Int.random(in: 0..<12, using: &random) == 0
            let id = try add(
                stem + (Bool.random(using: &random) ? " \(number)" : "") + "\(number)" + end,
                in: parent,
                kind: isFolder ? .folder : .file,
                size: isFolder ? 0 : [0, 5, 3_000, 2 << 20].randomElement(using: &random) ?? 0,
                modified: Int64.random(in: 0..<1_000, using: &random)
            )
            if isFolder { folders.append(id) }
            if Int.random(in: 0..<6, using: &random) == 0 {
                try setAttribute(
                    "user.xdg.tags",
                    ["red", "red,blue", ",", ""].randomElement(using: &random) ?? "",
                    id
                )
            }
            if Int.random(in: 0..<5, using: &random) == 0 {
                let moment = Timestamp(seconds: Int64(number), nanoseconds: 0)
                try fixture.catalog.write { try $0.setOpened(moment, of: id) }
            }
            if Int.random(in: 0..<9, using: &random) == 0 {
                try fixture.catalog.write { writer in
                    try writer.setPolicy(.excluded, of: id)
                    try writer.enqueue(id, notBefore: CatalogFixture.now)
                }
            }
        }
        for raw in ["\u{ff}name", "plain"] {
            try add(raw)
        }
        try fixture.catalog.write { writer in
            let new = NewItem(
                container: ContainerID(1),
                kind: .file,
                metadata: CatalogFixture.metadata
            )
            _ = try writer.insert(
                new,
                name: [0xff, 0x41, 0xc3, 0x62, 0x2e, 0x74, 0x78, 0x74],
                in: .root,
                at: CatalogFixture.now
            )
        }
    }

    private static func query(_ random: inout SeededRandom, depth: Int) -> String {
        let leaves = [
            "a", "ab", "report", "\"report 2\"", "name:*.txt", "name:re*t*", "*.c", "name:?", "été",
            "name=a1", "type:image", "type:text", "type:folder", "type:archive", "type:public.data",
            "tag:red", "tag:*", "favorite:yes", "size>1k", "size>1M", "size:0..5", "kind:file",
            "modified>1970-01-01T00:08", "status:cloud", "status:modified", "status:excluded",
            "status:local", "\"100%\"", "a_b", "\"\\\"q\"", "\"'; DROP\"", "\"back\\\\\"", "名前",
            "path:a1", "txt", "used>1970-01-01T00:08", "not used>-1h", "tag:RED", "tag:blau",
            "\"\u{2}y\"",
        ]
        guard depth > 0, Int.random(in: 0..<3, using: &random) > 0 else {
            return leaves.randomElement(using: &random) ?? "a"
        }
        let one = query(&random, depth: depth - 1)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: return "not (\(one))"
        case 1: return "(\(one)) or (\(query(&random, depth: depth - 1)))"
        default: return "(\(one)) (\(query(&random, depth: depth - 1)))"
        }
    }

    @Test(arguments: ["", "n1", "x1.2", "n1.2.3", "nx.2", "t0.1", "n99999999999999999999.1"])
    func `a place to go on at that no query gave is refused`(text: String) {
        #expect(QueryPosition(text) == nil)
    }

    @Test func `a place of another order is refused`() throws {
        let plan = try plan("a sort:name")
        #expect(throws: CloudFSError.self) {
            try fixture.catalog.read {
                try $0.find(plan, after: QueryPosition("n1.2"), limit: 1)
            }
        }
    }
}
