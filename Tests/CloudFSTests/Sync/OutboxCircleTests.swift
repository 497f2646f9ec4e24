import CloudFSTestSupport
import Testing

@testable import CloudFS

/// Files that want each other's places in the cloud: who of them makes room.
@Suite struct OutboxCircleTests {
    private let fixture: CatalogFixture
    private static let count = 2_000

    init() throws {
        fixture = try CatalogFixture()
    }

    /// Adds files that the cloud has under their numbers, and gives each another's name.
    private func addFiles(_ count: Int, wanting place: (Int) -> Int) throws -> [ItemID] {
        try fixture.catalog.write(isLong: true) { writer in
            var ids: [ItemID] = []
            for number in 0..<count {
                let id = try writer.insert(
                    NewItem(
                        container: ContainerID(1),
                        kind: .file,
                        metadata: CatalogFixture.metadata
                    ),
                    name: Array("f\(place(number))".utf8),
                    in: .root,
                    at: CatalogFixture.now
                ).id
                try writer.setBase(
                    CatalogFixture.base(of: id, named: "f\(number)", version: "\(number)")
                )
                ids.append(id)
            }
            return ids
        }
    }

    private func makingRoom(of ids: [ItemID]) throws -> [ItemID] {
        try fixture.catalog.read { reader in
            var found: [ItemID] = []
            for id in ids {
                let facts = try OutboxFacts(
                    of: id,
                    in: reader,
                    at: CatalogFixture.now,
                    isIgnored: { _, _ in false }
                )
                if facts?.facts.isInCycle == true { found.append(id) }
            }
            return found
        }
    }

    @Test(arguments: [1, 1_999])
    func `in a long circle the first one makes room, and no other`(distance: Int) throws {
        let ids = try addFiles(Self.count) { ($0 + distance) % Self.count }
        #expect(try makingRoom(of: ids) == [ids[0]])
    }

    @Test func `of files in any order one of each circle makes room`() throws {
        var random = SeededRandom(seed: 5)
        let places = (0..<Self.count).shuffled(using: &random)
        var firsts: [Int] = []
        var seen: Set<Int> = []
        for first in 0..<Self.count where !seen.contains(first) {
            if places[first] != first { firsts.append(first) }
            var current = first
            while seen.insert(current).inserted { current = places[current] }
        }
        let ids = try addFiles(Self.count) { places[$0] }
        #expect(try makingRoom(of: ids) == firsts.map { ids[$0] })
    }

    @Test func `who waits for a place that will be left makes no room`() throws {
        let ids = try addFiles(Self.count) { $0 + 1 }
        #expect(try makingRoom(of: ids).isEmpty)
    }

    @Test(arguments: ["excluded", "removed"])
    func `nobody makes room in a circle with one that does not move`(how: String) throws {
        let ids = try addFiles(100) { ($0 + 1) % 100 }
        try fixture.catalog.write { writer in
            if how == "excluded" {
                try writer.setPolicy(.excluded, of: ids[50])
            } else {
                try writer.removeName(of: ids[50])
            }
        }
        #expect(try makingRoom(of: ids).isEmpty)
    }
}
