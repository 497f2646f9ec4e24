import GRDB
import Testing

@testable import CloudFS

/// What was written on an item here, and not sent before another device had moved it where nothing
/// but its place tells what an item is.
@Suite struct BequestsTests {
    private let fixture: CatalogFixture
    private static let note = "user.note"
    private static let later = CatalogFixture.now + .seconds(60)

    init() throws {
        fixture = try CatalogFixture()
    }

    /// A file with something to send: an attribute, a mode and a time.
    private func addWritten(_ name: String, value: [UInt8] = [1]) throws -> BaseRecord {
        let id = try fixture.addFile(name)
        let base = CatalogFixture.base(of: id, named: name, version: "bytes")
        try fixture.catalog.write { writer in
            try writer.setBase(base)
            try writer.noteEditing(Self.note, of: id)
            try writer.setAttribute(Self.note, to: value, of: id)
            try writer.setMetadata(
                of: id,
                permissions: 0o600,
                modified: Self.later,
                at: Self.later
            )
            try writer.markMetadataChanged(id, .all, notBefore: Self.later)
        }
        return base
    }

    /// What the cloud has in another place.
    private func remote(
        _ name: String,
        document: DocumentID? = nil,
        version: String = "bytes",
        attributes: [String: [UInt8]] = [:],
        isSketch: Bool = false
    ) throws -> RemoteItem {
        RemoteItem(
            id: RemoteID(name),
            documentID: document ?? .random(),
            name: try ItemName(name),
            kind: .file,
            size: 3,
            metadata: CatalogFixture.metadata,
            version: ItemVersion(content: version, metadata: "1"),
            attributes: attributes,
            isSketch: isSketch,
            isIdentified: document != nil
        )
    }

    /// Takes in what the cloud has, as a listing does.
    private func find(_ remote: RemoteItem, at moment: Timestamp = later) throws -> ItemID {
        let id = try fixture.addFile(remote.name.description)
        try fixture.catalog.write { writer in
            try writer.setBase(BaseRecord(of: id, in: .root, remote))
            for (name, value) in remote.attributes {
                try writer.setAttribute(name, to: value, of: id)
            }
            if remote.isIdentified, try writer.reader.holder(of: remote.documentID) != nil {
                try writer.noteHeir(id, of: remote.documentID, at: moment)
            }
            _ = try writer.inherit(
                remote,
                as: id,
                from: try writer.reader.unsentFiles(byBytes: true),
                at: moment
            )
        }
        return id
    }

    /// Takes away what the cloud has no more, as a listing that lacks it does.
    private func lose(_ base: BaseRecord, at moment: Timestamp = later) throws {
        try fixture.catalog.write { writer in
            let record = try writer.reader.existing(base.item)
            try writer.removeName(of: base.item)
            _ = try writer.bequeath(record, base, at: moment)
            try writer.removeBase(of: base.item)
            try writer.erase(base.item)
        }
    }

    private func document(of id: ItemID) throws -> DocumentID {
        try fixture.catalog.read { try $0.existing(id).item.documentID }
    }

    private func value(of id: ItemID, _ name: String = note) throws -> [UInt8]? {
        try fixture.catalog.read { try $0.attribute(name, of: id) }
    }

    private func requireWritten(_ id: ItemID) throws {
        #expect(try value(of: id) == [1])
        let (record, entry, unsent) = try fixture.catalog.read { reader in
            (
                try reader.existing(id), try reader.outboxEntry(of: id),
                try reader.unsentFiles(byBytes: true)
            )
        }
        #expect(record.item.metadata.permissions == 0o600)
        #expect(record.item.metadata.modified == Self.later)
        #expect(record.hasChangedMetadata)
        #expect(entry != nil)
        #expect(!unsent.hasBequests)
    }

    enum Order: CaseIterable { case foundFirst, goneFirst }

    private func move(_ base: BaseRecord, to remote: RemoteItem, _ order: Order) throws -> ItemID {
        if order == .foundFirst {
            let heir = try find(remote)
            try lose(base)
            return heir
        }
        try lose(base)
        return try find(remote)
    }

    @Test(arguments: Order.allCases)
    func `a document has in its new place what was written on it`(order: Order) throws {
        let base = try addWritten("old")
        let document = try document(of: base.item)
        let heir = try move(base, to: remote("new", document: document), order)
        try requireWritten(heir)
        #expect(try self.document(of: heir) == document)
    }

    @Test(arguments: Order.allCases)
    func `what other tools wrote is known by its bytes`(order: Order) throws {
        let base = try addWritten("old")
        try requireWritten(move(base, to: remote("new"), order))
    }

