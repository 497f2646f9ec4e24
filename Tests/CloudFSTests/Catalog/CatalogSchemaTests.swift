import CloudFSTestSupport
import GRDB
import Testing

@testable import CloudFS

/// Catalogs that an earlier version has left.
@Suite struct CatalogSchemaTests {
    @Test func `a catalog with conflict versions by document keeps all its items`() throws {
        let folder = try TemporaryDirectory()
        let path = folder.path("catalog.sqlite")
        let copy = "a (conflicted copy desk 2026-11-20 14-30-05).txt"
        let old = try DatabaseQueue(path: path)
        try CatalogSchema.migrator.migrate(old, upTo: "4")
        try old.write { database in
            for (id, kind, name) in [(1, 2, ""), (2, 1, "a.txt"), (3, 1, copy), (4, 1, "b.txt")] {
                try database.execute(
                    sql: """
                        INSERT INTO item (id, container, document, kind, permissions, user_id,
                            group_id, size, modified, changed, accessed, conflict_of)
                        VALUES (?, 1, randomblob(16), ?, 420, 0, 0, 0, 0, 0, 0,
                            CASE ? WHEN 4 THEN randomblob(16) END)
                        """,
                    arguments: [id, kind, id]
                )
                guard !name.isEmpty else { continue }
                try database.execute(
                    sql: "INSERT INTO name (parent, name, item) VALUES (1, ?, ?)",
                    arguments: [Array(name.utf8).asBlob, id]
                )
            }
        }
        try old.close()

        let catalog = try Catalog(path: path)
        let (found, count) = try catalog.read { reader in
            let names = try ["a.txt", copy, "b.txt"].map {
                try reader.child(Array($0.utf8), of: .root).map { try reader.isInConflict($0.id) }
            }
            return (names, try reader.conflictCount())
        }
        #expect(found == [true, true, false])
        #expect(count == 1)
    }
}
