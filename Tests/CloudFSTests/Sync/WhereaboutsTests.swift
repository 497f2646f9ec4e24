import Testing

@testable import CloudFS

/// Where folders are looked for that have moved.
@Suite struct WhereaboutsTests {
    let fixture: CatalogFixture
    let whereabouts = Whereabouts()
    let folder: ItemID
    let child: ItemID

    init() throws {
        let fixture = try CatalogFixture()
        self.fixture = fixture
        folder = try Self.add("folder", in: .root, to: fixture)
        child = try Self.add("child", in: folder, to: fixture)
    }

    private static func add(
        _ name: String,
        in parent: ItemID,
        to fixture: CatalogFixture
    ) throws -> ItemID {
        try fixture.catalog.write { writer in
            let id = try writer.insert(
                NewItem(
                    container: ContainerID(1),
                    kind: .folder,
                    metadata: CatalogFixture.metadata
                ),
                name: Array(name.utf8),
                in: parent,
                at: CatalogFixture.now
            ).id
            try writer.setBase(CatalogFixture.base(of: id, named: name, in: parent, version: name))
            return id
        }
    }

    /// Notes a move in the cloud, and makes it.
    private func move(_ id: ItemID, to name: String, in parent: ItemID = .root) throws {
        try fixture.catalog.write { writer in
            guard let old = try writer.reader.base(of: id) else { return }
            whereabouts.noteLeft(old, by: .folder, at: .zero)
            let version = old.version.content
            try writer.moveName(of: id, to: Array(name.utf8), in: parent)
            try writer.setBase(
                CatalogFixture.base(of: id, named: name, in: parent, version: version)
            )
        }
    }

    private func formerly(at path: String, at now: Duration = .zero) throws -> Set<ItemID> {
        let path = RemotePath(try path.split(separator: "/").map { try ItemName(String($0)) })
        return try fixture.catalog.read { reader in
            try whereabouts.formerly(at: path, root: .root, reader, at: now)
        }
    }

    @Test func `a folder is found where it was before it moved`() throws {
        #expect(try formerly(at: "folder").isEmpty)
        try move(folder, to: "moved")
        #expect(try formerly(at: "folder") == [folder])
        #expect(try formerly(at: "moved").isEmpty)
    }

    @Test func `what is in a folder is found below the place where that was`() throws {
        try move(folder, to: "moved")
        #expect(try formerly(at: "folder/child") == [child])
        try move(child, to: "elsewhere")
        #expect(try formerly(at: "folder/child") == [child])
        #expect(try formerly(at: "moved/child") == [child])
        #expect(try formerly(at: "elsewhere").isEmpty)
    }

    @Test func `a folder in the old place of another one is not all that is found there`() throws {
        try move(folder, to: "moved")
        let other = try Self.add("folder", in: .root, to: fixture)
        #expect(try formerly(at: "folder") == [folder])
        try move(other, to: "other")
        #expect(try formerly(at: "folder") == [folder, other])
    }

    @Test func `old places are forgotten after a while`() throws {
        try move(folder, to: "moved")
        #expect(try formerly(at: "folder", at: .seconds(60)) == [folder])
        #expect(try formerly(at: "folder", at: .seconds(600)).isEmpty)
    }

    // MARK: - Very many

    private func path(_ name: String) throws -> RemotePath {
        RemotePath([try ItemName(name)])
    }

    private func takeFound(at now: Duration) throws -> [ItemID] {
        try fixture.catalog.read { reader in
            try whereabouts.takeFound(reader, root: .root, at: now)
        }
    }

    @Test func `folders that nobody ever knew leave room for one that has moved`() throws {
        try fixture.catalog.write { try $0.setListed(true, of: folder) }
        for number in 1...2 * Whereabouts.limit {
            whereabouts.noteUnknown(try path("temporary\(number)"), at: .seconds(number / 100))
        }
        whereabouts.noteUnknown(try path("moved"), at: .seconds(30))
        #expect(try takeFound(at: .seconds(30)).isEmpty)
        try move(folder, to: "moved")
        #expect(try takeFound(at: .seconds(30)) == [folder])
    }

    @Test func `what may have changed anywhere below a folder is looked for in all of it`() throws {
        try fixture.catalog.write { try $0.setListed(true, of: folder) }
        whereabouts.noteUnknown(try path("moved"), isSubtree: true, at: .zero)
        whereabouts.noteUnknown(try path("moved"), at: .zero)
        try move(folder, to: "moved")
        #expect(try takeFound(at: .zero) == [folder, child])
    }

    @Test func `what is not known after the time of news is forgotten`() throws {
        whereabouts.noteUnknown(try path("old"), at: .zero)
        whereabouts.noteUnknown(try path("new"), at: .seconds(100))
        #expect(try takeFound(at: .seconds(150)).isEmpty)
        #expect(!whereabouts.isEmpty)
        try fixture.catalog.write { try $0.setListed(true, of: folder) }
        try move(folder, to: "new")
        #expect(try takeFound(at: .seconds(160)) == [folder])
        #expect(whereabouts.isEmpty)
    }

    @Test func `of very many folders that were missed or have left the last are known`() throws {
        for number in 1...Whereabouts.limit {
            let other = ItemID(Int64(10_000 + number))
            whereabouts.noteMissed(other, at: try path("\(number)"))
            whereabouts.noteLeft(
                CatalogFixture.base(of: other, named: "\(number)", version: "1"),
                by: .folder,
                at: .zero
            )
        }
        whereabouts.noteMissed(folder, at: try path("folder"))
        try move(folder, to: "moved")
        #expect(try takeFound(at: .zero) == [folder])
        #expect(try formerly(at: "folder") == [folder])
    }

    @Test func `files are not noted`() throws {
        whereabouts.noteLeft(
            CatalogFixture.base(of: folder, named: "file", version: "1"),
            by: .file,
            at: .zero
        )
        #expect(try formerly(at: "file").isEmpty)
    }
}