    @Test(arguments: Order.allCases)
    func `of a sketch the name must be the same, too`(order: Order) throws {
        let base = try addWritten("old")
        let heir = try move(base, to: remote("new", isSketch: true), order)
        #expect(try value(of: heir) == nil)
    }

    @Test(arguments: Order.allCases)
    func `another document with the same bytes is another document`(order: Order) throws {
        let base = try addWritten("old")
        let other = try move(base, to: remote("new", document: .random()), order)
        #expect(try value(of: other) == nil)
    }

    @Test(arguments: Order.allCases)
    func `other bytes are no file of another tool's`(order: Order) throws {
        let base = try addWritten("old")
        let other = try move(base, to: remote("new", version: "other"), order)
        #expect(try value(of: other) == nil)
    }

    @Test func `of two with the same bytes each has its own, by its name`() throws {
        let first = try addWritten("1", value: [1])
        let second = try addWritten("2", value: [2])
        try lose(first)
        try lose(second)
        // As if they were in another folder.
        let heirs = [try find(remote("2")), try find(remote("1"))]
        #expect(try heirs.map { try value(of: $0) } == [[2], [1]])
    }

    @Test func `a document that was sent since has nothing to hand on`() throws {
        let base = try addWritten("old")
        let heir = try find(remote("new", document: document(of: base.item)))
        try fixture.catalog.write { writer in
            try writer.clearMetadataChanged(base.item, unlessAfter: Self.later)
        }
        try lose(base)
        #expect(try value(of: heir) == nil)
    }

    /// Of several with one identity, which was copied or moves more than once, here only the first
    /// is known by it.
    @Test func `what has the identity of another is known by it, too`() throws {
        let first = CatalogFixture.base(
            of: try fixture.addFile("first"),
            named: "first",
            version: "bytes"
        )
        try fixture.catalog.write { try $0.setBase(first) }
        let document = try document(of: first.item)
        let second = try addWritten("second")
        try fixture.catalog.write { try $0.noteHeir(second.item, of: document, at: Self.later) }
        let third = try find(remote("third", document: document))
        try lose(second)
        try requireWritten(third)
        #expect(try value(of: first.item) == nil)
    }

    /// Else this machine sends it with an identity of its own, by which nobody knows it again.
    @Test func `what was found in its new place is that document once the old one is gone`()
        throws
    {
        let old = CatalogFixture.base(
            of: try fixture.addFile("old"),
            named: "old",
            version: "bytes"
        )
        try fixture.catalog.write { try $0.setBase(old) }
        let document = try document(of: old.item)
        let heir = try find(remote("new", document: document, version: "others"))
        #expect(try self.document(of: heir) != document)
        try lose(old)
        #expect(try self.document(of: heir) == document)
        #expect(try fixture.catalog.read { try $0.unsentFiles(byBytes: true) }.hasBequests == false)
    }

    /// It may be sent before the other one is missed: its identity must not be lost by that.
    @Test func `an item is sent as the document that it is in the cloud`() throws {
        let base = try addWritten("old")
        let document = try document(of: base.item)
        let heir = try find(remote("new", document: document, version: "others"))
        let moment = Self.later + .seconds(60)
        let facts = try fixture.catalog.read { reader in
            try OutboxFacts(of: heir, in: reader, at: moment) { _, _ in false }
        }
        #expect(facts?.document == document)
        try fixture.catalog.write { try $0.removeBase(of: heir) }
        let anew = try fixture.catalog.read { reader in
            try OutboxFacts(of: heir, in: reader, at: moment) { _, _ in false }
        }
        #expect(try anew?.document == self.document(of: heir))
    }

    @Test func `a save in the new place is that document, too`() throws {
        let base = try addWritten("old")
        let document = try document(of: base.item)
        let heir = try find(remote("new", document: document, version: "others"))
        let save = try fixture.addFile("save")
        try fixture.catalog.write { writer in
            try writer.removeName(of: heir)
            let name = Array("new".utf8)
            try writer.moveName(of: save, to: name, in: .root)
            let old = try writer.inheritBase(
                save,
                name: name,
                in: .root,
                notBefore: Self.later,
                settleTime: { _ in }
            )
            #expect(old == heir)
        }
        try lose(base)
        #expect(try value(of: save) == [1])
        #expect(try self.document(of: save) == document)
    }

    @Test func `what was deleted here has nothing to hand on`() throws {
        let base = try addWritten("old")
        try fixture.catalog.write { try $0.removeName(of: base.item) }
        let other = try find(remote("new"))
        #expect(try fixture.catalog.write { try $0.eraseIfForgotten(base.item) } == false)
        try fixture.catalog.write { writer in
            try writer.removeBase(of: base.item)
            #expect(try writer.eraseIfForgotten(base.item))
        }
        #expect(try value(of: other) == nil)
    }

