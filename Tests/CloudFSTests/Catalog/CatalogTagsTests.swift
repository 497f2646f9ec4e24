import CloudFSTestSupport
import GRDB
import Testing

@testable import CloudFS

@Suite struct CatalogTagsTests {
    private let fixture: CatalogFixture

    init() throws { fixture = try CatalogFixture() }

    private func tag(_ id: ItemID, _ text: String?) throws {
        try fixture.catalog.write { writer in
            if let text {
                try writer.setAttribute(TagList.attribute, to: Array(text.utf8), of: id)
            } else {
                try writer.removeAttribute(TagList.attribute, of: id)
            }
        }
    }

    private var tags: [String] {
        get throws { try fixture.catalog.read { try $0.tags(after: 0, limit: 100).map(\.name) } }
    }

    private func items(_ name: String) throws -> [ItemID] {
        try fixture.catalog.read { reader in
            guard let tag = try reader.tag(named: name) else { return [] }
            return try reader.items(withTag: tag, limit: 100).map(\.item)
        }
    }

    @Test func `items are found by the tags that their attribute names`() throws {
        let (one, two) = (try fixture.addFile("one"), try fixture.addFile("two"))
        try tag(one, "red, blue")
        try tag(two, "red")
        #expect(try tags == ["blue", "red"])
        #expect(try items("red") == [one, two])
        let number = try fixture.catalog.read { try $0.tag(named: "red") }
        try tag(one, "red,green")
        #expect(try items("blue").isEmpty)
        #expect(try tags == ["red", "green"])
        #expect(try fixture.catalog.read { try $0.tag(named: "red") } == number)
        try fixture.catalog.write { try $0.replaceAttributes(with: [:], of: one) }
        #expect(try items("red") == [two])
        try tag(two, nil)
        #expect(try tags.isEmpty)
    }

    @Test func `a tag goes with the last item that had it`() throws {
        let one = try fixture.addFile("one")
        try tag(one, "red")
        try fixture.catalog.write { writer in
            try writer.removeName(of: one)
            try writer.erase(one)
        }
        #expect(try tags.isEmpty)
    }

