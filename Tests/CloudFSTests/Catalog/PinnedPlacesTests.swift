import CloudFSTestSupport
import Testing

@testable import CloudFS

/// What comes to a pinned place is asked for.
@Suite struct PinnedPlacesTests {
    private let fixture: CatalogFixture
    /// A pinned folder.
    private let pinned: ItemID

    private var catalog: Catalog { fixture.catalog }

    init() throws {
        fixture = try CatalogFixture()
        pinned = try Self.add("pinned", .folder, in: .root, of: fixture.catalog)
        try setPolicy(.pinned, of: pinned)
    }

    private static func add(
        _ name: String,
        _ kind: ItemKind,
        in folder: ItemID,
        of catalog: Catalog
    ) throws -> ItemID {
        var new = NewItem(container: ContainerID(1), kind: kind, metadata: CatalogFixture.metadata)
        if kind == .file { new.size = 3 }
        return try catalog.write { writer in
            try writer.insert(new, name: Array(name.utf8), in: folder, at: CatalogFixture.now).id
        }
    }

    private func add(_ name: String, _ kind: ItemKind, in folder: ItemID) throws -> ItemID {
        try Self.add(name, kind, in: folder, of: catalog)
    }

    private func setPolicy(_ policy: ContentPolicy, of id: ItemID) throws {
        try catalog.write { try $0.setPolicy(policy, of: id) }
    }

    private func move(
        _ id: ItemID,
        to name: String,
        in folder: ItemID,
        replacing victim: ItemID? = nil
    ) throws {
        try catalog.write { writer in
            _ = try writer.rename(
                id,
                to: Array(name.utf8),
                in: folder,
                replacing: victim,
                at: CatalogFixture.now,
                notBefore: CatalogFixture.now,
                settleTime: { _ in }
            )
        }
    }

    private func wanted() throws -> Set<ItemID> {
        Set(try catalog.read { try $0.wantedFiles(limit: 100) })
    }

    @Test func `what is moved to a pinned place is asked for, with all below it`() throws {
        let file = try add("file", .file, in: .root)
        let folder = try add("folder", .folder, in: .root)
        let inner = try add("inner", .file, in: folder)
        let own = try add("own", .file, in: folder)
        try setPolicy(.onDemand, of: own)
        try move(file, to: "renamed", in: .root)
        #expect(try wanted().isEmpty)
        try move(file, to: "file", in: pinned)
        #expect(try wanted() == [file])
        try move(folder, to: "folder", in: pinned)
        #expect(try wanted() == [file, inner])
    }

    @Test func `what the cloud has moved there is asked for`() throws {
        let file = try add("file", .file, in: .root)
        try catalog.write { try $0.moveName(of: file, to: Array("file".utf8), in: pinned) }
        #expect(try wanted() == [file])
    }

    @Test func `what takes the place of another there is asked for`() throws {
        let old = try add("file", .file, in: pinned)
        let new = try add("new", .file, in: .root)
        try move(new, to: "file", in: pinned, replacing: old)
        #expect(try wanted() == [new])
    }

    @Test func `what is exchanged for something there is asked for`() throws {
        let first = try add("first", .file, in: pinned)
        let second = try add("second", .file, in: .root)
        try catalog.write { writer in
            try writer.exchange(
                first,
                second,
                at: CatalogFixture.now,
                notBefore: CatalogFixture.now
            )
        }
        #expect(try wanted() == [second])
    }

    @Test func `what was in a pinned place before, or is here, is not asked for`() throws {
        let folder = try add("folder", .folder, in: pinned)
        let file = try add("file", .file, in: folder)
        try move(file, to: "file", in: pinned)
        let here = try add("here", .file, in: .root)
        try catalog.write { try $0.setContent(of: here, generation: 1, residency: .resident) }
        try move(here, to: "here", in: pinned)
        #expect(try wanted().isEmpty)
    }

    @Test func `what was left out is asked for at the next start`() throws {
        let inner = try add("inner", .file, in: pinned)
        let alone = try add("alone", .file, in: .root)
        try setPolicy(.pinned, of: alone)
        let exception = try add("exception", .folder, in: pinned)
        _ = try add("free", .file, in: exception)
        try setPolicy(.onDemand, of: exception)
        let removed = try add("removed", .file, in: pinned)
        try setPolicy(.pinned, of: removed)
        try catalog.write { try $0.removeName(of: removed) }
        _ = try add("other", .file, in: .root)
        #expect(try Set(missed()) == [inner, alone])
        try catalog.writeInSteps(missed()) { try $0.followPolicy($1) }
        #expect(try wanted() == [inner, alone])
        #expect(try missed().isEmpty)
    }

    private func missed() throws -> [ItemID] { try catalog.read { try $0.missedPinned() } }

    private func follow(_ policy: ContentPolicy, of id: ItemID) throws {
        try setPolicy(policy, of: id)
        let behind = try catalog.read { try $0.filesBehindPolicy(of: id) }
        try catalog.writeInSteps(behind) { try $0.followPolicy($1) }
        #expect(try catalog.read { try $0.filesBehindPolicy(of: id) }.isEmpty)
    }

    @Test func `what follows a policy is asked for as that says, what has its own is not`() throws {
        let top = try add("top", .folder, in: .root)
        let file = try add("file", .file, in: top)
        let folder = try add("folder", .folder, in: top)
        let inner = try add("inner", .file, in: folder)
        let pinned = try add("pinned", .folder, in: top)
        let kept = try add("kept", .file, in: pinned)
        let free = try add("free", .folder, in: top)
        let asked = try add("asked", .file, in: free)
        try follow(.pinned, of: pinned)
        try setPolicy(.onDemand, of: free)
        try catalog.write { try $0.want(asked) }
        try follow(.pinned, of: top)
        #expect(try wanted() == [file, inner, kept, asked])
        try follow(.inherited, of: top)
        #expect(try wanted() == [kept, asked])
    }

    /// Another one may be said to be pinned, and not to be, while they are gone through.
    @Test func `what is not pinned any more is not asked for, nor what has come meanwhile`() throws
    {
        let file = try add("file", .file, in: pinned)
        let here = try add("here", .file, in: pinned)
        let files = try missed()
        #expect(files.count == 2)
        try setPolicy(.inherited, of: pinned)
        try catalog.writeInSteps(files) { try $0.followPolicy($1) }
        #expect(try wanted().isEmpty)
        try setPolicy(.pinned, of: pinned)
        try catalog.write { try $0.setContent(of: here, generation: 1, residency: .resident) }
        try catalog.writeInSteps(files) { try $0.followPolicy($1) }
        try catalog.write { for id in files { try $0.want(id) } }
        #expect(try wanted() == [file])
    }

    /// Whoever renames it would wait for all of it to be looked at.
    @Test func `a large folder that comes to a pinned place is asked for later`() async throws {
        let folder = try add("folder", .folder, in: .root)
        let files = try catalog.write { writer in
            var new = NewItem(
                container: ContainerID(1),
                kind: .file,
                metadata: CatalogFixture.metadata
            )
            new.size = 3
            return try (0..<1_200).map { number in
                let name = Array("file \(number)".utf8)
                return try writer.insert(new, name: name, in: folder, at: CatalogFixture.now).id
            }
        }
        try move(folder, to: "folder", in: pinned)
        #expect(try wanted().isEmpty)
        await catalog.pinned.wait()
        #expect(try Set(missed()) == Set(files))
    }
}
