import Testing

@testable import CloudFS

/// What was changed here and not sent yet.
@Suite struct EditsTests {
    private let fixture: CatalogFixture
    private var catalog: Catalog { fixture.catalog }
    private static let favorite = RemoteAttribute.favorite

    init() throws {
        fixture = try CatalogFixture()
    }

    /// Saved anew, a document hands on what a person noted of it, with what the cloud has of that.
    @Test(arguments: [nil, [1]] as [[UInt8]?], [nil, [1]] as [[UInt8]?])
    func `a favorite that was not sent yet is sent with the next version`(
        base: [UInt8]?,
        own: [UInt8]?
    ) throws {
        let (old, heir) = (try fixture.addFile("old"), try fixture.addFile("heir"))
        try catalog.write { writer in
            if let base { try writer.setAttribute(Self.favorite, to: base, of: old) }
            try writer.noteEditing(Self.favorite, of: old)
            if let own {
                try writer.setAttribute(Self.favorite, to: own, of: old)
            } else {
                try writer.removeAttribute(Self.favorite, of: old)
            }
            try writer.passNotes(from: old, to: heir)
        }
        let (edits, value, isChanged) = try catalog.read { reader in
            (
                try reader.editedAttributes(of: heir),
                try reader.attribute(Self.favorite, of: heir),
                try reader.existing(heir).hasChangedMetadata
            )
        }
        #expect(edits == [Self.favorite: base] && value == own && isChanged)
    }

    @Test func `a favorite that the cloud has is no edit of the next version`() throws {
        let (old, heir) = (try fixture.addFile("old"), try fixture.addFile("heir"))
        try catalog.write { writer in
            try writer.setAttribute(Self.favorite, to: [1], of: old)
            try writer.passNotes(from: old, to: heir)
        }
        #expect(try catalog.read { try $0.editedAttributes(of: heir) }.isEmpty)
        #expect(try catalog.read { try $0.attribute(Self.favorite, of: heir) } == [1])
    }

    @Test func `what is changed during a request is sent, also after the clock was set back`()
        throws
    {
        let id = try fixture.addFile("file")
        let earlier = CatalogFixture.now + .seconds(-3_600)
        let changes: [(CatalogWriter) throws -> Void] = [
            { try $0.touch(id, at: earlier) },
            { try $0.setMetadata(of: id, permissions: 0o600, at: earlier) },
        ]
        for change in changes {
            let record = try catalog.write { writer in
                try writer.touch(id, at: CatalogFixture.now)
                try writer.setMetadataChanged(id, [])
                let sent = try writer.reader.existing(id).item.changed
                try change(writer)
                try writer.clearMetadataChanged(id, unlessAfter: sent)
                return try writer.reader.existing(id)
            }
            #expect(record.hasChangedMetadata)
        }
    }
}