    @Test func `tags of a catalog of an earlier version are found`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("catalog.sqlite")
        let old = try DatabaseQueue(path: path)
        try CatalogSchema.migrator.migrate(old, upTo: "6")
        try old.write { database in
            for id in [1, 2] {
                try database.execute(
                    sql: """
                        INSERT INTO item (id, container, document, kind, permissions, user_id,
                            group_id, size, modified, changed, accessed)
                        VALUES (?, 1, randomblob(16), 2, 420, 0, 0, 0, 0, 0, 0)
                        """,
                    arguments: [id]
                )
            }
            try database.execute(
                sql: "INSERT INTO name (parent, name, item) VALUES (1, x'61', 2)"
            )
            try database.execute(
                sql: "INSERT INTO attribute (item, name, value) VALUES (2, 'user.xdg.tags', ?)",
                arguments: [Array("red".utf8).asBlob]
            )
        }
        try old.close()
        let catalog = try Catalog(path: path)
        let found = try catalog.read { reader in
            try reader.tag(named: "red").map { try reader.items(withTag: $0, limit: 9) }
        }
        #expect(found?.map(\.item) == [ItemID(2)])
    }

    // MARK: - Attributes from the cloud

    private static func remote(
        _ attributes: [String: [UInt8]],
        _ metadata: ItemMetadata = CatalogFixture.metadata
    ) throws -> RemoteItem {
        RemoteItem(
            id: RemoteID("r"),
            documentID: .random(),
            name: try ItemName("one"),
            kind: .file,
            size: 0,
            metadata: metadata,
            version: ItemVersion(content: "2", metadata: "2"),
            attributes: attributes
        )
    }

    @Test func `what is shown already is no change`() throws {
        let one = try fixture.addFile("one")
        let later = Timestamp(seconds: CatalogFixture.now.seconds + 1, nanoseconds: 0)
        func takesOver(_ remote: RemoteItem) throws -> Bool {
            try fixture.catalog.write { writer in
                let before = try writer.reader.existing(one).item.changed
                let isNews = try writer.takeOverMetadata(of: remote, for: one, at: later)
                #expect(try writer.reader.existing(one).item.changed == (isNews ? later : before))
                return isNews
            }
        }
        #expect(try !takesOver(Self.remote([:])))
        #expect(try takesOver(Self.remote(["user.x": [1]])))
        #expect(try !takesOver(Self.remote(["user.x": [1]])))
        #expect(try takesOver(Self.remote(["user.x": [2]])))
        #expect(try takesOver(Self.remote([:])))
        var metadata = CatalogFixture.metadata
        metadata.permissions = 0o600
        #expect(try takesOver(Self.remote([:], metadata)))
        metadata.modified = later
        #expect(try takesOver(Self.remote([:], metadata)))
        #expect(try !takesOver(Self.remote([:], metadata)))
        metadata.groupID = 5
        #expect(try takesOver(Self.remote([:], metadata)))
        // Owners that are not told are no change.
        (metadata.userID, metadata.groupID) = (ItemMetadata.keptID, ItemMetadata.keptID)
        #expect(try !takesOver(Self.remote([:], metadata)))
        #expect(try fixture.catalog.read { try $0.existing(one) }.item.metadata.groupID == 5)
    }

    /// What is sent of an item replaces all that the cloud has of it beside its bytes.
    @Test(arguments: [UnsentFields(), .permissions, .modified, .owner, .all])
    func `what is to be sent keeps what another device has set of the other fields`(
        fields: UnsentFields
    ) throws {
        let one = try fixture.addFile("one")
        let ours = CatalogFixture.metadata
        var theirs = ours
        theirs.permissions = 0o600
        (theirs.userID, theirs.groupID) = (1_234, 2_345)
        theirs.modified = Timestamp(seconds: ours.modified.seconds + 9, nanoseconds: 0)
        let (first, again, record) = try fixture.catalog.write { writer in
            try writer.noteEditing("user.x", of: one)
            try writer.setAttribute("user.x", to: [1], of: one)
            try writer.markMetadataChanged(one, fields, notBefore: CatalogFixture.now)
            let remote = try Self.remote([:], theirs)
            return (
                try writer.takeOverMetadata(of: remote, for: one, at: CatalogFixture.now),
                try writer.takeOverMetadata(of: remote, for: one, at: CatalogFixture.now),
                try writer.reader.existing(one)
            )
        }
        #expect(first == (fields != .all) && !again)
        let metadata = record.item.metadata
        let keepsMode = fields.contains(.permissions)
        #expect(metadata.permissions == (keepsMode ? ours : theirs).permissions)
        let keepsTime = fields.contains(.modified)
        #expect(metadata.modified == (keepsTime ? ours : theirs).modified)
        let keepsOwner = fields.contains(.owner)
        #expect(metadata.userID == (keepsOwner ? ours : theirs).userID)
        #expect(metadata.groupID == (keepsOwner ? ours : theirs).groupID)
        #expect(record.hasChangedMetadata && record.unsentFields == fields)
        let attributes = try fixture.catalog.read { try $0.attributes(of: one) }
        #expect(attributes == ["user.x": [1]])
        let changed = record.item.changed
        try fixture.catalog.write { try $0.clearMetadataChanged(one, unlessAfter: changed) }
        let sent = try fixture.catalog.read { try $0.existing(one) }
        #expect(!sent.hasChangedMetadata && sent.unsentFields == [])
    }

    @Test func `of attributes both sides changed tags are merged, and ours is kept`() throws {
        let one = try fixture.addFile("one")
        let name = TagList.attribute
        let merged = try fixture.catalog.write { writer in
            try writer.replaceAttributes(
                with: [name: Array("a,b".utf8), "user.x": [1], "user.y": [1]],
                of: one
            )
            for (name, value) in [(name, Array("a,b,c".utf8)), ("user.x", [2])] {
                try writer.noteEditing(name, of: one)
                try writer.setAttribute(name, to: value, of: one)
            }
            try writer.markMetadataChanged(one, [], notBefore: CatalogFixture.now)
            try writer.takeOverMetadata(
                of: Self.remote([
                    name: Array("b,d".utf8), "user.x": [3], "user.y": [4], "user.z": [5],
                ]),
                for: one,
                at: CatalogFixture.now
            )
            return try writer.reader.attributes(of: one)
        }
        #expect(merged[name].map { TagList(attribute: $0).names } == ["b", "d", "c"])
        #expect(merged["user.x"] == [2])
        #expect(merged["user.y"] == [4])
        #expect(merged["user.z"] == [5])
        let base = try fixture.catalog.read { try $0.editedAttributes(of: one) }
        #expect(base == [name: Array("b,d".utf8), "user.x": [3]])
    }

    @Test func `attributes that may not be read in the cloud are as they were`() throws {
        let one = try fixture.addFile("one")
        let tags = [TagList.attribute: Array("work".utf8)]
        var metadata = CatalogFixture.metadata
        metadata.permissions = 0
        var closed = try Self.remote([:], metadata)
        closed.areAttributesKnown = false
        let hidden = closed
        try fixture.catalog.write { writer in
            try writer.replaceAttributes(with: tags, of: one)
            let isNews = try writer.takeOverMetadata(of: hidden, for: one, at: CatalogFixture.now)
            let isMore = try writer.takeOverMetadata(of: hidden, for: one, at: CatalogFixture.now)
            #expect(isNews && !isMore)
            #expect(try writer.reader.existing(one).item.metadata.permissions == 0)
            #expect(try writer.reader.attributes(of: one) == tags)
            // What is changed here meanwhile is to be sent.
            try writer.noteEditing("user.x", of: one)
            try writer.setAttribute("user.x", to: [1], of: one)
            try writer.markMetadataChanged(one, [], notBefore: CatalogFixture.now)
            try writer.takeOverMetadata(of: hidden, for: one, at: CatalogFixture.now)
            let isMerged = try writer.mergeAttributes(of: hidden, for: one)
            #expect(!isMerged)
            #expect(try writer.reader.attributes(of: one).count == 2)
            #expect(try writer.reader.editedAttributes(of: one) == ["user.x": nil])
        }
    }

    @Test func `what was sent is the base of what is changed next`() throws {
        let one = try fixture.addFile("one")
        let name = TagList.attribute
        try fixture.catalog.write { writer in
            try writer.noteEditing(name, of: one)
            try writer.setAttribute(name, to: Array("a".utf8), of: one)
            try writer.markMetadataChanged(one, [], notBefore: CatalogFixture.now)
            // Changed again while "a" was sent.
            try writer.noteEditing(name, of: one)
            try writer.setAttribute(name, to: Array("b".utf8), of: one)
            try writer.noteSent([name: Array("a".utf8)], of: one)
            #expect(try writer.reader.editedAttributes(of: one) == [name: Array("a".utf8)])
            try writer.clearMetadataChanged(one, unlessAfter: CatalogFixture.now)
            try writer.noteSent([name: Array("b".utf8)], of: one)
            #expect(try writer.reader.editedAttributes(of: one).isEmpty)
        }
    }
}