    @Test(arguments: [true, false])
    func `what waits is handed on for a week`(isLate: Bool) throws {
        let base = try addWritten("old")
        let document = try document(of: base.item)
        try lose(base)
        let moment = Self.later + .seconds(isLate ? 604_801 : 604_799)
        let heir = try find(remote("new", document: document), at: moment)
        #expect(try value(of: heir) == (isLate ? nil : [1]))
    }

    @Test(arguments: [true, false])
    func `what has waited for a week goes with the next that waits`(isLate: Bool) throws {
        try lose(try addWritten("first"))
        let moment = Self.later + .seconds(isLate ? 604_801 : 604_799)
        try lose(try addWritten("second", value: [2]), at: moment)
        let rows = try ["bequest", "bequest_attribute"].map { table in
            try fixture.catalog.read { reader in
                try Int.fetchOne(reader.database, sql: "SELECT count(*) FROM \(table)")
            }
        }
        #expect(rows == (isLate ? [1, 1] : [2, 2]))
    }

    @Test func `what was written on the heir since is newer, and tags are merged`() throws {
        let tags = TagList.attribute
        let base = try addWritten("old")
        let document = try document(of: base.item)
        try fixture.catalog.write { writer in
            try writer.noteEditing(tags, of: base.item)
            try writer.setAttribute(tags, to: Array("ours".utf8), of: base.item)
        }
        let heir = try find(
            remote("new", document: document, attributes: [tags: Array("theirs".utf8)])
        )
        try fixture.catalog.write { writer in
            try writer.noteEditing(Self.note, of: heir)
            try writer.setAttribute(Self.note, to: [9], of: heir)
            try writer.setMetadata(of: heir, permissions: 0o444, at: Self.later)
            try writer.markMetadataChanged(heir, .all, notBefore: Self.later)
        }
        try lose(base)
        #expect(try value(of: heir) == [9])
        #expect(try value(of: heir, tags) == Array("theirs,ours".utf8))
        let permissions = try fixture.catalog.read {
            try $0.existing(heir).item.metadata.permissions
        }
        #expect(permissions == 0o444)
    }

    // MARK: - Beside it

    /// Sent with them, the time of older bytes would make the new ones pass for those.
    @Test func `bytes that replace others have their own time, whatever is to be sent`() throws {
        let base = try addWritten("file")
        var newer = try remote("file")
        newer.metadata.modified = Self.later + .seconds(5)
        try fixture.catalog.write { writer in
            let id = base.item
            try writer.takeOverMetadata(of: newer, for: id, at: Self.later)
            #expect(try writer.reader.existing(id).item.metadata.modified == Self.later)
            try writer.takeOverMetadata(of: newer, for: id, isReplaced: true, at: Self.later)
            let shown = try writer.reader.existing(id).item.metadata
            #expect(shown.modified == newer.metadata.modified)
            #expect(shown.permissions == 0o600)
            #expect(try writer.reader.attribute(Self.note, of: id) == [1])
        }
    }

    /// A folder that another device removed and this one makes anew: the answer to its making
    /// tells of no attributes, and may be heard of late.
    @Test func `what is made anew keeps its attributes, whatever the cloud has meanwhile`() throws {
        let id = try fixture.addFile("file")
        var made = try remote("file")
        try fixture.catalog.write { writer in
            try writer.setAttribute(Self.note, to: [1], of: id)
            try writer.markAllAttributesEdited(id)
            try writer.takeOverMetadata(of: made, for: id, at: Self.later)
        }
        #expect(try value(of: id) == [1])
        made.attributes = ["user.other": [2]]
        let isNews = try fixture.catalog.write { writer in
            try writer.takeOverMetadata(of: made, for: id, at: Self.later)
        }
        #expect(isNews)
        #expect(try value(of: id) == [1])
        #expect(try value(of: id, "user.other") == [2])
    }

    /// Nobody else tells whoever sends of what the engine has queued.
    @Test(.timeLimit(.minutes(10)))
    func `whoever waits for something to send hears of each commit that queues it`() async throws {
        let file = try fixture.addFile("file")
        try fixture.catalog.write { try $0.enqueue(file, notBefore: Self.later) }
        await fixture.catalog.queued.wait()
        try fixture.catalog.write { try $0.postpone(file, until: Self.later + .seconds(9)) }
        await fixture.catalog.queued.wait()
    }
}
